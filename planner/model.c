/* SPDX-License-Identifier: Apache-2.0 */
/* From layers to stages: AdaPtis, Algorithm 1, steps 1 and 2. */
#include "planner/model.h"

#include <inttypes.h>

#include "sched/arena.h"
#include "sched/call.h"
#include "sched/problem.h"

enum { NS_PER_S = 1000000000, NOMINAL_PERMILLE = 1000 };

struct dt_layer_sum dt_sum_layers(const struct detour_model *model, int32_t first, int32_t end)
{
    struct dt_layer_sum sum = {0};

    for (int32_t i = first; i < end; i++) {
        const struct detour_layer *layer = &model->layers[i];
        sum.f_ns += layer->f_ns;
        sum.b_ns += layer->b_ns;
        sum.w_ns += layer->w_ns;
        sum.bw_ns += layer->bw_ns ? layer->bw_ns : layer->b_ns + layer->w_ns;
        sum.parameter_bytes += layer->parameter_bytes;
        sum.gradient_bytes += layer->gradient_bytes;
        sum.optimizer_bytes += layer->optimizer_bytes;
        sum.activation_bytes += layer->activation_bytes;
        sum.activation_w_bytes += layer->activation_w_bytes;
    }
    return sum;
}

/* value * factor / divisor, rounded up; at most DT_FOREVER. */
static int64_t scale_up(int64_t value, int64_t factor, int64_t divisor)
{
    __int128 scaled = ((__int128)value * factor + divisor - 1) / divisor;

    return scaled < DT_FOREVER ? (int64_t)scaled : DT_FOREVER;
}

int64_t dt_device_time_ns(const struct detour_model_device *device, int64_t time_ns)
{
    return scale_up(time_ns, NOMINAL_PERMILLE, device->speed_permille);
}

int64_t dt_link_serial_ns(const struct detour_model_link *link, int64_t bytes)
{
    return link->bytes_per_s ? scale_up(bytes, NS_PER_S, link->bytes_per_s) : 0;
}

int64_t dt_exchange_ns(const struct detour_model_replicas *replicas, int64_t bytes)
{
    int64_t steps = replicas->count - 1, part = scale_up(bytes, 1, replicas->count > 1 ? replicas->count : 1);
    const struct detour_model_link link = {.bytes_per_s = replicas->bytes_per_s};

    if (steps < 1)
        return 0;
    return scale_up(2 * replicas->latency_ns + dt_link_serial_ns(&link, part), steps, 1);
}

struct detour_model_link dt_model_link(const struct detour_model *model, int32_t from, int32_t to)
{
    if (!model->links || from == to)
        return (struct detour_model_link){0};
    return model->links[(size_t)from * (size_t)model->device_count + (size_t)to];
}

/* Under construction; the public struct has const pointers. */
struct draft {
    const struct detour_model *model;
    const struct detour_partition *partition;
    struct detour_profile *profile;
    struct detour_stage *stages;
    struct detour_link *links;
    struct detour_device *devices;
};

static bool allocate(struct detour_arena *arena, struct draft *draft)
{
    int32_t stages = draft->partition->stage_count;

    if (!dt_arena_new(arena, draft->profile, 1) || !dt_arena_new(arena, draft->stages, stages) ||
        !dt_arena_new(arena, draft->links, stages) ||
        !dt_arena_new(arena, draft->devices, draft->model->device_count))
        return false;
    *draft->profile = (struct detour_profile){.stage_count = stages,
                                              .microbatch_count = draft->model->microbatch_count,
                                              .device_count = draft->model->device_count,
                                              .stages = draft->stages,
                                              .links = draft->links,
                                              .devices = draft->devices};
    return true;
}

static void fill_stage(const struct draft *draft, int32_t i)
{
    const struct detour_partition *partition = draft->partition;
    const struct detour_model_device *device = &draft->model->devices[partition->device[i]];
    struct dt_layer_sum sum =
        dt_sum_layers(draft->model, partition->first_layer[i], partition->first_layer[i + 1]);

    draft->stages[i] = (struct detour_stage){.f_ns = dt_device_time_ns(device, sum.f_ns),
                                             .b_ns = dt_device_time_ns(device, sum.b_ns),
                                             .w_ns = dt_device_time_ns(device, sum.w_ns),
                                             .bw_ns = dt_device_time_ns(device, sum.bw_ns),
                                             .bytes_f = sum.activation_bytes,
                                             .bytes_w = sum.activation_w_bytes,
                                             .device = partition->device[i]};
}

