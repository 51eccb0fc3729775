/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/slack.h"

#include "base/check.h"
#include "sched/schedule.h"

/*
 * The reverse of simulate.c: devices run from their last operation to their first, each operation once
 * everything that waits for it has its latest start. All times are the latest that do not change the last
 * finish.
 */
struct backward {
    const struct dt_problem *p;
    const struct detour_schedule *s;
    const int64_t *input_ns;
    struct detour_link_report *links;
    int64_t *latest_ns;    /* [op index]: latest start; DT_FOREVER: not known yet */
    size_t *next;          /* [device]: one past the operation it is at */
    int64_t *free_ns;      /* [device]: latest finish that the operation behind allows */
    int64_t *forward_ns;   /* [stage]: latest end of occupation that the next message on the link allows */
    int64_t *backward_ns;  /* [stage] */
    int64_t *back_ns;      /* [device]: latest end of the copy for the B that comes next; DT_FOREVER: none */
    int64_t *back_copy_ns; /* [device]: and how long that copy takes */
    int64_t *copy_in_ns;   /* [device]: latest end that the next copy back allows */
    int64_t *copy_out_ns;  /* [device] */
    int64_t *host_ns;      /* [cell]: latest end of the copy to the host */
    bool *offloaded;       /* [cell] */
    int32_t *runnable;
    int32_t runnable_count;
    bool *queued;
};

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool fill(struct detour_arena *arena, int64_t **table, size_t count, int64_t value)
{
    *table = dt_arena_alloc_raw(arena, count, sizeof(**table));
    for (size_t i = 0; *table && i < count; i++)
        (*table)[i] = value;
    return *table != NULL;
}

static bool allocate(struct detour_arena *arena, struct backward *b, int64_t end_ns)
{
    size_t devices = (size_t)b->p->device_count, stages = (size_t)b->p->stage_count;

    return fill(arena, &b->latest_ns, dt_op_index_count(b->p), DT_FOREVER) &&
           fill(arena, &b->free_ns, devices, end_ns) && fill(arena, &b->forward_ns, stages, DT_FOREVER) &&
           fill(arena, &b->backward_ns, stages, DT_FOREVER) &&
           fill(arena, &b->back_ns, devices, DT_FOREVER) && fill(arena, &b->back_copy_ns, devices, 0) &&
           fill(arena, &b->copy_in_ns, devices, DT_FOREVER) &&
           fill(arena, &b->copy_out_ns, devices, DT_FOREVER) &&
           fill(arena, &b->host_ns, dt_cell_count(b->p), DT_FOREVER) &&
           dt_arena_new(arena, b->offloaded, dt_cell_count(b->p)) && dt_arena_new(arena, b->next, devices) &&
           dt_arena_new(arena, b->runnable, devices) && dt_arena_new(arena, b->queued, devices);
}

static void wake(struct backward *b, int32_t device)
{
    if (b->queued[device])
        return;
    b->queued[device] = true;
    b->runnable[b->runnable_count++] = device;
}

/* The operation that waits for the message of `op`; false if op sends none. */
static bool consumer_of(const struct backward *b, const struct detour_op *op, size_t *consumer)
{
    if (op->kind == DETOUR_OP_F && op->stage + 1 < b->p->stage_count) {
        *consumer = dt_op_index(b->p, DETOUR_OP_F, op->stage + 1, op->microbatch);
        return true;
    }
    if (dt_is_backward(op->kind) && op->stage > 0) {
        *consumer = dt_op_index(b->p, DETOUR_OP_B, op->stage - 1, op->microbatch);
        return true;
    }
    return false;
}

/* The latest finish of the sender of a message that may arrive at `arrive_ns`. */
static int64_t latest_departure(struct backward *b, const struct detour_op *op, int64_t arrive_ns)
{
    bool forward = op->kind == DETOUR_OP_F;
    int32_t link = forward ? op->stage : op->stage - 1;
    int64_t *occupied_ns = forward ? &b->forward_ns[op->stage] : &b->backward_ns[op->stage];
    int64_t latency_ns = forward ? b->p->forward_ns[link] : b->p->backward_ns[link];
    int64_t serial_ns = forward ? b->p->forward_serial_ns[link] : b->p->backward_serial_ns[link];

    *occupied_ns = earlier(arrive_ns - latency_ns, *occupied_ns) - serial_ns;
    return *occupied_ns;
}

/* A B whose activation comes back from the host limits the operation before it and its own F's copy. */
static void limit_by_copy_back(struct backward *b, int32_t device, const struct detour_op *op,
                               int64_t start_ns)
{
    size_t cell = dt_op_index(b->p, DETOUR_OP_F, op->stage, op->microbatch);

    if (!b->offloaded[cell])
        return;
    b->back_ns[device] = earlier(start_ns, b->copy_in_ns[device]);
    b->back_copy_ns[device] = b->p->profile->stages[op->stage].offload_ns;
    b->copy_in_ns[device] = b->back_ns[device] - b->back_copy_ns[device];
    b->host_ns[cell] = b->copy_in_ns[device];
}

