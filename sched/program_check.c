/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program on the strictest transport that detour_program_check() describes: between two devices one
 * stream of messages, which both sides must enter in the same order.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/program.h"
#include "sched/schedule.h"

#define NONE SIZE_MAX

/*
 * The messages that one device has posted to the stream that it shares with another, in order and not yet
 * completed.
 */
struct side {
    int32_t device;
    size_t head; /* action index; NONE when empty */
    size_t tail;
};

struct stream {
    struct side sides[2]; /* the smaller device first */
};

struct execution {
    const struct dt_problem *p;
    const struct detour_program *program;
    struct stream *streams;
    int32_t stream_count;
    int32_t *stream_of; /* [link] */
    size_t *behind;     /* [action]: the next one posted on the same side */
    size_t *next;       /* [device] */
    bool *produced;     /* [op index]: its input is on its device */
    bool *done;         /* [op index] */
    bool *posted;       /* [op index]: a receive for it was posted */
    bool *away;         /* [op index of F]: its activation is on the host */
    int32_t *runnable;
    int32_t runnable_count;
    bool *queued;
};

static int compare_streams(const void *a, const void *b)
{
    const struct stream *x = a, *y = b;

    if (x->sides[0].device != y->sides[0].device)
        return x->sides[0].device < y->sides[0].device ? -1 : 1;
    return x->sides[1].device < y->sides[1].device ? -1 : x->sides[1].device > y->sides[1].device;
}

static struct stream stream_of_link(const struct dt_problem *p, int32_t link)
{
    int32_t a = p->device[link], b = p->device[link + 1];

    return (struct stream){{{a < b ? a : b, NONE, NONE}, {a < b ? b : a, NONE, NONE}}};
}

static void find_streams(struct execution *e)
{
    const struct dt_problem *p = e->p;
    int32_t distinct = 0;

    for (int32_t i = 0; i + 1 < p->stage_count; i++)
        if (p->device[i] != p->device[i + 1])
            e->streams[e->stream_count++] = stream_of_link(p, i);
    qsort(e->streams, (size_t)e->stream_count, sizeof(*e->streams), compare_streams);
    for (int32_t k = 0; k < e->stream_count; k++)
        if (k == 0 || compare_streams(&e->streams[k], &e->streams[distinct - 1]))
            e->streams[distinct++] = e->streams[k];
    e->stream_count = distinct;
    for (int32_t i = 0; i + 1 < p->stage_count; i++) {
        struct stream key = stream_of_link(p, i);
        struct stream *found =
            bsearch(&key, e->streams, (size_t)e->stream_count, sizeof(key), compare_streams);
        e->stream_of[i] = found ? (int32_t)(found - e->streams) : -1;
    }
}

static bool allocate(struct detour_arena *arena, struct execution *e)
{
    size_t devices = (size_t)e->p->device_count, ops = dt_op_index_count(e->p);

    return dt_arena_new(arena, e->streams, e->p->stage_count) &&
           dt_arena_new(arena, e->stream_of, e->p->stage_count) &&
           dt_arena_new(arena, e->behind, e->program->action_count) &&
           dt_arena_new(arena, e->next, devices) && dt_arena_new(arena, e->produced, ops) &&
           dt_arena_new(arena, e->done, ops) && dt_arena_new(arena, e->posted, ops) &&
           dt_arena_new(arena, e->away, ops) && dt_arena_new(arena, e->runnable, devices) &&
           dt_arena_new(arena, e->queued, devices);
}

static bool is_send(const struct detour_action *action)
{
    return action->kind == DETOUR_ACTION_SEND_F || action->kind == DETOUR_ACTION_SEND_B;
}

static bool is_compute(const struct detour_action *action)
{
    return action->kind <= DETOUR_ACTION_BW;
}

static bool is_wait(const struct detour_action *action)
{
    return action->kind == DETOUR_ACTION_WAIT_F || action->kind == DETOUR_ACTION_WAIT_B;
}

static bool is_copy(const struct detour_action *action)
{
    return action->kind == DETOUR_ACTION_OFFLOAD || action->kind == DETOUR_ACTION_RELOAD;
}

