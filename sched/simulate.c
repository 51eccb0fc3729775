/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/simulate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "sched/offload.h"
#include "sched/schedule.h"

/*
 * An operation waits for one thing only besides its device: F and B for a message (or, within a device, for
 * the finish of the neighboring stage's operation), W for its B. B also needs its own F, but the gradient it
 * waits for cannot exist before that F has finished.
 */
struct simulation {
    const struct dt_problem *p;
    struct detour_schedule *s;
    const struct dt_prefix *prefix; /* may be NULL */
    int64_t *input_ns;              /* [op index]: when its input is there; -1: not produced yet */
    size_t *next;                   /* [device]: the operation it is at */
    int64_t *free_ns;               /* [device]: finish of the operation before that */
    int64_t *forward_busy_ns;       /* [stage]: the link behind the stage is occupied until then */
    int64_t *backward_busy_ns;      /* [stage]: the link before the stage */
    int32_t *runnable;              /* a stack of devices to look at */
    int32_t runnable_count;
    bool *queued;            /* [device]: is on that stack */
    bool copying;            /* the schedule offloads something */
    struct dt_copies copies; /* only if so */
};

static bool allocate(struct detour_arena *arena, struct simulation *sim)
{
    const struct dt_problem *p = sim->p;

    sim->copying = dt_schedule_offloads(sim->s);
    if (sim->copying && !dt_copies_init(arena, p, &sim->copies))
        return false;
    if (!sim->input_ns)
        sim->input_ns = dt_arena_alloc_raw(arena, dt_op_index_count(p), sizeof(*sim->input_ns));
    return sim->input_ns && dt_arena_new(arena, sim->next, p->device_count) &&
           dt_arena_new(arena, sim->free_ns, p->device_count) &&
           dt_arena_new(arena, sim->forward_busy_ns, p->stage_count) &&
           dt_arena_new(arena, sim->backward_busy_ns, p->stage_count) &&
           dt_arena_new(arena, sim->runnable, p->device_count) &&
           dt_arena_new(arena, sim->queued, p->device_count);
}

static void wake(struct simulation *sim, int32_t device)
{
    if (sim->queued[device])
        return;
    sim->queued[device] = true;
    sim->runnable[sim->runnable_count++] = device;
}

/* When a message that is ready at `ready_ns` arrives; `busy_ns` is the state of its link and direction. */
static int64_t send(int64_t *busy_ns, int64_t ready_ns, int64_t serial_ns, int64_t latency_ns)
{
    int64_t depart_ns = ready_ns > *busy_ns ? ready_ns : *busy_ns;

    *busy_ns = depart_ns + serial_ns;
    return *busy_ns + latency_ns;
}

/* Delivers the output of a finished operation. */
static void deliver(struct simulation *sim, const struct detour_op *op)
{
    const struct dt_problem *p = sim->p;
    int32_t stage = op->stage;

    if (op->kind == DETOUR_OP_F && stage + 1 == p->stage_count) {
        sim->input_ns[dt_op_index(p, DETOUR_OP_B, stage, op->microbatch)] = op->finish_ns;
    } else if (op->kind == DETOUR_OP_F) {
        sim->input_ns[dt_op_index(p, DETOUR_OP_F, stage + 1, op->microbatch)] = send(
            &sim->forward_busy_ns[stage], op->finish_ns, p->forward_serial_ns[stage], p->forward_ns[stage]);
        wake(sim, p->device[stage + 1]);
    } else if (dt_is_backward(op->kind)) {
        if (op->kind == DETOUR_OP_B)
            sim->input_ns[dt_op_index(p, DETOUR_OP_W, stage, op->microbatch)] = op->finish_ns;
        if (stage == 0)
            return;
        sim->input_ns[dt_op_index(p, DETOUR_OP_B, stage - 1, op->microbatch)] =
            send(&sim->backward_busy_ns[stage], op->finish_ns, p->backward_serial_ns[stage - 1],
                 p->backward_ns[stage - 1]);
        wake(sim, p->device[stage - 1]);
    }
}

/* Times the next operation of the device; false if its input has not been produced yet. */
static bool step(struct simulation *sim, int32_t device)
{
    const struct dt_problem *p = sim->p;
    size_t index = sim->next[device];
    struct detour_op *op = &sim->s->ops[index];
    bool fixed = sim->prefix && index - sim->s->first[device] < sim->prefix->started[device];
    int64_t start_ns =
        sim->input_ns[dt_op_index(p, (enum detour_op_kind)op->kind, op->stage, op->microbatch)];

    if (start_ns < 0)
        return false;
    start_ns = start_ns > sim->free_ns[device] ? start_ns : sim->free_ns[device];
    if (sim->copying && dt_is_backward(op->kind)) {
        int64_t there_ns = dt_copies_in(&sim->copies, op, NULL);
        start_ns = start_ns > there_ns ? start_ns : there_ns;
    }
    if (!fixed) {
        op->start_ns = sim->prefix && start_ns < sim->prefix->now_ns ? sim->prefix->now_ns : start_ns;
        op->finish_ns = op->start_ns + p->duration_ns[op->kind][op->stage];
    }
    sim->free_ns[device] = op->finish_ns;
    sim->next[device]++;
    if (op->flags & DETOUR_OP_OFFLOADED)
        dt_copies_out(&sim->copies, op);
    deliver(sim, op);
    return true;
}

