/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What detour-sim-pipeline executes: the settings of a run, the profile of its equal stages or of its files,
 * the schedules for them, and how long libdetour-sched expects an iteration to take.
 */
#ifndef DETOUR_TESTS_SIM_PIPELINE_PLAN_H
#define DETOUR_TESTS_SIM_PIPELINE_PLAN_H

#include "cli/pipeline/input.h"
#include "tests/sim/pipeline_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PIPELINE_SIM_SLOW_MAX 16

struct dt_pipeline_sim_settings {
    int32_t devices, microbatches;
    int64_t f_ns, b_ns, w_ns;
    enum detour_algorithm algorithm;
    bool knows_delays; /* the schedule is made for the slow links */
    bool plans_free;   /* ... for links that take no time */
    bool adapts;       /* and follows the delays that are measured */
    const char *profile_path, *plan_path;
    const struct dt_pipeline_input *input; /* of these, instead of devices, times and links; NULL: none */
    struct dt_pipeline_sim_options sim;
    struct dt_pipeline_slow_link slow[DT_PIPELINE_SIM_SLOW_MAX];
    struct dt_pipeline_slow_device slow_device[DT_PIPELINE_SIM_SLOW_MAX];
};

/* A profile and what it points to. It is not copied: its arrays are members. */
struct dt_pipeline_sim_model {
    struct detour_profile profile;
    struct detour_stage stages[DT_PIPELINE_STAGES_MAX];
    struct detour_link links[DT_PIPELINE_STAGES_MAX];
};

/*
 * What a message costs on a healthy link: it occupies the link for its bytes and arrives a latency later. The
 * copies of the host path are not in it. replica: whose slow links and devices it has.
 */
void dt_pipeline_sim_model_make(const struct dt_pipeline_sim_settings *settings, bool has_delays,
                                int32_t replica, struct dt_pipeline_sim_model *model);

struct dt_pipeline_sim_plan {
    struct dt_pipeline_sim_model model; /* without what is slow */
    struct detour_schedule *schedule;
    struct detour_program *program;
    /* Of each number of microbatches in --dp-microbatches, [variant_count]. */
    struct dt_pipeline_sim_variant variants[DT_PIPELINE_SHARE_SETS_MAX * DT_PIPELINE_SHARE_REPLICAS_MAX];
    struct detour_schedule *schedules[DT_PIPELINE_SHARE_SETS_MAX * DT_PIPELINE_SHARE_REPLICAS_MAX];
    size_t variant_count;
    int64_t makespan_ns; /* of the last iteration, with the gradients behind it */
    int64_t lower_bound_ns;
};

/* The schedules that are executed, and what libdetour-sched expects of them on the links as they are. */
enum detour_status dt_pipeline_sim_plan_make(struct detour_arena *arena,
                                             const struct dt_pipeline_sim_settings *settings,
                                             struct dt_pipeline_sim_plan *plan, struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
