/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/timeline.h"

#include <inttypes.h>

#include "base/check.h"

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static enum detour_status allocate(struct dt_call *call, const struct dt_problem *p, struct dt_timeline *tl)
{
    struct detour_arena *arena = call->arena;
    enum detour_status status = dt_builder_init(call, p, &tl->builder);

    if (!status)
        status = dt_memory_init(call, p, &tl->memory);
    if (status)
        return status;
    tl->input_ns = dt_arena_alloc_raw(arena, dt_op_index_count(p), sizeof(*tl->input_ns));
    if (!tl->input_ns || !dt_arena_new(arena, tl->reserve_bytes, p->stage_count) ||
        !dt_arena_new(arena, tl->fused, dt_cell_count(p)) ||
        !dt_arena_new(arena, tl->free_ns, p->device_count) ||
        !dt_arena_new(arena, tl->forward_busy_ns, p->stage_count) ||
        !dt_arena_new(arena, tl->backward_busy_ns, p->stage_count))
        return dt_fail_memory(call->error);
    for (int kind = DETOUR_OP_F; kind <= DETOUR_OP_W; kind++)
        if (!dt_arena_new(arena, tl->done[kind], p->stage_count))
            return dt_fail_memory(call->error);
    return DETOUR_OK;
}

/* The peak that one microbatch still needs on the device after F of each stage. */
static void fill_reserve(struct dt_timeline *tl)
{
    const struct dt_problem *p = tl->p;

    for (int32_t d = 0; d < p->device_count; d++) {
        int64_t reserve = 0;
        for (int32_t k = p->device_first[d + 1] - 1; k >= p->device_first[d]; k--) {
            int32_t stage = p->device_stages[k];
            reserve = later(reserve, dt_memory_taken(p, DETOUR_OP_B, stage));
            tl->reserve_bytes[stage] = reserve;
            reserve += p->bytes_f[stage];
        }
    }
}

enum detour_status dt_timeline_init(struct dt_call *call, const struct dt_problem *p, struct dt_timeline *tl)
{
    enum detour_status status;

    *tl = (struct dt_timeline){.p = p};
    status = allocate(call, p, tl);
    if (status)
        return status;
    fill_reserve(tl);
    for (size_t i = 0; i < dt_op_index_count(p); i++)
        tl->input_ns[i] = DT_FOREVER;
    for (int32_t j = 0; j < p->microbatch_count; j++)
        tl->input_ns[dt_op_index(p, DETOUR_OP_F, 0, j)] = 0;
    return DETOUR_OK;
}

/* The message of an operation that finished at `finish_ns`; `busy_ns` is the state of its link. */
static int64_t arrival(int64_t *busy_ns, int64_t finish_ns, int64_t serial_ns, int64_t latency_ns)
{
    *busy_ns = later(finish_ns, *busy_ns) + serial_ns;
    return *busy_ns + latency_ns;
}

static void deliver(struct dt_timeline *tl, int kind, int32_t stage, int32_t microbatch, int64_t finish_ns)
{
    const struct dt_problem *p = tl->p;

    if (kind == DETOUR_OP_F && stage + 1 == p->stage_count)
        tl->input_ns[dt_op_index(p, DETOUR_OP_B, stage, microbatch)] = finish_ns;
    else if (kind == DETOUR_OP_F)
        tl->input_ns[dt_op_index(p, DETOUR_OP_F, stage + 1, microbatch)] = arrival(
            &tl->forward_busy_ns[stage], finish_ns, p->forward_serial_ns[stage], p->forward_ns[stage]);
    if (kind == DETOUR_OP_B)
        tl->input_ns[dt_op_index(p, DETOUR_OP_W, stage, microbatch)] = finish_ns;
    if (dt_is_backward(kind) && stage > 0)
        tl->input_ns[dt_op_index(p, DETOUR_OP_B, stage - 1, microbatch)] =
            arrival(&tl->backward_busy_ns[stage], finish_ns, p->backward_serial_ns[stage - 1],
                    p->backward_ns[stage - 1]);
}

/* Applies everything but the builder. */
static void note(struct dt_timeline *tl, int kind, int32_t stage, int32_t microbatch, int64_t finish_ns)
{
    tl->free_ns[tl->p->device[stage]] = finish_ns;
    tl->done[kind == DETOUR_OP_BW ? DETOUR_OP_B : kind][stage]++;
    if (kind == DETOUR_OP_BW)
        tl->fused[dt_op_index(tl->p, DETOUR_OP_F, stage, microbatch)] = true;
    dt_memory_apply(&tl->memory, kind, stage);
    deliver(tl, kind, stage, microbatch, finish_ns);
}

