/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes and machines that stop for seconds, or end for good without a word, and devices half of whose
 * completion queues become silent, for some runs.
 */
#ifndef DETOUR_TESTS_SIM_PASSING_H
#define DETOUR_TESTS_SIM_PASSING_H

#include "tests/sim/scenario.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For half of the seeds of profile failover, besides their other faults. Drawn apart from the rest, so that
 * it changes nothing of other runs. */
void dt_passing_draw(struct dt_scenario *scenario);

#ifdef __cplusplus
}
#endif

#endif
