/* SPDX-License-Identifier: Apache-2.0 */
/* The schedules with fused W and a fixed pattern: GPipe, 1F1B, interleaved 1F1B. */
#include <inttypes.h>

#include "sched/generator.h"
#include "sched/schedule.h"

/* Huang et al., "GPipe", 2019. With several stages on a device the forwards go stage by stage. */
enum detour_status dt_generate_gpipe(struct dt_call *call, const struct dt_problem *p,
                                     struct dt_result *result)
{
    struct dt_builder builder;
    enum detour_status status = dt_builder_init(call, p, &builder);

    if (status)
        return status;
    for (int32_t i = 0; i < p->stage_count; i++)
        for (int32_t j = 0; j < p->microbatch_count; j++)
            dt_builder_push(&builder, DETOUR_OP_F, i, j);
    for (int32_t i = p->stage_count - 1; i >= 0; i--)
        for (int32_t j = 0; j < p->microbatch_count; j++)
            dt_builder_push(&builder, DETOUR_OP_BW, i, j);
    return dt_builder_finish(call, &builder, &result->schedule);
}

/*
 * Narayanan et al., "PipeDream", 2019, with a flush: stage i runs S - i forwards first and then alternates,
 * so it holds no more than S - i activations.
 */
enum detour_status dt_generate_1f1b(struct dt_call *call, const struct dt_problem *p,
                                    struct dt_result *result)
{
    struct dt_builder builder;

    if (!p->one_stage_per_device)
        return dt_fail(call, DETOUR_UNSUPPORTED,
                       "1f1b needs one stage per device; %" PRId32 " stages are on %" PRId32
                       " devices (interleaved is its form for that)",
                       p->stage_count, p->device_count);
    enum detour_status status = dt_builder_init(call, p, &builder);
    if (status)
        return status;
    for (int32_t i = 0; i < p->stage_count; i++) {
        int32_t forward = 0;
        for (int32_t j = 0; j < p->microbatch_count; j++) {
            while (forward < p->microbatch_count && forward < j + p->stage_count - i)
                dt_builder_push(&builder, DETOUR_OP_F, i, forward++);
            dt_builder_push(&builder, DETOUR_OP_BW, i, j);
        }
    }
    return dt_builder_finish(call, &builder, &result->schedule);
}

/*
 * Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", 2021. The stages of a
 * device are its chunks. Microbatches go through in rounds of `group`, each round through all chunks; the
 * k-th forward of a device is the same (round, chunk, microbatch) on every device.
 */
struct interleaving {
    int32_t devices;
    int32_t chunks;
    int32_t group;
    int32_t rounds; /* the last one may be partly empty */
};

/* The k-th forward or backward of a device; backwards go through the chunks from the last. */
static void push_kth(struct dt_builder *builder, const struct interleaving *in, int32_t device, int64_t k,
                     bool forward)
{
    int64_t per_round = (int64_t)in->group * in->chunks;
    int32_t chunk = (int32_t)(k % per_round / in->group);
    int64_t microbatch = k / per_round * in->group + k % in->group;

    if (!forward)
        chunk = in->chunks - 1 - chunk;
    /* Positions of an incomplete last round stay empty: leaving a microbatch out keeps an order valid. */
    if (microbatch < builder->problem->microbatch_count)
        dt_builder_push(builder, forward ? DETOUR_OP_F : DETOUR_OP_BW, chunk * in->devices + device,
                        (int32_t)microbatch);
}

static enum detour_status check_round_robin(struct dt_call *call, const struct dt_problem *p,
                                            const struct interleaving *in)
{
    if (p->stage_count % p->device_count)
        return dt_fail(call, DETOUR_UNSUPPORTED,
                       "interleaved needs as many stages on each device; %" PRId32 " stages are on %" PRId32
                       " devices",
                       p->stage_count, p->device_count);
    for (int32_t i = 0; i < p->stage_count; i++)
        if (p->device[i] != i % p->device_count)
            return dt_fail(call, DETOUR_UNSUPPORTED,
                           "interleaved needs the stages placed round robin: stage %" PRId32
                           " belongs on device %" PRId32 ", not %" PRId32,
                           i, i % p->device_count, p->device[i]);
    if (in->group < in->devices || in->group > p->microbatch_count + in->devices)
        return dt_fail(call, DETOUR_INVALID,
                       "group_size is %" PRId32 "; interleaved needs %" PRId32 " (the devices) to %" PRId32,
                       in->group, in->devices, p->microbatch_count + in->devices);
    return DETOUR_OK;
}

enum detour_status dt_generate_interleaved(struct dt_call *call, const struct dt_problem *p,
                                           struct dt_result *result)
{
    struct interleaving in = {.devices = p->device_count, .chunks = p->stage_count / p->device_count};
    struct dt_builder builder;

    in.group = call->options->group_size ? call->options->group_size : p->device_count;
    enum detour_status status = check_round_robin(call, p, &in);
    if (!status)
        status = dt_builder_init(call, p, &builder);
    if (status)
        return status;
    in.rounds = (p->microbatch_count + in.group - 1) / in.group;
    int64_t total = (int64_t)in.rounds * in.group * in.chunks;
    for (int32_t d = 0; d < in.devices; d++) {
        int64_t ahead = 2 * (int64_t)(in.devices - 1 - d) + (int64_t)(in.chunks - 1) * in.group;
        int64_t forward = 0;
        for (int64_t backward = 0; backward < total; backward++) {
            while (forward < total && forward <= backward + ahead)
                push_kth(&builder, &in, d, forward++, true);
            push_kth(&builder, &in, d, backward, false);
        }
    }
    return dt_builder_finish(call, &builder, &result->schedule);
}