static void run(struct simulation *sim)
{
    const struct dt_problem *p = sim->p;

    memset(sim->input_ns, 0xff, dt_op_index_count(p) * sizeof(*sim->input_ns)); /* -1 */
    for (int32_t j = 0; j < p->microbatch_count; j++)
        sim->input_ns[dt_op_index(p, DETOUR_OP_F, 0, j)] = 0;
    for (int32_t d = p->device_count - 1; d >= 0; d--) {
        sim->next[d] = sim->s->first[d];
        wake(sim, d);
    }
    while (sim->runnable_count) {
        int32_t device = sim->runnable[--sim->runnable_count];
        sim->queued[device] = false;
        while (sim->next[device] < sim->s->first[device + 1] && step(sim, device))
            ;
    }
}

/* The operation whose output `op` waits for; not its own F or B, which come earlier on the same device. */
static struct detour_op producer_of(const struct detour_op *op)
{
    struct detour_op producer = *op;

    DT_CHECK(op->kind != DETOUR_OP_W);
    producer.stage = (int16_t)(op->kind == DETOUR_OP_F ? op->stage - 1 : op->stage + 1);
    return producer;
}

static bool is_stuck(const struct simulation *sim, int32_t device)
{
    return sim->next[device] < sim->s->first[device + 1];
}

/*
 * Follows the chain from a stuck device to the device that it waits for, around the cycle; `queued` marks
 * the visited devices.
 */
static enum detour_status describe_deadlock(struct dt_call *call, struct simulation *sim)
{
    char line[DETOUR_ERROR_TEXT_BYTES], have[DT_OP_TEXT_BYTES], need[DT_OP_TEXT_BYTES];
    size_t used = 0;
    int32_t device = 0;

    while (!is_stuck(sim, device))
        device++;
    while (!sim->queued[device]) {
        sim->queued[device] = true;
        device = sim->p->device[producer_of(&sim->s->ops[sim->next[device]]).stage];
    }
    int32_t begin = device;
    do {
        const struct detour_op *op = &sim->s->ops[sim->next[device]];
        struct detour_op producer = producer_of(op);
        int length =
            snprintf(line + used, sizeof(line) - used, "%sdevice %" PRId32 ", position %zu: %s waits for %s",
                     used ? "; " : "", device, sim->next[device] - sim->s->first[device],
                     dt_op_text(have, op), dt_op_text(need, &producer));
        used += (size_t)length;
        device = sim->p->device[producer.stage];
    } while (device != begin && used < sizeof(line));
    return dt_fail(call, DETOUR_DEADLOCK, "deadlock: %.*s; the last of these follows the first",
                   DETOUR_ERROR_TEXT_BYTES - 80, line);
}

static void sum_up(const struct simulation *sim, struct dt_times *times)
{
    const struct detour_schedule *s = sim->s;
    int64_t first_ns = INT64_MAX, last_ns = 0;

    *times = (struct dt_times){.longest_span_ns = -1};
    for (int32_t d = 0; d < s->device_count; d++) {
        int64_t start_ns = s->ops[s->first[d]].start_ns;
        int64_t finish_ns = s->ops[s->first[d + 1] - 1].finish_ns;
        first_ns = start_ns < first_ns ? start_ns : first_ns;
        last_ns = finish_ns > last_ns ? finish_ns : last_ns;
        if (finish_ns - start_ns > times->longest_span_ns) {
            times->longest_span_ns = finish_ns - start_ns;
            times->longest_span_device = d;
        }
    }
    times->makespan_ns = last_ns - first_ns;
}

enum detour_status dt_simulate(struct dt_call *call, const struct dt_problem *p,
                               struct detour_schedule *schedule, const struct dt_prefix *prefix,
                               int64_t *input_ns, struct dt_times *times)
{
    struct simulation sim = {.p = p, .s = schedule, .prefix = prefix, .input_ns = input_ns};
    struct dt_arena_mark mark = dt_arena_save(call->arena);
    enum detour_status status = DETOUR_OK;

    if (!allocate(call->arena, &sim))
        return dt_fail_memory(call->error);
    run(&sim);
    for (int32_t d = 0; !status && d < p->device_count; d++)
        if (is_stuck(&sim, d))
            status = describe_deadlock(call, &sim);
    if (!status) {
        schedule->timed = true;
        sum_up(&sim, times);
    }
    dt_arena_rewind(call->arena, mark);
    return status;
}