/* The link between stage i and the next, and what a blocking one adds to the sender's operations. */
static void fill_link(const struct draft *draft, int32_t i)
{
    const struct detour_partition *partition = draft->partition;
    int32_t from = partition->device[i], to = partition->device[i + 1];
    int64_t bytes = draft->model->layers[partition->first_layer[i + 1] - 1].message_bytes;
    struct detour_model_link forward = dt_model_link(draft->model, from, to);
    struct detour_model_link backward = dt_model_link(draft->model, to, from);
    int64_t forward_ns = dt_link_serial_ns(&forward, bytes),
            backward_ns = dt_link_serial_ns(&backward, bytes);

    if (from == to)
        return;
    if (forward.blocks_sender)
        draft->stages[i].f_ns += forward_ns;
    if (backward.blocks_sender) {
        draft->stages[i + 1].b_ns += backward_ns;
        draft->stages[i + 1].bw_ns += backward_ns;
    }
    draft->links[i] = (struct detour_link){.forward_ns = forward.latency_ns,
                                           .backward_ns = backward.latency_ns,
                                           .forward_serial_ns = forward.blocks_sender ? 0 : forward_ns,
                                           .backward_serial_ns = backward.blocks_sender ? 0 : backward_ns};
}

/* Takes what a stage holds for the whole iteration off its device's capacity. */
static enum detour_status take_static(const struct draft *draft, int64_t *left_bytes,
                                      struct detour_error *error)
{
    const struct detour_partition *partition = draft->partition;

    for (int32_t i = 0; i < partition->stage_count; i++) {
        struct dt_layer_sum sum =
            dt_sum_layers(draft->model, partition->first_layer[i], partition->first_layer[i + 1]);
        left_bytes[partition->device[i]] -= sum.parameter_bytes + sum.gradient_bytes + sum.optimizer_bytes;
    }
    for (int32_t d = 0; d < draft->model->device_count; d++) {
        int64_t capacity_bytes = draft->model->devices[d].capacity_bytes;
        if (!capacity_bytes)
            continue;
        if (left_bytes[d] <= 0)
            return dt_error_set(error, DETOUR_MEMORY_TOO_SMALL,
                                "device %" PRId32 ": parameters, gradients and optimizer state of its layers "
                                "need %" PRId64 " bytes; its capacity is %" PRId64,
                                d, capacity_bytes - left_bytes[d], capacity_bytes);
        draft->devices[d].capacity_bytes = left_bytes[d];
    }
    return DETOUR_OK;
}

static enum detour_status fill_devices(const struct draft *draft, struct detour_error *error)
{
    int64_t left_bytes[DETOUR_MODEL_DEVICES_MAX];

    for (int32_t d = 0; d < draft->model->device_count; d++)
        left_bytes[d] = draft->model->devices[d].capacity_bytes;
    return take_static(draft, left_bytes, error);
}

enum detour_status dt_model_profile(struct detour_arena *arena, const struct detour_model *model,
                                    const struct detour_partition *partition, bool limits,
                                    struct detour_profile **profile, struct detour_error *error)
{
    struct draft draft = {.model = model, .partition = partition};
    enum detour_status status = DETOUR_OK;

    if (!allocate(arena, &draft))
        return dt_fail_memory(error);
    for (int32_t i = 0; i < partition->stage_count; i++)
        fill_stage(&draft, i);
    for (int32_t i = 0; i + 1 < partition->stage_count; i++)
        fill_link(&draft, i);
    if (limits)
        status = fill_devices(&draft, error);
    if (!status)
        status = detour_profile_check(draft.profile, error);
    if (!status)
        *profile = draft.profile;
    return status;
}

enum detour_status detour_model_profile(struct detour_arena *arena, const struct detour_model *model,
                                        const struct detour_partition *partition,
                                        struct detour_profile **profile, struct detour_error *error)
{
    enum detour_status status = detour_model_check(model, error);

    if (!status)
        status = detour_partition_check(model, partition, error);
    return status ? status : dt_model_profile(arena, model, partition, true, profile, error);
}