static int64_t limit_by_copy_out(struct backward *b, int32_t device, const struct detour_op *op)
{
    int64_t end_ns = b->host_ns[dt_op_index(b->p, DETOUR_OP_F, op->stage, op->microbatch)];

    b->copy_out_ns[device] =
        earlier(end_ns, b->copy_out_ns[device]) - b->p->profile->stages[op->stage].offload_ns;
    return b->copy_out_ns[device];
}

/* False if what waits for the operation is not known yet. */
static bool step(struct backward *b, int32_t device)
{
    const struct detour_op *op = &b->s->ops[b->next[device] - 1];
    int64_t finish_ns = b->free_ns[device];
    size_t consumer;

    if (consumer_of(b, op, &consumer)) {
        if (b->latest_ns[consumer] == DT_FOREVER)
            return false;
        finish_ns = earlier(finish_ns, latest_departure(b, op, b->latest_ns[consumer]));
    }
    if (op->flags & DETOUR_OP_OFFLOADED)
        finish_ns = earlier(finish_ns, limit_by_copy_out(b, device, op));
    int64_t duration_ns = op->finish_ns - op->start_ns, start_ns = finish_ns - duration_ns;
    if (b->back_ns[device] != DT_FOREVER) /* the copy ends with this operation, or begins with it */
        start_ns = earlier(start_ns, b->back_ns[device] - (duration_ns > b->back_copy_ns[device]
                                                               ? duration_ns
                                                               : b->back_copy_ns[device]));
    b->back_ns[device] = DT_FOREVER;
    if (dt_is_backward(op->kind))
        limit_by_copy_back(b, device, op, start_ns);
    b->latest_ns[dt_op_index(b->p, (enum detour_op_kind)op->kind, op->stage, op->microbatch)] = start_ns;
    b->free_ns[device] = start_ns;
    b->next[device]--;
    if (op->kind == DETOUR_OP_F && op->stage > 0)
        wake(b, b->p->device[op->stage - 1]);
    if (dt_is_backward(op->kind) && op->stage + 1 < b->p->stage_count)
        wake(b, b->p->device[op->stage + 1]);
    return true;
}

static void run(struct backward *b)
{
    for (size_t i = 0; i < b->s->op_count; i++)
        if (b->s->ops[i].flags & DETOUR_OP_OFFLOADED)
            b->offloaded[dt_op_index(b->p, DETOUR_OP_F, b->s->ops[i].stage, b->s->ops[i].microbatch)] = true;
    for (int32_t d = 0; d < b->p->device_count; d++) {
        b->next[d] = b->s->first[d + 1];
        wake(b, d);
    }
    while (b->runnable_count) {
        int32_t device = b->runnable[--b->runnable_count];
        b->queued[device] = false;
        while (b->next[device] > b->s->first[device] && step(b, device))
            ;
    }
    for (int32_t d = 0; d < b->p->device_count; d++)
        DT_CHECK(b->next[d] == b->s->first[d]); /* the forward pass has shown that there is no cycle */
}

/* The slack of one message, taken into its direction's minima. */
static void note_message(const struct backward *b, const struct detour_op *consumer, int64_t *local_ns,
                         int64_t *total_ns)
{
    size_t index =
        dt_op_index(b->p, (enum detour_op_kind)consumer->kind, consumer->stage, consumer->microbatch);

    *local_ns = earlier(*local_ns, consumer->start_ns - b->input_ns[index]);
    *total_ns = earlier(*total_ns, b->latest_ns[index] - b->input_ns[index]);
}

static void note_messages(const struct backward *b)
{
    const struct dt_problem *p = b->p;

    for (int32_t i = 0; i + 1 < p->stage_count; i++)
        b->links[i] = (struct detour_link_report){DETOUR_TIME_MAX_NS, DETOUR_TIME_MAX_NS, DETOUR_TIME_MAX_NS,
                                                  DETOUR_TIME_MAX_NS};
    for (size_t i = 0; i < b->s->op_count; i++) {
        const struct detour_op *op = &b->s->ops[i];
        int32_t stage = op->stage;
        if (op->kind == DETOUR_OP_F && stage > 0 && p->device[stage - 1] != p->device[stage])
            note_message(b, op, &b->links[stage - 1].forward_local_slack_ns,
                         &b->links[stage - 1].forward_total_slack_ns);
        if (dt_is_backward(op->kind) && stage + 1 < p->stage_count &&
            p->device[stage + 1] != p->device[stage])
            note_message(b, op, &b->links[stage].backward_local_slack_ns,
                         &b->links[stage].backward_total_slack_ns);
    }
}

enum detour_status dt_slack(struct dt_call *call, const struct dt_problem *p,
                            const struct detour_schedule *schedule, const int64_t *input_ns,
                            struct detour_link_report *links)
{
    struct backward b = {.p = p, .s = schedule, .input_ns = input_ns, .links = links};
    struct dt_arena_mark mark = dt_arena_save(call->arena);
    int64_t end_ns = 0;

    for (int32_t d = 0; d < p->device_count; d++) {
        int64_t finish_ns = schedule->ops[schedule->first[d + 1] - 1].finish_ns;
        end_ns = finish_ns > end_ns ? finish_ns : end_ns;
    }
    if (!allocate(call->arena, &b, end_ns))
        return dt_fail_memory(call->error);
    run(&b);
    note_messages(&b);
    dt_arena_rewind(call->arena, mark);
    return DETOUR_OK;
}