/* Op index of a computation, or of the one that a wait precedes. */
static size_t op_index_of(const struct execution *e, const struct detour_action *action)
{
    enum detour_op_kind kind = action->kind == DETOUR_ACTION_WAIT_F   ? DETOUR_OP_F
                               : action->kind == DETOUR_ACTION_WAIT_B ? DETOUR_OP_B
                                                                      : (enum detour_op_kind)action->kind;

    return dt_op_index(e->p, kind, action->stage, action->microbatch);
}

static void wake(struct execution *e, int32_t device)
{
    if (e->queued[device])
        return;
    e->queued[device] = true;
    e->runnable[e->runnable_count++] = device;
}

/* Completes a pair of matching heads. `status` is DETOUR_DEADLOCK when they do not match. */
static enum detour_status match_heads(struct dt_call *call, struct execution *e, struct stream *stream)
{
    struct side *a = &stream->sides[0], *b = &stream->sides[1];

    while (a->head != NONE && b->head != NONE) {
        const struct detour_action *x = &e->program->actions[a->head], *y = &e->program->actions[b->head];
        size_t consumer_x, consumer_y;
        dt_action_link(e->p, x, &consumer_x);
        dt_action_link(e->p, y, &consumer_y);
        if (consumer_x != consumer_y || is_send(x) == is_send(y)) {
            char text_x[DT_ACTION_TEXT_BYTES], text_y[DT_ACTION_TEXT_BYTES];
            return dt_fail(call, DETOUR_DEADLOCK,
                           "device %" PRId32 ", position %zu: %s meets device %" PRId32
                           ", position %zu: %s; both sides must have their messages in the same order",
                           a->device, a->head - e->program->first[a->device], dt_action_text(text_x, x),
                           b->device, b->head - e->program->first[b->device], dt_action_text(text_y, y));
        }
        a->head = e->behind[a->head];
        b->head = e->behind[b->head];
        e->produced[consumer_x] = true;
        wake(e, is_send(x) ? b->device : a->device);
    }
    return DETOUR_OK;
}

static enum detour_status post(struct dt_call *call, struct execution *e, int32_t device, size_t index)
{
    const struct detour_action *action = &e->program->actions[index];
    char text[DT_ACTION_TEXT_BYTES];
    size_t consumer;
    int32_t link = dt_action_link(e->p, action, &consumer);

    if (is_send(action)) {
        enum detour_op_kind kind = action->kind == DETOUR_ACTION_SEND_F ? DETOUR_OP_F : DETOUR_OP_B;
        if (!e->done[dt_op_index(e->p, kind, action->stage, action->microbatch)])
            return dt_fail(call, DETOUR_DEPENDENCY,
                           "device %" PRId32 ", position %zu: %s precedes the operation that makes its data",
                           device, index - e->program->first[device], dt_action_text(text, action));
    } else {
        e->posted[consumer] = true;
    }
    struct stream *stream = &e->streams[e->stream_of[link]];
    struct side *side = &stream->sides[device == stream->sides[1].device];
    if (side->head == NONE)
        side->head = index;
    else
        e->behind[side->tail] = index;
    side->tail = index;
    e->behind[index] = NONE;
    return match_heads(call, e, stream);
}

/* Within a device, data needs no message. */
static void hand_over(struct execution *e, const struct detour_action *op)
{
    const struct dt_problem *p = e->p;
    int32_t stage = op->stage;

    e->done[dt_op_index(p, (enum detour_op_kind)op->kind, stage, op->microbatch)] = true;
    if (op->kind == DETOUR_ACTION_F && stage + 1 == p->stage_count)
        e->produced[dt_op_index(p, DETOUR_OP_B, stage, op->microbatch)] = true;
    else if (op->kind == DETOUR_ACTION_F && p->device[stage] == p->device[stage + 1])
        e->produced[dt_op_index(p, DETOUR_OP_F, stage + 1, op->microbatch)] = true;
    if (dt_is_backward(op->kind) && stage > 0 && p->device[stage] == p->device[stage - 1])
        e->produced[dt_op_index(p, DETOUR_OP_B, stage - 1, op->microbatch)] = true;
    if (op->kind == DETOUR_ACTION_B)
        e->produced[dt_op_index(p, DETOUR_OP_W, stage, op->microbatch)] = true;
}

