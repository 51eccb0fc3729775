/* SPDX-License-Identifier: Apache-2.0 */
/* The performance model: AdaPtis, Algorithm 1, step 3, on the simulator of sched/. */
#include <stdlib.h>

#include "base/check.h"
#include "planner/model.h"
#include "sched/arena.h"
#include "sched/call.h"
#include "sched/format/format.h"
#include "sched/schedule.h"

struct interval {
    int64_t begin_ns;
    int64_t end_ns;
};

/* Communication of one device: a growing list of intervals. */
struct communication {
    struct interval *intervals;
    size_t count;
};

struct evaluation {
    struct dt_call *call;
    const struct detour_model *model;
    const struct detour_partition *partition;
    const struct detour_schedule *schedule;
    struct dt_problem *p;
    struct dt_messages messages;
    int64_t *blocked_ns[2];              /* [backward][stage]: of an operation, the time that it sends */
    struct communication *communication; /* [device] */
    struct detour_performance *performance;
};

/* How long an operation's message blocks its device, and with that how much of it is not computing. */
static int64_t blocked_ns(const struct evaluation *e, const struct detour_op *op)
{
    return op->kind == DETOUR_OP_W ? 0 : e->blocked_ns[dt_is_backward(op->kind)][op->stage];
}

static int64_t message_blocks_ns(const struct evaluation *e, int32_t from_stage, int32_t to_stage)
{
    const struct detour_partition *partition = e->partition;
    int32_t later = from_stage > to_stage ? from_stage : to_stage;
    struct detour_model_link link =
        dt_model_link(e->model, partition->device[from_stage], partition->device[to_stage]);

    if (!link.blocks_sender)
        return 0;
    return dt_link_serial_ns(&link, e->model->layers[partition->first_layer[later] - 1].message_bytes);
}

static bool find_blocked(struct evaluation *e)
{
    int32_t count = e->partition->stage_count;

    if (!dt_arena_new(e->call->arena, e->blocked_ns[0], count) ||
        !dt_arena_new(e->call->arena, e->blocked_ns[1], count))
        return false;
    for (int32_t i = 0; i + 1 < count; i++) {
        e->blocked_ns[0][i] = message_blocks_ns(e, i, i + 1);
        e->blocked_ns[1][i + 1] = message_blocks_ns(e, i + 1, i);
    }
    return true;
}

static void add_interval(struct communication *communication, int64_t begin_ns, int64_t end_ns)
{
    communication->intervals[communication->count++] = (struct interval){begin_ns, end_ns};
}

/* Room for the messages that each device sends or receives. */
static bool allocate_communication(struct evaluation *e)
{
    size_t *counts;

    if (!dt_arena_new(e->call->arena, e->communication, e->p->device_count) ||
        !dt_arena_new(e->call->arena, counts, e->p->device_count))
        return false;
    for (size_t i = 0; i < e->messages.count; i++) {
        counts[e->p->device[e->messages.messages[i].from_stage]]++;
        counts[e->p->device[e->messages.messages[i].to_stage]]++;
    }
    for (int32_t d = 0; d < e->p->device_count; d++)
        if (!dt_arena_new(e->call->arena, e->communication[d].intervals, counts[d]))
            return false;
    return true;
}

static void collect_communication(struct evaluation *e)
{
    for (size_t i = 0; i < e->messages.count; i++) {
        const struct detour_message *message = &e->messages.messages[i];
        int64_t blocks_ns = e->blocked_ns[!dt_message_is_forward(message)][message->from_stage];
        int64_t begin_ns = message->depart_ns - blocks_ns;
        add_interval(&e->communication[e->p->device[message->to_stage]], begin_ns, message->arrive_ns);
        if (blocks_ns)
            add_interval(&e->communication[e->p->device[message->from_stage]], begin_ns, message->depart_ns);
    }
}

static int compare_intervals(const void *left, const void *right)
{
    const struct interval *a = left, *b = right;

    return a->begin_ns < b->begin_ns ? -1 : a->begin_ns > b->begin_ns;
}

/* Sorts the intervals and joins those that touch; returns their total length. */
static int64_t join_intervals(struct communication *communication)
{
    struct interval *joined = communication->intervals;
    size_t count = 0;
    int64_t total_ns = 0;

    qsort(joined, communication->count, sizeof(*joined), compare_intervals);
    for (size_t i = 0; i < communication->count; i++) {
        struct interval next = joined[i];
        if (count && next.begin_ns <= joined[count - 1].end_ns) {
            if (next.end_ns > joined[count - 1].end_ns)
                joined[count - 1].end_ns = next.end_ns;
        } else {
            joined[count++] = next;
        }
    }
    communication->count = count;
    for (size_t i = 0; i < count; i++)
        total_ns += joined[i].end_ns - joined[i].begin_ns;
    return total_ns;
}

static int64_t common_ns(struct interval a, struct interval b)
{
    int64_t begin_ns = a.begin_ns > b.begin_ns ? a.begin_ns : b.begin_ns;
    int64_t end_ns = a.end_ns < b.end_ns ? a.end_ns : b.end_ns;

    return end_ns > begin_ns ? end_ns - begin_ns : 0;
}

