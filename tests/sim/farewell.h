/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goodbyes that are lost, for some runs: the control channel breaks just when an end has closed, and the
 * sender does not know yet what has arrived.
 */
#ifndef DETOUR_TESTS_SIM_FAREWELL_H
#define DETOUR_TESTS_SIM_FAREWELL_H

#include "tests/sim/scenario.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For a twelfth of the seeds of profile failover, in place of their faults. Drawn apart from the rest, so
 * that it changes nothing of other runs. */
void dt_farewell_draw(struct dt_scenario *scenario);

#ifdef __cplusplus
}
#endif

#endif
