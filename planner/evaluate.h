/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pipeline costs: quickly, for the search (one dispatch), and in full, for the candidates that are
 * kept. Counts the operations that it schedules, which is the budget of the search.
 */
#ifndef DETOUR_PLANNER_EVALUATE_H
#define DETOUR_PLANNER_EVALUATE_H

#include "detour/optimize.h"
#include "planner/pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The state of one detour_optimize(). */
struct dt_optimizer {
    struct detour_arena *arena;
    const struct detour_model *model;
    const struct detour_optimize_options *options;
    struct detour_error *error;
    struct dt_space *space;
    struct detour_optimization *result;
    int parts;
    uint64_t budget;
    uint64_t effort; /* spent of the budget */
    const char *phase;
    int64_t best_ns;            /* the shortest iteration known; INT64_MAX: none */
    struct dt_estimate closest; /* of all that were looked at: the least over its memory */
    bool stopped;
};

/*
 * The iteration with a schedule made by one pass of the dispatcher, or, where schedules are not tuned, with
 * the fixed order of the placement; INT64_MAX if none fits. Sets *status only on DETOUR_NO_MEMORY.
 */
int64_t dt_quick_iteration(struct dt_optimizer *o, const struct dt_pipeline *pipeline,
                           enum detour_status *status);

/*
 * A plan by one algorithm of sched/, with its performance; without a plan, *out has the problem. The results
 * stay in the arena. DETOUR_OK or DETOUR_NO_MEMORY.
 */
enum detour_status dt_full_plan(struct dt_optimizer *o, const struct dt_pipeline *pipeline,
                                const struct detour_options *options, struct detour_pipeline *out);

/* The best plan that can be had for the pipeline: all algorithms, or the fixed order where they are not
 * tuned. */
enum detour_status dt_best_plan(struct dt_optimizer *o, const struct dt_pipeline *pipeline, bool search,
                                struct detour_pipeline *out);

/* < 0 if `a` is better: it has a plan, and a shorter iteration. */
int dt_plan_compare(const struct detour_pipeline *a, const struct detour_pipeline *b);

/* dt_pipeline_estimate(), counted. */
struct dt_estimate dt_look(struct dt_optimizer *o, const struct dt_pipeline *pipeline);

/* Whether the search goes on: budget, bound not met, and the caller's progress function agrees. */
bool dt_goes_on(struct dt_optimizer *o);

#ifdef __cplusplus
}
#endif

#endif
