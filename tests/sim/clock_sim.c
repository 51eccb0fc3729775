/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of a simulation, as the host that runs now reads it: takes the place of base/clock.c. */
#include "base/clock.h"
#include "tests/sim/driver_sim.h"

uint64_t dt_clock_now_ns(void)
{
    return dt_driver_sim_clock_ns();
}