static enum detour_status fail_copy(struct dt_call *call, const struct execution *e, int32_t device,
                                    const struct detour_action *action, const char *problem)
{
    char text[DT_ACTION_TEXT_BYTES];

    return dt_fail(call, DETOUR_DEPENDENCY, "device %" PRId32 ", position %zu: %s %s", device,
                   e->next[device] - e->program->first[device], dt_action_text(text, action), problem);
}

static enum detour_status copy(struct dt_call *call, struct execution *e, int32_t device,
                               const struct detour_action *action)
{
    size_t f = dt_op_index(e->p, DETOUR_OP_F, action->stage, action->microbatch);
    bool goes_out = action->kind == DETOUR_ACTION_OFFLOAD;

    if (goes_out && !e->done[f])
        return fail_copy(call, e, device, action, "precedes its F");
    if (goes_out == e->away[f])
        return fail_copy(call, e, device, action,
                         goes_out ? "finds the activation on the host" : "finds no activation on the host");
    e->away[f] = goes_out;
    return DETOUR_OK;
}

static enum detour_status compute(struct dt_call *call, struct execution *e, int32_t device,
                                  const struct detour_action *op)
{
    if (dt_is_backward(op->kind) && e->away[dt_op_index(e->p, DETOUR_OP_F, op->stage, op->microbatch)])
        return fail_copy(call, e, device, op, "needs an activation that is on the host");
    hand_over(e, op);
    return DETOUR_OK;
}

/* Executes the device's actions that are ready. */
static enum detour_status advance(struct dt_call *call, struct execution *e, int32_t device)
{
    enum detour_status status = DETOUR_OK;

    while (!status && e->next[device] < e->program->first[device + 1]) {
        const struct detour_action *action = &e->program->actions[e->next[device]];
        if ((is_compute(action) || is_wait(action)) && !e->produced[op_index_of(e, action)])
            return DETOUR_OK;
        if (is_compute(action))
            status = compute(call, e, device, action);
        else if (is_copy(action))
            status = copy(call, e, device, action);
        else if (!is_wait(action))
            status = post(call, e, device, e->next[device]);
        if (!status)
            e->next[device]++;
    }
    return status;
}

static bool is_stuck(const struct execution *e, int32_t device)
{
    return e->next[device] < e->program->first[device + 1];
}

/*
 * The device that a stuck one waits for, or -1 with the error set when the wait cannot end for another
 * reason.
 */
static int32_t waits_for(struct dt_call *call, const struct execution *e, int32_t device)
{
    const struct dt_problem *p = e->p;
    const struct detour_action *op = &e->program->actions[e->next[device]];
    bool forward = op->kind == DETOUR_ACTION_F || op->kind == DETOUR_ACTION_WAIT_F;
    int32_t from = forward ? op->stage - 1 : op->stage + 1;
    size_t index = op_index_of(e, op);
    char text[DT_ACTION_TEXT_BYTES];

    if (p->device[from] == device || e->posted[index])
        return p->device[from];
    dt_fail(call, DETOUR_MISSING_OP, "device %" PRId32 ", position %zu: there is no receive before %s",
            device, e->next[device] - e->program->first[device], dt_action_text(text, op));
    return -1;
}

static enum detour_status describe_missing_send(struct dt_call *call, const struct execution *e,
                                                int32_t device, int32_t peer)
{
    const struct detour_action *op = &e->program->actions[e->next[device]];
    char text[DT_ACTION_TEXT_BYTES];

    return dt_fail(call, DETOUR_MISSING_OP,
                   "device %" PRId32 ", position %zu: %s waits for a send that device %" PRId32
                   " does not have",
                   device, e->next[device] - e->program->first[device], dt_action_text(text, op), peer);
}

