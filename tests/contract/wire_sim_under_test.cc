// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "tests/contract/wire_under_test.h"
#include "tests/sim/driver_sim.h"

namespace detour_test
{
const char *const kWireName = "sim";
const ibv_wc_status kWrongLocalKeyStatus = IBV_WC_LOC_PROT_ERR;

void StartWire()
{
    dt_sim_options options = {};

    options.seed = 1;
    options.start_ns = 1000000000;
    options.latency_ns = 2000;
    if (!dt_driver_sim_start(&options, 2))
        throw std::runtime_error("no memory for the network");
}

void StopWire()
{
    dt_driver_sim_stop();
}

void PassTime(uint64_t ns)
{
    dt_sim *sim = dt_driver_sim_network();

    dt_sim_run_until(sim, dt_sim_now_ns(sim) + ns);
}
} // namespace detour_test
