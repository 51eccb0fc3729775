/* SPDX-License-Identifier: Apache-2.0 */
/* Partitions to begin with: equal numbers of layers, and the best contiguous one. */
#ifndef DETOUR_PLANNER_BALANCE_H
#define DETOUR_PLANNER_BALANCE_H

#include "planner/pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Equal numbers of layers for the stages that `pipeline` has (stage_count and device[] are set), the rest to
 * the first ones; a first or last layer whose type occurs once (embedding, output) goes to its stage in
 * addition, as Megatron-LM does. False if there are fewer layers than stages.
 */
bool dt_partition_uniform(const struct dt_space *space, struct dt_pipeline *pipeline);

/*
 * Mist's contiguous partition: of those in which stage i of S fits into its device's memory with min(N, S -
 * i, inflight_max) activations (1F1B holds S - i), the one whose largest stage takes the least time. A
 * dynamic program over (stage, layer) tells whether there is one below a limit; bisection finds the limit.
 *
 * *found is false if no partition fits. A device with several stages counts each of them against its whole
 * memory. Scratch memory is given back. DETOUR_NO_MEMORY.
 */
enum detour_status dt_partition_balanced(struct detour_arena *arena, const struct dt_space *space,
                                         int32_t inflight_max, struct dt_pipeline *pipeline, bool *found,
                                         struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
