/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/baseline.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/util.h"
#include "planner/balance.h"
#include "sched/arena.h"
#include "sched/call.h"

/* One variant: stages per device, and what is done with them. */
struct variant {
    enum detour_baseline baseline;
    enum detour_placement placement;
    int32_t stages_per_device;
    bool balanced;
    enum detour_algorithm algorithm;
};

static const char *const names[DETOUR_BASELINE_COUNT] = {"S-1F1B", "I-1F1B", "ZB", "ZB-V", "Hanayo", "Mist"};

static const struct variant variants[] = {
    {DETOUR_BASELINE_S_1F1B, DETOUR_PLACEMENT_SEQUENTIAL, 1, false, DETOUR_ALGORITHM_1F1B},
    {DETOUR_BASELINE_I_1F1B, DETOUR_PLACEMENT_INTERLEAVED, 2, false, DETOUR_ALGORITHM_INTERLEAVED},
    {DETOUR_BASELINE_I_1F1B, DETOUR_PLACEMENT_INTERLEAVED, 3, false, DETOUR_ALGORITHM_INTERLEAVED},
    {DETOUR_BASELINE_I_1F1B, DETOUR_PLACEMENT_INTERLEAVED, 4, false, DETOUR_ALGORITHM_INTERLEAVED},
    {DETOUR_BASELINE_ZB, DETOUR_PLACEMENT_SEQUENTIAL, 1, false, DETOUR_ALGORITHM_ZB},
    {DETOUR_BASELINE_ZB_V, DETOUR_PLACEMENT_WAVE, 2, false, DETOUR_ALGORITHM_ZB_V},
    {DETOUR_BASELINE_HANAYO, DETOUR_PLACEMENT_WAVE, 2, false, DETOUR_ALGORITHM_HANAYO},
    {DETOUR_BASELINE_HANAYO, DETOUR_PLACEMENT_WAVE, 4, false, DETOUR_ALGORITHM_HANAYO},
    {DETOUR_BASELINE_MIST, DETOUR_PLACEMENT_SEQUENTIAL, 1, true, DETOUR_ALGORITHM_1F1B},
};

const char *detour_baseline_name(enum detour_baseline baseline)
{
    return (unsigned)baseline < DT_COUNT_OF(names) ? names[baseline] : NULL;
}

/* The partition of a variant; *found is false, with the reason in `problem`, if there is none. */
static enum detour_status cut(struct dt_optimizer *o, const struct variant *variant,
                              struct dt_pipeline *pipeline, bool *found,
                              char problem[DETOUR_ERROR_TEXT_BYTES])
{
    int32_t stages = variant->stages_per_device * o->model->device_count;
    enum detour_status status = DETOUR_OK;

    *found = false;
    if (stages > o->space->stages_max) {
        snprintf(problem, DETOUR_ERROR_TEXT_BYTES, "%" PRId32 " stages for %" PRId32 " layers", stages,
                 o->model->layer_count);
        return DETOUR_OK;
    }
    pipeline->stage_count = stages;
    detour_placement_fill(variant->placement, stages, o->model->device_count, pipeline->device, NULL);
    if (variant->balanced)
        status = dt_partition_balanced(o->arena, o->space, INT32_MAX, pipeline, found, o->error);
    else
        *found = dt_partition_uniform(o->space, pipeline);
    if (!*found)
        snprintf(problem, DETOUR_ERROR_TEXT_BYTES, "no partition into %" PRId32 " stages fits", stages);
    return status;
}

static enum detour_status make(struct dt_optimizer *o, const struct variant *variant,
                               struct dt_pipeline *pipeline)
{
    struct detour_pipeline *kept = &o->result->baselines[variant->baseline], made = {.plan = NULL};
    struct detour_options options = {.algorithm = variant->algorithm};
    struct detour_error error;
    bool found;

    enum detour_status status = cut(o, variant, pipeline, &found, made.problem);
    if (found) {
        struct detour_partition partition = dt_pipeline_partition(pipeline);
        if (detour_partition_check(o->model, &partition, &error))
            snprintf(made.problem, sizeof(made.problem), "%s", error.text);
        else
            status = dt_full_plan(o, pipeline, &options, &made);
    }
    bool is_first = !kept->plan && !kept->problem[0];
    if (!status && (is_first || dt_plan_compare(&made, kept) < 0))
        *kept = made;
    return status;
}

enum detour_status dt_baselines_make(struct dt_optimizer *o)
{
    struct dt_pipeline *pipeline = dt_pipeline_create(o->arena, o->space);
    enum detour_status status = pipeline ? DETOUR_OK : dt_fail_memory(o->error);

    o->phase = "baselines";
    for (size_t v = 0; !status && v < DT_COUNT_OF(variants); v++)
        status = make(o, &variants[v], pipeline);
    return status;
}
