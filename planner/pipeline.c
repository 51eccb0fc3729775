/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/pipeline.h"

#include <string.h>

#include "planner/model.h"
#include "sched/arena.h"
#include "sched/call.h"
#include "sched/problem.h"

enum { STAGES_PER_DEVICE_MAX = 6 };

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool allocate(struct detour_arena *arena, struct dt_space *space, int32_t count)
{
    return dt_arena_new(arena, space->f_ns, count) && dt_arena_new(arena, space->b_ns, count) &&
           dt_arena_new(arena, space->work_ns, count) && dt_arena_new(arena, space->static_bytes, count) &&
           dt_arena_new(arena, space->activation_bytes, count) &&
           dt_arena_new(arena, space->exchange_bytes, count);
}

/* Within the limits of a profile, which counts stages times microbatches. */
static int32_t stages_max(const struct detour_model *model)
{
    int64_t most = (int64_t)STAGES_PER_DEVICE_MAX * model->device_count;

    most = smaller(most, model->layer_count);
    most = smaller(most, DETOUR_CELLS_MAX / model->microbatch_count);
    most = larger(most, model->device_count);
    return (int32_t)larger(most, model->fixed.stage_count);
}

enum detour_status dt_space_create(struct detour_arena *arena, const struct detour_model *model,
                                   struct dt_space **space, struct detour_error *error)
{
    struct dt_space *s;

    if (!dt_arena_new(arena, s, 1) || !allocate(arena, s, model->layer_count + 1))
        return dt_fail_memory(error);
    s->model = model;
    s->stages_max = stages_max(model);
    for (int32_t l = 0; l < model->layer_count; l++) {
        const struct detour_layer *layer = &model->layers[l];
        int64_t bw_ns = layer->bw_ns ? layer->bw_ns : layer->b_ns + layer->w_ns;
        s->f_ns[l + 1] = s->f_ns[l] + layer->f_ns;
        s->b_ns[l + 1] = s->b_ns[l] + smaller(layer->b_ns, bw_ns);
        s->work_ns[l + 1] = s->work_ns[l] + layer->f_ns + smaller(layer->b_ns + layer->w_ns, bw_ns);
        s->static_bytes[l + 1] =
            s->static_bytes[l] + layer->parameter_bytes + layer->gradient_bytes + layer->optimizer_bytes;
        s->exchange_bytes[l + 1] = s->exchange_bytes[l] + layer->parameter_bytes + layer->gradient_bytes;
        s->activation_bytes[l + 1] = s->activation_bytes[l] + layer->activation_bytes;
    }
    *space = s;
    return DETOUR_OK;
}

struct dt_pipeline *dt_pipeline_create(struct detour_arena *arena, const struct dt_space *space)
{
    struct dt_pipeline *pipeline;

    if (!dt_arena_new(arena, pipeline, 1) ||
        !dt_arena_new(arena, pipeline->first_layer, space->stages_max + 1) ||
        !dt_arena_new(arena, pipeline->device, space->stages_max))
        return NULL;
    return pipeline;
}

void dt_pipeline_copy(struct dt_pipeline *to, const struct dt_pipeline *from)
{
    size_t count = (size_t)from->stage_count;

    to->stage_count = from->stage_count;
    memcpy(to->first_layer, from->first_layer, (count + 1) * sizeof(*to->first_layer));
    memcpy(to->device, from->device, count * sizeof(*to->device));
}

struct detour_partition dt_pipeline_partition(const struct dt_pipeline *pipeline)
{
    return (struct detour_partition){pipeline->stage_count, pipeline->first_layer, pipeline->device};
}

/* What the stages seen so far add up to on a device. */
struct load {
    int64_t head_ns;  /* before its first stage can begin */
    int64_t tail_ns;  /* after the last B of its first stage, without the W of stage 0 */
    int64_t work_ns;  /* of one microbatch */
    int64_t chain_ns; /* F and B alone, of one microbatch */
    int64_t bytes;    /* with one microbatch */
    bool used;
};

/* One stage's times on its device, with the messages that block it. */
struct stage_times {
    int64_t f_ns;
    int64_t b_ns;
    int64_t work_ns;
};

static struct stage_times times_of(const struct dt_space *space, const struct dt_pipeline *pipeline,
                                   int32_t i)
{
    const struct detour_model_device *device = &space->model->devices[pipeline->device[i]];
    int32_t first = pipeline->first_layer[i], end = pipeline->first_layer[i + 1];

    if (device->speed_permille == 1000)
        return (struct stage_times){space->f_ns[end] - space->f_ns[first],
                                    space->b_ns[end] - space->b_ns[first],
                                    space->work_ns[end] - space->work_ns[first]};
    return (struct stage_times){dt_device_time_ns(device, space->f_ns[end] - space->f_ns[first]),
                                dt_device_time_ns(device, space->b_ns[end] - space->b_ns[first]),
                                dt_device_time_ns(device, space->work_ns[end] - space->work_ns[first])};
}

/* From stage i to i + 1 and back: how long messages travel; what they add to the operations. */
static void cross(const struct dt_space *space, const struct dt_pipeline *pipeline, int32_t i,
                  int64_t *there_ns, int64_t *back_ns, struct stage_times *sender,
                  struct stage_times *receiver)
{
    int64_t bytes = space->model->layers[pipeline->first_layer[i + 1] - 1].message_bytes;
    int32_t from = pipeline->device[i], to = pipeline->device[i + 1];