int64_t dt_timeline_put(struct dt_timeline *tl, enum detour_op_kind kind, int32_t stage)
{
    const struct dt_problem *p = tl->p;
    int row = kind == DETOUR_OP_BW ? DETOUR_OP_B : (int)kind;
    int32_t microbatch = dt_timeline_next(tl, row, stage);
    int64_t start_ns =
        later(later(dt_timeline_input_ns(tl, row, stage), tl->free_ns[p->device[stage]]), tl->now_ns);
    int64_t finish_ns = start_ns + p->duration_ns[kind][stage];

    DT_CHECK(start_ns < DT_FOREVER);
    dt_builder_push(&tl->builder, kind, stage, microbatch);
    note(tl, kind, stage, microbatch, finish_ns);
    return finish_ns;
}

/* The operation at its place in the prefix is the next of its kind and its input exists. */
static enum detour_status resume_op(struct dt_call *call, struct dt_timeline *tl, int32_t device,
                                    const struct detour_op *op, size_t place, bool *waits)
{
    int row = op->kind == DETOUR_OP_BW ? DETOUR_OP_B : op->kind;
    char text[DT_OP_TEXT_BYTES];

    if (dt_timeline_next(tl, row, op->stage) != op->microbatch)
        return dt_fail(call, DETOUR_UNSUPPORTED,
                       "device %" PRId32 ", position %zu: %s has started before microbatch %" PRId32
                       "; an iteration can only be replanned if every stage takes microbatches in order",
                       device, place, dt_op_text(text, op), dt_timeline_next(tl, row, op->stage));
    *waits = dt_timeline_input_ns(tl, row, op->stage) == DT_FOREVER;
    if (*waits)
        return DETOUR_OK;
    tl->builder.ops[tl->builder.room_first[device] + tl->builder.count[device]++] = *op;
    note(tl, op->kind, op->stage, op->microbatch, op->finish_ns);
    return DETOUR_OK;
}

/* One round over the devices; `progress`: an operation was taken over. */
static enum detour_status resume_round(struct dt_call *call, struct dt_timeline *tl,
                                       const struct detour_schedule *present, const struct dt_prefix *prefix,
                                       size_t *next, bool *progress, int32_t *waiting)
{
    enum detour_status status = DETOUR_OK;

    *progress = false;
    *waiting = -1;
    for (int32_t d = 0; !status && d < tl->p->device_count; d++) {
        bool waits = false;
        while (!status && !waits && next[d] < prefix->started[d]) {
            status = resume_op(call, tl, d, &present->ops[present->first[d] + next[d]], next[d], &waits);
            if (!status && !waits) {
                next[d]++;
                *progress = true;
            }
        }
        if (waits)
            *waiting = d;
    }
    return status;
}

enum detour_status dt_timeline_resume(struct dt_call *call, const struct dt_problem *p,
                                      const struct detour_schedule *present, const struct dt_prefix *prefix,
                                      struct dt_timeline *tl)
{
    enum detour_status status = dt_timeline_init(call, p, tl);
    bool progress = true;
    int32_t waiting = -1;
    size_t *next;

    if (status)
        return status;
    if (!dt_arena_new(call->arena, next, p->device_count))
        return dt_fail_memory(call->error);
    while (!status && progress)
        status = resume_round(call, tl, present, prefix, next, &progress, &waiting);
    if (!status && waiting >= 0) {
        char text[DT_OP_TEXT_BYTES];
        status = dt_fail(
            call, DETOUR_DEPENDENCY,
            "device %" PRId32 ", position %zu: %s has started, but not the operation that it needs", waiting,
            next[waiting], dt_op_text(text, &present->ops[present->first[waiting] + next[waiting]]));
    }
    tl->now_ns = prefix->now_ns;
    return status;
}

enum detour_status dt_timeline_finish(struct dt_call *call, struct dt_timeline *tl,
                                      struct detour_schedule **schedule)
{
    for (int32_t i = 0; i < tl->p->stage_count; i++)
        if (dt_timeline_next(tl, DETOUR_OP_W, i) < tl->p->microbatch_count)
            return dt_fail(call, DETOUR_MEMORY_TOO_SMALL,
                           "stage %" PRId32 ": memory leaves no room to go on after %" PRId32
                           " forwards and %" PRId32 " backwards",
                           i, tl->done[DETOUR_OP_F][i], tl->done[DETOUR_OP_B][i]);
    return dt_builder_finish(call, &tl->builder, schedule);
}
