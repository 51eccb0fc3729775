/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/balance.h"

#include <string.h>

#include "planner/model.h"
#include "sched/arena.h"
#include "sched/call.h"

/* Whether only this layer has its type. */
static bool is_single(const struct detour_model *model, int32_t layer)
{
    for (int32_t l = 0; l < model->layer_count; l++)
        if (l != layer && !strcmp(model->layers[l].type, model->layers[layer].type))
            return false;
    return true;
}

bool dt_partition_uniform(const struct dt_space *space, struct dt_pipeline *pipeline)
{
    const struct detour_model *model = space->model;
    int32_t stages = pipeline->stage_count, layers = model->layer_count;
    int32_t input = layers > stages && is_single(model, 0);
    int32_t output = layers - input > stages && is_single(model, layers - 1);
    int32_t inner = layers - input - output;

    if (inner < stages)
        return false;
    pipeline->first_layer[0] = 0;
    for (int32_t i = 1; i < stages; i++)
        pipeline->first_layer[i] = input + i * (inner / stages) + (i < inner % stages ? i : inner % stages);
    pipeline->first_layer[stages] = layers;
    return true;
}

/* A limit under which the stages are filled one after the other. */
struct filling {
    const struct dt_space *space;
    struct dt_pipeline *pipeline;
    int32_t inflight_max;
    int64_t limit_ns;
    int32_t *begin; /* [stage][layer]: where the stage begins that ends before the layer; -1: not possible */
};

/* Whether stage i can have the layers first .. end - 1. */
static bool fits(const struct filling *f, int32_t i, int32_t first, int32_t end)
{
    const struct dt_space *s = f->space;
    const struct detour_model_device *device = &s->model->devices[f->pipeline->device[i]];
    int64_t inflight = f->pipeline->stage_count - i;

    if (dt_device_time_ns(device, s->work_ns[end] - s->work_ns[first]) > f->limit_ns)
        return false;
    inflight = inflight < f->inflight_max ? inflight : f->inflight_max;
    inflight = inflight < s->model->microbatch_count ? inflight : s->model->microbatch_count;
    __int128 bytes = (__int128)inflight * (s->activation_bytes[end] - s->activation_bytes[first]) +
                     s->static_bytes[end] - s->static_bytes[first];
    return !device->capacity_bytes || bytes <= device->capacity_bytes;
}

/* The last end that stage i can have when it begins with layer `first`. */
static int32_t reach(const struct filling *f, int32_t i, int32_t first)
{
    int32_t low = first, high = f->space->model->layer_count;

    while (low < high) {
        int32_t middle = low + (high - low + 1) / 2;
        if (fits(f, i, first, middle))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Where stage i can end, given where the one before it can: all ends from the next layer to its reach. */
static void extend(const struct filling *f, int32_t i, const int32_t *before, int32_t *ends)
{
    int32_t layers = f->space->model->layer_count, filled = 0;

    for (int32_t l = 0; l <= layers; l++)
        ends[l] = -1;
    for (int32_t first = 0; first < layers; first++) {
        if (i ? before[first] < 0 : first > 0)
            continue;
        int32_t last = reach(f, i, first);
        for (int32_t end = first + 1 > filled ? first + 1 : filled; end <= last; end++)
            ends[end] = first;
        filled = last + 1 > filled ? last + 1 : filled;
    }
}

/* Whether there is a partition within the limit; `pipeline` gets its cuts. */
static bool fill(const struct filling *f)
{
    int32_t stages = f->pipeline->stage_count, layers = f->space->model->layer_count;
    size_t row = (size_t)layers + 1;

    for (int32_t i = 0; i < stages; i++)
        extend(f, i, i ? &f->begin[(size_t)(i - 1) * row] : NULL, &f->begin[(size_t)i * row]);
    if (f->begin[(size_t)(stages - 1) * row + (size_t)layers] < 0)
        return false;
    f->pipeline->first_layer[stages] = layers;
    for (int32_t i = stages - 1; i >= 0; i--)
        f->pipeline->first_layer[i] = f->begin[(size_t)i * row + (size_t)f->pipeline->first_layer[i + 1]];
    return true;
}

/* On the slowest of the pipeline's devices. */
static int64_t all_layers_ns(const struct dt_space *space, const struct dt_pipeline *pipeline)
{
    int64_t longest_ns = 0;

    for (int32_t i = 0; i < pipeline->stage_count; i++) {
        int64_t all_ns = dt_device_time_ns(&space->model->devices[pipeline->device[i]],
                                           space->work_ns[space->model->layer_count]);
        longest_ns = all_ns > longest_ns ? all_ns : longest_ns;
    }
    return longest_ns;
}

enum detour_status dt_partition_balanced(struct detour_arena *arena, const struct dt_space *space,
                                         int32_t inflight_max, struct dt_pipeline *pipeline, bool *found,
                                         struct detour_error *error)
{
    struct dt_arena_mark mark = dt_arena_save(arena);
    struct filling f = {space, pipeline, inflight_max, all_layers_ns(space, pipeline), NULL};
    size_t cells = ((size_t)space->model->layer_count + 1) * (size_t)pipeline->stage_count;
    int64_t low_ns = 0, high_ns = f.limit_ns;

    if (!dt_arena_new(arena, f.begin, cells))
        return dt_fail_memory(error);
    *found = fill(&f);
    while (*found && low_ns < high_ns) {
        f.limit_ns = low_ns + (high_ns - low_ns) / 2;
        if (fill(&f))
            high_ns = f.limit_ns;
        else
            low_ns = f.limit_ns + 1;
    }
    f.limit_ns = high_ns;
    *found = *found && fill(&f);
    dt_arena_rewind(arena, mark);
    return DETOUR_OK;
}