static void describe_time(struct evaluation *e, int32_t device)
{
    struct detour_device_performance *out = &e->performance->devices[device];
    struct communication *communication = &e->communication[device];
    const struct detour_schedule *s = e->schedule;
    int64_t total_ns = join_intervals(communication);
    size_t at = 0;

    for (size_t i = s->first[device]; i < s->first[device + 1]; i++) {
        const struct detour_op *op = &s->ops[i];
        struct interval computing = {op->start_ns, op->finish_ns - blocked_ns(e, op)};
        out->compute_ns += computing.end_ns - computing.begin_ns;
        while (at < communication->count && communication->intervals[at].end_ns <= computing.begin_ns)
            at++;
        for (size_t k = at; k < communication->count; k++) {
            if (communication->intervals[k].begin_ns >= computing.end_ns)
                break;
            out->overlapped_ns += common_ns(communication->intervals[k], computing);
        }
    }
    out->exposed_ns = total_ns - out->overlapped_ns;
    out->bubble_ns = e->performance->makespan_ns - out->compute_ns - out->exposed_ns;
    DT_CHECK(out->exposed_ns >= 0 && out->bubble_ns >= 0);
}

static void describe_exchange(struct evaluation *e, const struct detour_report *report)
{
    struct detour_performance *performance = e->performance;
    const struct detour_partition *partition = e->partition;
    int64_t bytes[DETOUR_MODEL_DEVICES_MAX] = {0};

    performance->iteration_ns = performance->makespan_ns;
    for (int32_t i = 0; i < partition->stage_count; i++) {
        struct dt_layer_sum sum =
            dt_sum_layers(e->model, partition->first_layer[i], partition->first_layer[i + 1]);
        bytes[partition->device[i]] += sum.parameter_bytes + sum.gradient_bytes;
    }
    for (int32_t d = 0; d < e->model->device_count; d++) {
        int64_t exchange_ns = dt_exchange_ns(&e->model->replicas, bytes[d]);
        int64_t end_ns = report->devices[d].last_finish_ns + exchange_ns;
        performance->devices[d].exchange_ns = exchange_ns;
        if (end_ns > performance->iteration_ns)
            performance->iteration_ns = end_ns;
    }
}

static void describe_memory(struct evaluation *e, const struct detour_report *report)
{
    struct detour_performance *performance = e->performance;
    const struct detour_partition *partition = e->partition;

    for (int32_t i = 0; i < partition->stage_count; i++) {
        struct detour_device_performance *out = &performance->devices[partition->device[i]];
        struct dt_layer_sum sum =
            dt_sum_layers(e->model, partition->first_layer[i], partition->first_layer[i + 1]);
        out->static_bytes += sum.parameter_bytes + sum.optimizer_bytes;
        out->gradient_bytes += sum.gradient_bytes;
    }
    performance->fits = true;
    for (int32_t d = 0; d < e->model->device_count; d++) {
        struct detour_device_performance *out = &performance->devices[d];
        int64_t capacity_bytes = e->model->devices[d].capacity_bytes;
        out->activation_bytes = report->devices[d].peak_bytes;
        out->peak_bytes = out->static_bytes + out->gradient_bytes + out->activation_bytes;
        out->fits = !capacity_bytes || out->peak_bytes <= capacity_bytes;
        performance->fits = performance->fits && out->fits;
    }
}

static void describe_whole(struct evaluation *e)
{
    struct detour_performance *performance = e->performance;
    double compute_ns = 0;

    for (int32_t d = 0; d < e->model->device_count; d++) {
        compute_ns += (double)performance->devices[d].compute_ns;
        if (performance->devices[d].compute_ns > performance->devices[performance->slowest_device].compute_ns)
            performance->slowest_device = d;
    }
    if (performance->makespan_ns > 0)
        performance->bubble_ratio =
            1 - compute_ns / ((double)e->model->device_count * (double)performance->makespan_ns);
}

static enum detour_status evaluate(struct evaluation *e, const struct detour_profile *profile,
                                   const struct detour_report *report)
{
    enum detour_status status = dt_problem_create(e->call, profile, &e->p);

    if (!status)
        status = dt_messages_create(e->call, e->p, e->schedule, &e->messages);
    if (status)
        return status;
    if (!find_blocked(e) || !allocate_communication(e))
        return dt_fail_memory(e->call->error);
    e->performance->makespan_ns = report->makespan_ns;
    collect_communication(e);
    for (int32_t d = 0; d < e->p->device_count; d++)
        describe_time(e, d);
    describe_memory(e, report);
    describe_exchange(e, report);
    describe_whole(e);
    return DETOUR_OK;
}

enum detour_status detour_model_evaluate(struct detour_arena *arena, const struct detour_model *model,
                                         const struct detour_partition *partition,
                                         struct detour_schedule *schedule,
                                         struct detour_performance **performance, struct detour_error *error)
{
    struct detour_profile *profile;
    struct detour_report *report;
    struct dt_call call;
    struct evaluation e = {.call = &call, .model = model, .partition = partition, .schedule = schedule};

    enum detour_status status = detour_model_check(model, error);
    if (!status)
        status = detour_partition_check(model, partition, error);
    if (status)
        return status;
    dt_call_init(&call, arena, error, NULL);
    if (!dt_arena_new(arena, e.performance, 1) ||
        !dt_arena_new(arena, e.performance->devices, model->device_count))
        return dt_fail_memory(error);
    struct dt_arena_mark mark = dt_arena_save(arena);

    status = dt_model_profile(arena, model, partition, false, &profile, error);
    if (!status)
        status = detour_simulate(arena, profile, schedule, &report, error);
    if (!status)
        status = evaluate(&e, profile, report);
    dt_arena_rewind(arena, mark);
    if (!status)
        *performance = e.performance;
    return status;
}