static enum detour_status describe_stuck(struct dt_call *call, struct execution *e, int32_t device)
{
    char line[DETOUR_ERROR_TEXT_BYTES], text[DT_ACTION_TEXT_BYTES];
    size_t used = 0;

    memset(e->queued, 0, (size_t)e->p->device_count * sizeof(*e->queued));
    while (!e->queued[device]) {
        e->queued[device] = true;
        int32_t peer = waits_for(call, e, device);
        if (peer < 0)
            return DETOUR_MISSING_OP;
        if (!is_stuck(e, peer))
            return describe_missing_send(call, e, device, peer);
        device = peer;
    }
    int32_t begin = device;
    do {
        int32_t peer = waits_for(call, e, device);
        if (peer < 0)
            return DETOUR_MISSING_OP;
        used += (size_t)snprintf(line + used, sizeof(line) - used,
                                 "%sdevice %" PRId32 ", position %zu: %s waits for device %" PRId32,
                                 used ? "; " : "", device, e->next[device] - e->program->first[device],
                                 dt_action_text(text, &e->program->actions[e->next[device]]), peer);
        device = peer;
    } while (device != begin && used < sizeof(line));
    return dt_fail(call, DETOUR_DEADLOCK, "deadlock: %.*s", DETOUR_ERROR_TEXT_BYTES - 16, line);
}

static enum detour_status check_left_over(struct dt_call *call, const struct execution *e)
{
    for (int32_t d = 0; d < e->p->device_count; d++)
        if (is_stuck(e, d))
            return describe_stuck(call, (struct execution *)e, d);
    for (int32_t k = 0; k < e->stream_count; k++) {
        for (int end = 0; end < 2; end++) {
            const struct side *side = &e->streams[k].sides[end];
            char text[DT_ACTION_TEXT_BYTES];
            if (side->head != NONE)
                return dt_fail(call, DETOUR_MISSING_OP,
                               "device %" PRId32 ", position %zu: %s has no counterpart on device %" PRId32,
                               side->device, side->head - e->program->first[side->device],
                               dt_action_text(text, &e->program->actions[side->head]),
                               e->streams[k].sides[!end].device);
        }
    }
    return DETOUR_OK;
}

static enum detour_status execute(struct dt_call *call, struct execution *e)
{
    enum detour_status status = DETOUR_OK;

    for (int32_t j = 0; j < e->p->microbatch_count; j++)
        e->produced[dt_op_index(e->p, DETOUR_OP_F, 0, j)] = true;
    for (int32_t d = e->p->device_count - 1; d >= 0; d--) {
        e->next[d] = e->program->first[d];
        wake(e, d);
    }
    while (!status && e->runnable_count) {
        int32_t device = e->runnable[--e->runnable_count];
        e->queued[device] = false;
        status = advance(call, e, device);
    }
    return status ? status : check_left_over(call, e);
}

/* The stage whose link a send, receive or wait uses; the stage itself for a copy. */
static int32_t other_stage(const struct detour_action *action)
{
    switch (action->kind) {
    case DETOUR_ACTION_SEND_F:
    case DETOUR_ACTION_RECV_B:
    case DETOUR_ACTION_WAIT_B:
        return action->stage + 1;
    case DETOUR_ACTION_SEND_B:
    case DETOUR_ACTION_RECV_F:
    case DETOUR_ACTION_WAIT_F:
        return action->stage - 1;
    default:
        return action->stage;
    }
}

/*
 * Every send, receive and wait uses a link with a stage of its device at its end, every copy is of a stage of
 * its device, and the microbatch exists.
 */
