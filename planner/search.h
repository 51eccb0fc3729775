/* SPDX-License-Identifier: Apache-2.0 */
/* The two searches over partitions and placements; both leave their best pipelines in a pool. */
#ifndef DETOUR_PLANNER_SEARCH_H
#define DETOUR_PLANNER_SEARCH_H

#include "planner/evaluate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A pipeline whose makespan is that of a quick schedule (dt_quick_iteration()). */
struct dt_scored {
    struct dt_pipeline *pipeline;
    int64_t makespan_ns; /* INT64_MAX: does not fit */
};

/* The best different pipelines, the best first. */
enum { DT_POOL_SIZE = 6 };
struct dt_pool {
    struct dt_scored entries[DT_POOL_SIZE];
    int32_t count; /* with a makespan */
};

enum detour_status dt_pool_init(struct dt_optimizer *o, struct dt_pool *pool);

/* Copies the pipeline into the pool if it is among the best and not there yet. */
void dt_pool_offer(struct dt_pool *pool, const struct dt_pipeline *pipeline, int64_t makespan_ns);

/*
 * The paper's tuning (section 4.3, Figure 6) from `pipeline`, in place: where the performance report shows
 * unequal bubbles, a layer moves from the stage with the least bubble to the one with the most; where it does
 * not, or where that does not pay, stages are split and placed in another pattern. What does not pay is taken
 * back. Ends when nothing does.
 */
enum detour_status dt_tune(struct dt_optimizer *o, struct dt_pipeline *pipeline, int64_t *makespan_ns);

/*
 * The joint search: from every pattern of placement, changes of partition and placement by the estimate
 * alone; then changes that the estimate does not dismiss, each with a schedule. Until the budget is used up
 * or the bound is met.
 */
enum detour_status dt_explore(struct dt_optimizer *o, struct dt_pool *pool);

/*
 * The v-th pattern to begin with, from 0: its devices and a partition. *usable is false if the model has none
 * of that form. False when there are no more, or with *status DETOUR_NO_MEMORY.
 */
bool dt_pattern(const struct dt_optimizer *o, int v, struct dt_pipeline *pipeline, bool *usable,
                enum detour_status *status);

#ifdef __cplusplus
}
#endif

#endif
