/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand-made schedules of the Zero Bubble papers (Qi et al., 2023 and 2024), which are best when F, B and
 * W take the same time and nothing is delayed: ZB-H1 and ZB-H2 for one stage per device, ZB-V for two.
 */
#include <inttypes.h>

#include "sched/generator.h"
#include "sched/schedule.h"

/*
 * A stage runs `warmup` forwards first and lets W lag `backlog` microbatches behind B, so that the B's of
 * the first microbatches move up the pipeline without waiting for a W.
 */
static void push_stage(struct dt_builder *builder, int32_t stage, int32_t warmup, int32_t backlog)
{
    int32_t count = builder->problem->microbatch_count, f = 0, w = 0;

    while (f < count && f < warmup)
        dt_builder_push(builder, DETOUR_OP_F, stage, f++);
    for (int32_t b = 0; b < count; b++) {
        dt_builder_push(builder, DETOUR_OP_B, stage, b);
        if (b + 1 - w > backlog)
            dt_builder_push(builder, DETOUR_OP_W, stage, w++);
        if (f < count)
            dt_builder_push(builder, DETOUR_OP_F, stage, f++);
    }
    while (w < count)
        dt_builder_push(builder, DETOUR_OP_W, stage, w++);
}

static enum detour_status check_one_stage(struct dt_call *call, const struct dt_problem *p, const char *name)
{
    if (p->one_stage_per_device)
        return DETOUR_OK;
    return dt_fail(call, DETOUR_UNSUPPORTED,
                   "%s needs one stage per device; %" PRId32 " stages are on %" PRId32 " devices", name,
                   p->stage_count, p->device_count);
}

enum detour_status dt_generate_zb_h1(struct dt_call *call, const struct dt_problem *p,
                                     struct dt_result *result)
{
    struct dt_builder builder;
    enum detour_status status = check_one_stage(call, p, "zb-h1");

    if (!status)
        status = dt_builder_init(call, p, &builder);
    for (int32_t i = 0; !status && i < p->stage_count; i++)
        push_stage(&builder, i, p->stage_count - i, i);
    return status ? status : dt_builder_finish(call, &builder, &result->schedule);
}

enum detour_status dt_generate_zb_h2(struct dt_call *call, const struct dt_problem *p,
                                     struct dt_result *result)
{
    struct dt_builder builder;
    enum detour_status status = check_one_stage(call, p, "zb-h2");

    if (!status)
        status = dt_builder_init(call, p, &builder);
    for (int32_t i = 0; !status && i < p->stage_count; i++)
        push_stage(&builder, i, 2 * (p->stage_count - i) - 1, 2 * i);
    return status ? status : dt_builder_finish(call, &builder, &result->schedule);
}

/* One device of ZB-V: its stage on the way down (0) and the one on the way up (1). */
struct v_device {
    struct dt_builder *builder;
    int32_t stages[2];
    int32_t count;      /* microbatches of the pattern, some of which may not exist */
    int32_t done[3][2]; /* [kind][side] */
};

static void push_v(struct v_device *v, enum detour_op_kind kind, int side)
{
    int32_t microbatch = v->done[kind][side]++;

    if (microbatch < v->builder->problem->microbatch_count)
        dt_builder_push(v->builder, kind, v->stages[side], microbatch);
}

static void push_v_pair(struct v_device *v, int side)
{
    push_v(v, DETOUR_OP_B, side);
    push_v(v, DETOUR_OP_W, side);
}

/*
 * Fills the V, keeps it full with F B W alternately of one side and the other, and drains it with the W's
 * that were postponed while it filled.
 */
static void push_v_device(struct v_device *v, int32_t device, int32_t device_count)
{
    for (int32_t k = 0; k < 2 * (device_count - device) - 1; k++)
        push_v(v, DETOUR_OP_F, 0);
    for (int32_t k = 0; k < device; k++) {
        push_v(v, DETOUR_OP_F, 1);
        push_v(v, DETOUR_OP_F, 0);
    }
    for (int32_t k = 0; k < device_count - device; k++) {
        push_v(v, DETOUR_OP_F, 1);
        push_v_pair(v, 1);
    }
    while (v->done[DETOUR_OP_F][1] < v->count) {
        if (v->done[DETOUR_OP_F][0] < v->count)
            push_v(v, DETOUR_OP_F, 0);
        push_v_pair(v, 0);
        push_v(v, DETOUR_OP_F, 1);
        push_v_pair(v, 1);
    }
    for (int32_t k = 0; k < device; k++) {
        push_v(v, DETOUR_OP_B, 0);
        push_v(v, DETOUR_OP_B, 1);
    }
    while (v->done[DETOUR_OP_B][0] < v->count)
        push_v_pair(v, 0);
    while (v->done[DETOUR_OP_W][1] < v->count)
        push_v(v, DETOUR_OP_W, 1);
    while (v->done[DETOUR_OP_W][0] < v->count)
        push_v(v, DETOUR_OP_W, 0);
}

static enum detour_status check_v(struct dt_call *call, const struct dt_problem *p)
{
    int32_t devices = p->device_count;

    if (p->stage_count != 2 * devices)
        return dt_fail(call, DETOUR_UNSUPPORTED,
                       "zb-v needs two stages on each device; %" PRId32 " stages are on %" PRId32 " devices",
                       p->stage_count, devices);
    return dt_check_waves(call, p, "zb-v");
}

enum detour_status dt_generate_zb_v(struct dt_call *call, const struct dt_problem *p,
                                    struct dt_result *result)
{
    struct dt_builder builder;
    enum detour_status status = check_v(call, p);

    if (!status)
        status = dt_builder_init(call, p, &builder);
    for (int32_t d = 0; !status && d < p->device_count; d++) {
        struct v_device v = {.builder = &builder, .stages = {d, p->stage_count - 1 - d}};
        /*
         * The pattern needs enough microbatches to fill the V; missing ones are treated as microbatches
         * that do not exist.
         */
        v.count = p->microbatch_count > 2 * p->device_count ? p->microbatch_count : 2 * p->device_count;
        push_v_device(&v, d, p->device_count);
    }
    return status ? status : dt_builder_finish(call, &builder, &result->schedule);
}
