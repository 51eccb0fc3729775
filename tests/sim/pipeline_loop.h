/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --adapt of detour-sim-pipeline: after each iteration the measured delays may call for another schedule
 * (detour_adapt), which all devices use from an agreed iteration on (pipeline/agreement.h), as in `detour
 * pipeline --adapt iteration` (cli/pipeline/rank.c). Here the delays are the mean of an iteration's messages,
 * on the simulation's one clock, in place of the plugin's verdicts.
 */
#ifndef DETOUR_TESTS_SIM_PIPELINE_LOOP_H
#define DETOUR_TESTS_SIM_PIPELINE_LOOP_H

#include "tests/sim/pipeline_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_pipeline_loop;

/*
 * `healthy`: times of the links without delay; `planned`: the profile for which `schedule` was made. Both are
 * read until the loop is destroyed, as is `schedule`. NULL when out of memory.
 */
struct dt_pipeline_loop *dt_pipeline_loop_create(const struct detour_profile *healthy,
                                                 const struct detour_profile *planned,
                                                 const struct detour_schedule *schedule);

/* NULL is allowed. The programs that it has returned end with it. */
void dt_pipeline_loop_destroy(struct dt_pipeline_loop *loop);

/* dt_pipeline_sim_options.after; `arg` is the loop. */
const struct detour_program *dt_pipeline_loop_after(void *arg, uint32_t iteration,
                                                    const struct dt_pipeline_sim_transit *transit);

/* How often the schedule was changed. */
uint32_t dt_pipeline_loop_changes(const struct dt_pipeline_loop *loop);

#ifdef __cplusplus
}
#endif

#endif
