/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/program.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "sched/heap.h"
#include "sched/schedule.h"
#include "sched/simulate.h"

const char *detour_action_name(enum detour_action_kind kind)
{
    static const char *const names[] = {"F",      "B",      "W",      "BW",     "SEND_F",  "RECV_F",
                                        "SEND_B", "RECV_B", "WAIT_F", "WAIT_B", "OFFLOAD", "RELOAD"};

    return (unsigned)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "?";
}

const char *dt_action_text(char text[DT_ACTION_TEXT_BYTES], const struct detour_action *action)
{
    snprintf(text, DT_ACTION_TEXT_BYTES, "%s of microbatch %" PRId32 " on stage %d",
             detour_action_name((enum detour_action_kind)action->kind), action->microbatch, action->stage);
    return text;
}

int32_t dt_action_link(const struct dt_problem *p, const struct detour_action *action, size_t *consumer)
{
    int32_t stage = action->stage;

    switch (action->kind) {
    case DETOUR_ACTION_SEND_F:
        *consumer = dt_op_index(p, DETOUR_OP_F, stage + 1, action->microbatch);
        return stage;
    case DETOUR_ACTION_RECV_F:
        *consumer = dt_op_index(p, DETOUR_OP_F, stage, action->microbatch);
        return stage - 1;
    case DETOUR_ACTION_SEND_B:
        *consumer = dt_op_index(p, DETOUR_OP_B, stage - 1, action->microbatch);
        return stage - 1;
    case DETOUR_ACTION_RECV_B:
        *consumer = dt_op_index(p, DETOUR_OP_B, stage, action->microbatch);
        return stage;
    default:
        return -1;
    }
}

/*
 * Merges the operations of all devices by their finish, in the order of execution. When one sends, the
 * receive is appended to its peer's actions so far: before the operation that needs it, and in an order in
 * which both sides post the messages of a pair alike.
 */
struct lowering {
    const struct dt_problem *p;
    const struct detour_schedule *s;
    struct detour_program *program;
    size_t *next;        /* [device]: next operation of the schedule */
    size_t *fill;        /* [device]: where its next action goes */
    bool *produced;      /* [op index]: its input exists */
    bool *offloaded;     /* [op index of F]: its activation goes to the host */
    struct dt_heap heap; /* devices whose next operation has its input, by its finish */
};

/* Puts the device on the heap if its next operation can run. */
static void offer(struct lowering *l, int32_t device)
{
    if (l->next[device] == l->s->first[device + 1])
        return;
    const struct detour_op *op = &l->s->ops[l->next[device]];
    if (!l->produced[dt_op_index(l->p, (enum detour_op_kind)op->kind, op->stage, op->microbatch)])
        return;
    dt_heap_set(&l->heap, device, op->finish_ns);
}

static void append(struct lowering *l, int kind, int32_t stage, int32_t microbatch)
{
    l->program->actions[l->fill[l->p->device[stage]]++] =
        (struct detour_action){.microbatch = microbatch, .stage = (int16_t)stage, .kind = (uint8_t)kind};
}

/* The output of `op` goes to stage `to`. */
static void pass_on(struct lowering *l, const struct detour_op *op, int32_t to)
{
    bool forward = op->kind == DETOUR_OP_F;

    l->produced[dt_op_index(l->p, forward ? DETOUR_OP_F : DETOUR_OP_B, to, op->microbatch)] = true;
    if (l->p->device[op->stage] == l->p->device[to])
        return;
    append(l, forward ? DETOUR_ACTION_SEND_F : DETOUR_ACTION_SEND_B, op->stage, op->microbatch);
    append(l, forward ? DETOUR_ACTION_RECV_F : DETOUR_ACTION_RECV_B, to, op->microbatch);
    offer(l, l->p->device[to]);
}

/* The operation's input comes from another device. */
static void append_wait(struct lowering *l, const struct detour_op *op)
{
    const int32_t *device = l->p->device;
    int32_t stage = op->stage;

    if (op->kind == DETOUR_OP_F && stage > 0 && device[stage - 1] != device[stage])
        append(l, DETOUR_ACTION_WAIT_F, stage, op->microbatch);
    if (dt_is_backward(op->kind) && stage + 1 < l->p->stage_count && device[stage + 1] != device[stage])
        append(l, DETOUR_ACTION_WAIT_B, stage, op->microbatch);
}

static bool is_offloaded(const struct lowering *l, const struct detour_op *op)
{
    return l->offloaded[dt_op_index(l->p, DETOUR_OP_F, op->stage, op->microbatch)];
}

/* The B behind `op` on the device, if its activation is on the host by the start of `op` (or, `after`, by its
 * end). */
static void append_reload(struct lowering *l, int32_t device, const struct detour_op *op, bool after)
{
    const struct detour_op *b = op + 1;

    if (l->next[device] == l->s->first[device + 1] || !dt_is_backward(b->kind) || !is_offloaded(l, b))
        return;
    bool is_own = op->kind == DETOUR_OP_F && op->stage == b->stage && op->microbatch == b->microbatch;
    if (is_own == after)
        append(l, DETOUR_ACTION_RELOAD, b->stage, b->microbatch);
}