    *there_ns = *back_ns = 0;
    if (from == to || !space->model->links)
        return;
    struct detour_model_link forward = dt_model_link(space->model, from, to);
    struct detour_model_link backward = dt_model_link(space->model, to, from);
    int64_t forward_ns = dt_link_serial_ns(&forward, bytes),
            backward_ns = dt_link_serial_ns(&backward, bytes);

    *there_ns = forward.latency_ns + (forward.blocks_sender ? 0 : forward_ns);
    *back_ns = backward.latency_ns + (backward.blocks_sender ? 0 : backward_ns);
    if (forward.blocks_sender) {
        sender->f_ns += forward_ns;
        sender->work_ns += forward_ns;
    }
    if (backward.blocks_sender) {
        receiver->b_ns += backward_ns;
        receiver->work_ns += backward_ns;
    }
}

static void add_stage(struct load *load, const struct stage_times *times, int64_t head_ns, int64_t tail_ns,
                      int64_t bytes)
{
    if (!load->used) {
        load->head_ns = head_ns;
        load->tail_ns = tail_ns;
        load->used = true;
    }
    load->work_ns += times->work_ns;
    load->chain_ns += times->f_ns + times->b_ns;
    load->bytes += bytes;
}

static int64_t stage_bytes(const struct dt_space *space, const struct dt_pipeline *pipeline, int32_t i)
{
    int32_t first = pipeline->first_layer[i], end = pipeline->first_layer[i + 1];

    return space->static_bytes[end] - space->static_bytes[first] + space->activation_bytes[end] -
           space->activation_bytes[first];
}

/* The chain of one microbatch, and the loads; returns its length without the W of stage 0. */
static int64_t add_stages(const struct dt_space *space, const struct dt_pipeline *pipeline,
                          struct load *loads, int64_t *last_w_ns)
{
    struct stage_times now = times_of(space, pipeline, 0), next = {0};
    int64_t head_ns = 0, tail_ns = 0, there_ns, back_ns;

    *last_w_ns = now.work_ns - now.f_ns - now.b_ns;
    for (int32_t i = 0; i < pipeline->stage_count; i++, now = next) {
        there_ns = back_ns = 0;
        if (i + 1 < pipeline->stage_count) {
            next = times_of(space, pipeline, i + 1);
            cross(space, pipeline, i, &there_ns, &back_ns, &now, &next);
        }
        add_stage(&loads[pipeline->device[i]], &now, head_ns, tail_ns, stage_bytes(space, pipeline, i));
        head_ns += now.f_ns + there_ns;
        tail_ns += now.b_ns + back_ns;
    }
    return head_ns + tail_ns;
}

/* count * one_ns + more_ns, without overflow. */
static int64_t repeat(int64_t count, int64_t one_ns, int64_t more_ns)
{
    __int128 sum = (__int128)count * one_ns + more_ns;

    return sum < DT_FOREVER ? (int64_t)sum : DT_FOREVER;
}

void dt_pipeline_exchanges(const struct dt_space *space, const struct dt_pipeline *pipeline,
                           int64_t *exchange_ns)
{
    memset(exchange_ns, 0, (size_t)space->model->device_count * sizeof(*exchange_ns));
    if (space->model->replicas.count < 2)
        return;
    for (int32_t i = 0; i < pipeline->stage_count; i++)
        exchange_ns[pipeline->device[i]] += space->exchange_bytes[pipeline->first_layer[i + 1]] -
                                            space->exchange_bytes[pipeline->first_layer[i]];
    for (int32_t d = 0; d < space->model->device_count; d++)
        exchange_ns[d] = dt_exchange_ns(&space->model->replicas, exchange_ns[d]);
}

struct dt_estimate dt_pipeline_estimate(const struct dt_space *space, const struct dt_pipeline *pipeline)
{
    struct load loads[DETOUR_MODEL_DEVICES_MAX];
    struct dt_estimate estimate = {.busiest = -1, .over_device = -1};
    const struct detour_model *model = space->model;
    int64_t count = model->microbatch_count, last_w_ns, exchange_ns[DETOUR_MODEL_DEVICES_MAX];

    dt_pipeline_exchanges(space, pipeline, exchange_ns);
    memset(loads, 0, (size_t)model->device_count * sizeof(*loads));
    estimate.bound_ns = add_stages(space, pipeline, loads, &last_w_ns);
    last_w_ns = larger(last_w_ns, 0);
    estimate.bound_ns += last_w_ns;
    for (int32_t d = 0; d < model->device_count; d++) {
        const struct load *load = &loads[d];
        int64_t bound_ns = larger(repeat(count, load->work_ns, load->head_ns + exchange_ns[d]),
                                  repeat(count, load->chain_ns, load->head_ns + load->tail_ns + last_w_ns));
        int64_t capacity_bytes = model->devices[d].capacity_bytes;
        if (capacity_bytes && load->bytes - capacity_bytes > estimate.over_bytes) {
            estimate.over_bytes = load->bytes - capacity_bytes;
            estimate.over_device = d;
        }
        if (bound_ns > estimate.bound_ns) {
            estimate.bound_ns = bound_ns;
            estimate.busiest = d;
        }
        estimate.spread += (double)bound_ns * (double)bound_ns;
    }
    return estimate;
}

int dt_estimate_compare(const struct dt_estimate *a, const struct dt_estimate *b)
{
    if (a->over_bytes != b->over_bytes)
        return a->over_bytes < b->over_bytes ? -1 : 1;
    if (a->bound_ns != b->bound_ns)
        return a->bound_ns < b->bound_ns ? -1 : 1;
    return a->spread < b->spread ? -1 : a->spread > b->spread;
}
