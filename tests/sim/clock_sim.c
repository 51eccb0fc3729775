/* SPDX-License-Identifier: Apache-2.0 */
/* The one clock of a simulation: takes the place of base/clock.c when one is linked. */
#include "base/clock.h"
#include "tests/sim/driver_sim.h"

uint64_t dt_clock_now_ns(void)
{
    return dt_sim_now_ns(dt_driver_sim_network());
}