static void append_op(struct lowering *l, int32_t device, const struct detour_op *op)
{
    append_wait(l, op);
    append_reload(l, device, op, false);
    append(l, op->kind, op->stage, op->microbatch);
    if (op->kind == DETOUR_OP_F && is_offloaded(l, op))
        append(l, DETOUR_ACTION_OFFLOAD, op->stage, op->microbatch);
    append_reload(l, device, op, true);
}

static void take(struct lowering *l, int32_t device)
{
    const struct dt_problem *p = l->p;
    const struct detour_op *op = &l->s->ops[l->next[device]++];

    append_op(l, device, op);
    if (op->kind == DETOUR_OP_F && op->stage + 1 < p->stage_count)
        pass_on(l, op, op->stage + 1);
    else if (op->kind == DETOUR_OP_F)
        l->produced[dt_op_index(p, DETOUR_OP_B, op->stage, op->microbatch)] = true;
    if (dt_is_backward(op->kind) && op->stage > 0)
        pass_on(l, op, op->stage - 1);
    if (op->kind == DETOUR_OP_B)
        l->produced[dt_op_index(p, DETOUR_OP_W, op->stage, op->microbatch)] = true;
}

/* Notes the activations that go to the host: each is copied out and back. */
static void lay_out_copies(struct lowering *l)
{
    for (size_t i = 0; i < l->s->op_count; i++) {
        const struct detour_op *op = &l->s->ops[i];

        if (op->kind != DETOUR_OP_F || !(op->flags & DETOUR_OP_OFFLOADED))
            continue;
        l->offloaded[dt_op_index(l->p, DETOUR_OP_F, op->stage, op->microbatch)] = true;
        l->program->first[l->p->device[op->stage] + 1] += 2;
    }
}

/*
 * The actions of each device: its operations, and a send, a receive and a wait per microbatch on each side of
 * each stage.
 */
static void lay_out(struct lowering *l)
{
    const struct dt_problem *p = l->p;
    size_t *first = l->program->first;

    for (int32_t d = 0; d < p->device_count; d++)
        first[d + 1] = l->s->first[d + 1] - l->s->first[d];
    for (int32_t i = 0; i + 1 < p->stage_count; i++) {
        if (p->device[i] == p->device[i + 1])
            continue;
        first[p->device[i] + 1] += 3 * (size_t)p->microbatch_count;
        first[p->device[i + 1] + 1] += 3 * (size_t)p->microbatch_count;
    }
    lay_out_copies(l);
    for (int32_t d = 0; d < p->device_count; d++)
        first[d + 1] += first[d];
    l->program->action_count = first[p->device_count];
    for (int32_t d = 0; d < p->device_count; d++) {
        l->next[d] = l->s->first[d];
        l->fill[d] = first[d];
    }
}

static void lower(struct lowering *l)
{
    for (int32_t j = 0; j < l->p->microbatch_count; j++)
        l->produced[dt_op_index(l->p, DETOUR_OP_F, 0, j)] = true;
    for (int32_t d = 0; d < l->p->device_count; d++)
        offer(l, d);
    for (int32_t device; (device = dt_heap_pop(&l->heap)) >= 0;) {
        take(l, device);
        offer(l, device);
    }
    for (int32_t d = 0; d < l->p->device_count; d++)
        DT_CHECK(l->next[d] == l->s->first[d + 1] && l->fill[d] == l->program->first[d + 1]);
}

enum detour_status dt_program_create(struct dt_call *call, const struct dt_problem *p,
                                     const struct detour_schedule *schedule, struct detour_program **program)
{
    struct lowering l = {.p = p, .s = schedule};
    struct detour_program *made;
    size_t others = 8 * dt_cell_count(p); /* send, receive, wait both ways; offload, reload */

    if (!dt_arena_new(call->arena, made, 1) || !dt_arena_new(call->arena, made->first, p->device_count + 1) ||
        !dt_arena_new(call->arena, made->actions, schedule->op_count + others))
        return dt_fail_memory(call->error);
    struct dt_arena_mark mark = dt_arena_save(call->arena);
    if (!dt_arena_new(call->arena, l.next, p->device_count) ||
        !dt_arena_new(call->arena, l.fill, p->device_count) ||
        !dt_arena_new(call->arena, l.produced, dt_op_index_count(p)) ||
        !dt_arena_new(call->arena, l.offloaded, dt_op_index_count(p)) ||
        !dt_heap_init(call->arena, p->device_count, &l.heap))
        return dt_fail_memory(call->error);
    made->device_count = p->device_count;
    l.program = made;
    lay_out(&l);
    lower(&l);
    dt_arena_rewind(call->arena, mark);
    *program = made;
    return DETOUR_OK;
}

enum detour_status detour_program_create(struct detour_arena *arena, const struct detour_profile *profile,
                                         const struct detour_schedule *schedule,
                                         struct detour_program **program, struct detour_error *error)
{
    struct detour_schedule *copy;
    struct dt_problem *p;
    struct dt_times times;
    struct dt_call call;

    dt_call_init(&call, arena, error, NULL);
    if (!program)
        return dt_fail(&call, DETOUR_INVALID, "program is NULL");
    enum detour_status status = dt_problem_create(&call, profile, &p);
    if (!status)
        status = dt_schedule_check_ops(&call, p, schedule);
    if (!status)
        status = dt_schedule_copy(&call, schedule, &copy);
    if (!status)
        status = dt_simulate(&call, p, copy, NULL, NULL, &times);
    return status ? status : dt_program_create(&call, p, copy, program);
}
