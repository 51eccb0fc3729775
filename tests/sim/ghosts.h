/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ghosts: packets that come when their epoch is over, for some runs. Queue pairs' numbers are given out
 * again, and with few slots and many open receives their places are, too.
 */
#ifndef DETOUR_TESTS_SIM_GHOSTS_H
#define DETOUR_TESTS_SIM_GHOSTS_H

#include "tests/sim/scenario.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For half of the seeds of profile failover, in place of their faults. Drawn apart from the rest, so that it
 * changes nothing of other runs. */
void dt_ghosts_draw(struct dt_scenario *scenario);

#ifdef __cplusplus
}
#endif

#endif
