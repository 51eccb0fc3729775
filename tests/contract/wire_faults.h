// SPDX-License-Identifier: Apache-2.0
// The fault hooks of a device by its number: the driver has their addresses (driver.c, or driver_sim.c).
#ifndef DETOUR_TESTS_CONTRACT_WIRE_FAULTS_H
#define DETOUR_TESTS_CONTRACT_WIRE_FAULTS_H

#include <stdexcept>
#include <string>

#include "softrnic/driver.h"

namespace detour_test
{
// Calls `act` with the fault rules of soft<device>, under its lock.
template <typename Act>
void WithFaults(int device, Act act)
{
    uint64_t now_ns;
    struct dt_soft_device *soft = dt_driver_find(("soft" + std::to_string(device)).c_str(), &now_ns);

    if (!soft)
        throw std::runtime_error("the device is not open");
    act(soft->faults);
    dt_driver_unlock(soft);
}
} // namespace detour_test

#endif
