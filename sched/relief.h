/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules that exceed the memory limits, made feasible by offloading activations to the host. */
#ifndef DETOUR_SCHED_RELIEF_H
#define DETOUR_SCHED_RELIEF_H

#include "sched/generator.h"
#include "sched/simulate.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Marks activations of a timed schedule as offloaded until the limits of `p` hold, and times it again.
 * DETOUR_OVER_MEMORY if that does not help.
 */
enum detour_status dt_relieve(struct dt_call *call, const struct dt_problem *p,
                              struct detour_schedule *schedule, struct dt_times *times);

/*
 * The best schedule found by planning with relaxed limits (ADAPTRA and the Zero Bubble heuristic) and
 * relieving the result. DETOUR_MEMORY_TOO_SMALL if no stage can offload or nothing helps.
 */
enum detour_status dt_generate_relieved(struct dt_call *call, const struct dt_problem *p,
                                        struct dt_result *result);

#ifdef __cplusplus
}
#endif

#endif
