/* SPDX-License-Identifier: Apache-2.0 */
/* The best pipelines so far, and the patterns with which every search begins. */
#include <string.h>

#include "base/util.h"
#include "planner/balance.h"
#include "planner/search.h"
#include "sched/call.h"

enum detour_status dt_pool_init(struct dt_optimizer *o, struct dt_pool *pool)
{
    *pool = (struct dt_pool){.count = 0};
    for (int k = 0; k < DT_POOL_SIZE; k++) {
        pool->entries[k].pipeline = dt_pipeline_create(o->arena, o->space);
        if (!pool->entries[k].pipeline)
            return dt_fail_memory(o->error);
    }
    return DETOUR_OK;
}

static bool is_same(const struct dt_pipeline *a, const struct dt_pipeline *b)
{
    size_t bytes = (size_t)a->stage_count * sizeof(int32_t);

    return a->stage_count == b->stage_count && !memcmp(a->first_layer, b->first_layer, bytes) &&
           !memcmp(a->device, b->device, bytes);
}

void dt_pool_offer(struct dt_pool *pool, const struct dt_pipeline *pipeline, int64_t makespan_ns)
{
    int32_t at = pool->count;

    for (int32_t k = 0; k < pool->count; k++)
        if (is_same(pool->entries[k].pipeline, pipeline))
            return;
    while (at > 0 && makespan_ns < pool->entries[at - 1].makespan_ns)
        at--;
    if (at == DT_POOL_SIZE || makespan_ns == INT64_MAX)
        return;
    if (pool->count < DT_POOL_SIZE)
        pool->count++;
    struct dt_scored last = pool->entries[pool->count - 1];
    memmove(&pool->entries[at + 1], &pool->entries[at],
            (size_t)(pool->count - 1 - at) * sizeof(pool->entries[0]));
    dt_pipeline_copy(last.pipeline, pipeline);
    last.makespan_ns = makespan_ns;
    pool->entries[at] = last;
}

static const struct {
    enum detour_placement placement;
    int32_t stages_per_device;
} patterns[] = {
    {DETOUR_PLACEMENT_SEQUENTIAL, 1},  {DETOUR_PLACEMENT_WAVE, 2},        {DETOUR_PLACEMENT_INTERLEAVED, 2},
    {DETOUR_PLACEMENT_INTERLEAVED, 3}, {DETOUR_PLACEMENT_WAVE, 3},        {DETOUR_PLACEMENT_WAVE, 4},
    {DETOUR_PLACEMENT_INTERLEAVED, 4}, {DETOUR_PLACEMENT_INTERLEAVED, 6}, {DETOUR_PLACEMENT_WAVE, 6},
};

/* The devices of the pattern, or what the model fixes; false if the pattern does not apply. */
static bool place(const struct dt_optimizer *o, int v, struct dt_pipeline *pipeline)
{
    const struct detour_partition *fixed = &o->model->fixed;
    int32_t devices = o->model->device_count, stages = patterns[v].stages_per_device * devices;

    if (fixed->stage_count && (fixed->device || fixed->stage_count % devices)) {
        pipeline->stage_count = fixed->stage_count;
        for (int32_t i = 0; i < fixed->stage_count; i++)
            pipeline->device[i] = fixed->device ? fixed->device[i] : i % devices;
        return v == 0;
    }
    if (!(o->parts & DETOUR_TUNE_PLACEMENT) && v > 0 && !fixed->stage_count)
        return false;
    pipeline->stage_count = stages;
    return stages <= o->space->stages_max && (!fixed->stage_count || stages == fixed->stage_count) &&
           !detour_placement_fill(patterns[v].placement, stages, devices, pipeline->device, NULL);
}

/* As the model has it, in equal parts, or balanced: with memory for 1F1B, else for one microbatch. */
static enum detour_status cut(const struct dt_optimizer *o, struct dt_pipeline *pipeline, bool *usable)
{
    const int32_t *first_layer = o->model->fixed.first_layer;
    enum detour_status status = DETOUR_OK;

    *usable = true;
    if (first_layer) {
        memcpy(pipeline->first_layer, first_layer,
               ((size_t)pipeline->stage_count + 1) * sizeof(*first_layer));
        return DETOUR_OK;
    }
    if (o->parts & DETOUR_TUNE_PARTITION) {
        status = dt_partition_balanced(o->arena, o->space, INT32_MAX, pipeline, usable, o->error);
        if (!status && !*usable)
            status = dt_partition_balanced(o->arena, o->space, 1, pipeline, usable, o->error);
        if (status || *usable)
            return status;
    }
    *usable = dt_partition_uniform(o->space, pipeline);
    return DETOUR_OK;
}

bool dt_pattern(const struct dt_optimizer *o, int v, struct dt_pipeline *pipeline, bool *usable,
                enum detour_status *status)
{
    if (v >= (int)DT_COUNT_OF(patterns))
        return false;
    *usable = place(o, v, pipeline);
    if (*usable)
        *status = cut(o, pipeline, usable);
    *usable = *usable && !*status;
    return !*status;
}
