// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <stdexcept>
#include <thread>

#include "softrnic/softrnic.h"
#include "tests/contract/wire_under_test.h"

namespace detour_test
{
const char *const kWireName = "local";
const ibv_wc_status kWrongLocalKeyStatus = IBV_WC_LOC_PROT_ERR;

void StartWire()
{
    dt_soft_options options = {};

    options.device_count = 2;
    if (dt_soft_configure(&options))
        throw std::runtime_error("the software RNIC refuses two devices");
}

void StopWire() {}

void PassTime(uint64_t ns)
{
    std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
}
} // namespace detour_test