static enum detour_status check_message(struct dt_call *call, const struct dt_problem *p, int32_t device,
                                        size_t place, const struct detour_action *action)
{
    char text[DT_ACTION_TEXT_BYTES];
    int32_t other = other_stage(action);

    if (action->kind > DETOUR_ACTION_RELOAD || action->stage < 0 || action->stage >= p->stage_count ||
        other < 0 || other >= p->stage_count || action->microbatch < 0 ||
        action->microbatch >= p->microbatch_count)
        return dt_fail(call, DETOUR_UNKNOWN_OP,
                       "device %" PRId32 ", position %zu: %s does not exist; stages are 0 to %" PRId32
                       ", microbatches 0 to %" PRId32,
                       device, place, dt_action_text(text, action), p->stage_count - 1,
                       p->microbatch_count - 1);
    if (p->device[action->stage] != device)
        return dt_fail(call, DETOUR_UNKNOWN_OP,
                       "device %" PRId32 ", position %zu: %s belongs to device %" PRId32, device, place,
                       dt_action_text(text, action), p->device[action->stage]);
    if (!is_copy(action) && p->device[other] == device)
        return dt_fail(call, DETOUR_UNKNOWN_OP,
                       "device %" PRId32
                       ", position %zu: %s would go to the device itself; nothing is sent there",
                       device, place, dt_action_text(text, action));
    return DETOUR_OK;
}

static enum detour_status check_shape(struct dt_call *call, const struct dt_problem *p,
                                      const struct detour_program *program)
{
    if (!program || !program->first || !program->actions)
        return dt_fail(call, DETOUR_INVALID, "program is NULL or has no actions");
    if (program->device_count != p->device_count)
        return dt_fail(call, DETOUR_INVALID, "program is for %" PRId32 " devices; the profile has %" PRId32,
                       program->device_count, p->device_count);
    for (int32_t d = 0; d < p->device_count; d++)
        if (program->first[d] > program->first[d + 1])
            return dt_fail(call, DETOUR_INVALID,
                           "first[%" PRId32 "] of the program is beyond first[%" PRId32 "]", d, d + 1);
    if (program->first[0] != 0 || program->first[p->device_count] != program->action_count)
        return dt_fail(call, DETOUR_INVALID, "first[] of the program must run from 0 to action_count (%zu)",
                       program->action_count);
    return DETOUR_OK;
}

enum detour_status dt_program_computations(struct dt_call *call, const struct dt_problem *p,
                                           const struct detour_program *program,
                                           struct detour_schedule **schedule)
{
    enum detour_status status = check_shape(call, p, program);
    struct detour_schedule *s;

    if (status)
        return status;
    if (!dt_arena_new(call->arena, s, 1) || !dt_arena_new(call->arena, s->ops, program->action_count) ||
        !dt_arena_new(call->arena, s->first, p->device_count + 1))
        return dt_fail_memory(call->error);
    s->stage_count = p->stage_count;
    s->microbatch_count = p->microbatch_count;
    s->device_count = p->device_count;
    for (int32_t d = 0; !status && d < p->device_count; d++) {
        for (size_t i = program->first[d]; !status && i < program->first[d + 1]; i++) {
            const struct detour_action *action = &program->actions[i];
            if (is_compute(action))
                s->ops[s->op_count++] = (struct detour_op){
                    .microbatch = action->microbatch, .stage = action->stage, .kind = action->kind};
            else
                status = check_message(call, p, d, i - program->first[d], action);
        }
        s->first[d + 1] = s->op_count;
    }
    *schedule = s;
    return status ? status : dt_schedule_check_ops(call, p, s);
}

enum detour_status dt_program_check(struct dt_call *call, const struct dt_problem *p,
                                    const struct detour_program *program)
{
    struct execution e = {.p = p, .program = program};
    struct detour_schedule *computations;
    enum detour_status status = dt_program_computations(call, p, program, &computations);

    if (status)
        return status;
    if (!allocate(call->arena, &e))
        return dt_fail_memory(call->error);
    find_streams(&e);
    return execute(call, &e);
}

enum detour_status detour_program_check(struct detour_arena *arena, const struct detour_profile *profile,
                                        const struct detour_program *program, struct detour_error *error)
{
    struct dt_problem *p;
    struct dt_call call;

    dt_call_init(&call, arena, error, NULL);
    if (!arena)
        return dt_fail(&call, DETOUR_INVALID, "arena is NULL");
    struct dt_arena_mark mark = dt_arena_save(arena);
    enum detour_status status = dt_problem_create(&call, profile, &p);
    if (!status)
        status = dt_program_check(&call, p, program);
    dt_arena_rewind(arena, mark);
    return status;
}
