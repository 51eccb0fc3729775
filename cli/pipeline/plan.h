/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run executes: the profile of its files or options, its schedule and program, and how long an
 * iteration takes according to the model of the schedule library. Every rank makes the same plan by itself.
 * Replicas with other numbers of microbatches (--dp-microbatches) have a schedule for each number.
 */
#ifndef DETOUR_CLI_PIPELINE_PLAN_H
#define DETOUR_CLI_PIPELINE_PLAN_H

#include "cli/pipeline/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The schedule for a number of microbatches. */
struct dt_pipeline_variant {
    struct detour_profile profile; /* that of the plan but for the number; it shares the arrays */
    struct detour_schedule *schedule;
    struct detour_program *program;
};

struct dt_pipeline_plan {
    const struct dt_pipeline_options *options;
    struct detour_arena *arena;    /* has the members below */
    struct detour_profile profile; /* as planned: nothing is slow */
    struct detour_schedule *schedule;
    struct detour_program *program;
    enum detour_algorithm algorithm; /* that made the schedule */
    struct dt_pipeline_variant
        *variants; /* [variant_count], for the other numbers of --dp-microbatches; malloc'ed */
    size_t variant_count;
};

/* False with the reason in *error. dt_pipeline_plan_free() in both cases. */
bool dt_pipeline_plan_make(struct dt_pipeline_plan *plan, const struct dt_pipeline_options *options,
                           struct detour_error *error);

/* The schedules for the options' numbers of microbatches, which have changed. False with the reason. */
bool dt_pipeline_plan_vary(struct dt_pipeline_plan *plan, struct detour_error *error);

void dt_pipeline_plan_free(struct dt_pipeline_plan *plan);

/* What a replica executes in an iteration, as planned. */
struct dt_pipeline_variant dt_pipeline_plan_of(const struct dt_pipeline_plan *plan, int32_t replica,
                                               uint32_t iteration);

/*
 * The stages, links and microbatches of the options with what is slow in that iteration in a replica. The
 * arrays are malloc'ed. False when out of memory. dt_pipeline_profile_free() otherwise.
 */
bool dt_pipeline_profile_make(const struct dt_pipeline_options *options, int32_t replica, uint32_t iteration,
                              struct detour_profile *profile);
void dt_pipeline_profile_free(struct detour_profile *profile);

/*
 * The time that the model gives schedules, [replica], with what is slow in that iteration: the makespan, or,
 * with replicas, the end of the last all-reduce of gradients. NULL: the schedule of each replica in the plan.
 * 0 when out of memory.
 */
int64_t dt_pipeline_plan_predict_ns(const struct dt_pipeline_plan *plan,
                                    const struct detour_schedule *const *schedules, uint32_t iteration);

#ifdef __cplusplus
}
#endif

#endif
