/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of charts besides operations: messages on links and memory over time. */
#include "base/util.h"
#include "sched/format/format.h"
#include "sched/memory.h"

/* One direction of a link: where its messages go in the array, and until when it is occupied. */
struct lane {
    size_t next;
    int64_t busy_ns;
};

static bool crosses(const struct dt_problem *p, int32_t from, int32_t to)
{
    return to >= 0 && to < p->stage_count && p->device[from] != p->device[to];
}

static size_t place_lanes(const struct dt_problem *p, struct lane *forward, struct lane *backward)
{
    size_t count = 0;

    for (int32_t i = 0; i + 1 < p->stage_count; i++) {
        size_t messages = crosses(p, i, i + 1) ? (size_t)p->microbatch_count : 0;
        forward[i].next = count;
        backward[i].next = count + messages;
        count += 2 * messages;
    }
    return count;
}

/* The timing is simulate.c's: a message departs when the one before it has left the link free. */
static void add_message(struct detour_message *messages, struct lane *lane, const struct detour_op *op,
                        int32_t to, int64_t serial_ns, int64_t latency_ns)
{
    int64_t depart_ns = op->finish_ns > lane->busy_ns ? op->finish_ns : lane->busy_ns;

    lane->busy_ns = depart_ns + serial_ns;
    messages[lane->next++] = (struct detour_message){.ready_ns = op->finish_ns,
                                                     .depart_ns = depart_ns,
                                                     .arrive_ns = lane->busy_ns + latency_ns,
                                                     .from_stage = op->stage,
                                                     .to_stage = to,
                                                     .microbatch = op->microbatch};
}

enum detour_status dt_messages_create(struct dt_call *call, const struct dt_problem *p,
                                      const struct detour_schedule *schedule, struct dt_messages *messages)
{
    struct lane *forward, *backward;
    struct detour_message *made;

    if (!dt_arena_new(call->arena, forward, p->stage_count) ||
        !dt_arena_new(call->arena, backward, p->stage_count))
        return dt_fail_memory(call->error);
    messages->count = place_lanes(p, forward, backward);
    if (!dt_arena_new(call->arena, made, messages->count))
        return dt_fail_memory(call->error);
    messages->messages = made;
    for (size_t i = 0; i < schedule->op_count; i++) {
        const struct detour_op *op = &schedule->ops[i];
        int32_t stage = op->stage;
        if (op->kind == DETOUR_OP_F && crosses(p, stage, stage + 1))
            add_message(made, &forward[stage], op, stage + 1, p->forward_serial_ns[stage],
                        p->forward_ns[stage]);
        if (dt_is_backward(op->kind) && crosses(p, stage, stage - 1))
            add_message(made, &backward[stage - 1], op, stage - 1, p->backward_serial_ns[stage - 1],
                        p->backward_ns[stage - 1]);
    }
    return DETOUR_OK;
}

int64_t dt_round_step(int64_t span_ns, int64_t width, int64_t distance)
{
    static const int64_t factors[] = {1, 2, 5};

    for (int64_t power_ns = 1;; power_ns *= 10)
        for (size_t i = 0; i < DT_COUNT_OF(factors); i++)
            if ((__int128)factors[i] * power_ns * width >= (__int128)distance * span_ns)
                return factors[i] * power_ns;
}

void dt_text_add_usage(struct dt_text *text, const struct dt_usage *usage, int64_t value)
{
    static const char suffixes[] = "\0KMGTPE";
    int power = 0;

    while (usage->in_bytes && value >> (10 * power) >= 1024)
        power++;
    int64_t unit = (int64_t)1 << (10 * power);

    dt_text_add_decimal(text, (int64_t)((__int128)value * 10 / unit), 1);
    dt_text_add_bytes(text, &suffixes[power], power > 0);
}

static bool knows_bytes(const struct dt_problem *p)
{
    for (int32_t i = 0; i < p->stage_count; i++)
        if (p->bytes_f[i] || p->bytes_w[i])
            return true;
    return false;
}

/* In microbatches: the stages' limits together, if all have one. */
static int64_t device_limit(const struct dt_problem *p, int32_t device, bool in_bytes)
{
    int64_t limit = 0;

    if (in_bytes)
        return p->capacity[device];
    for (int32_t k = p->device_first[device]; k < p->device_first[device + 1]; k++) {
        if (p->max_inflight[p->device_stages[k]] == INT32_MAX)
            return INT64_MAX;
        limit += p->max_inflight[p->device_stages[k]];
    }
    return limit;
}

/* Turns a device's events into steps, one for each moment; returns the end of the steps. */
static size_t add_steps(struct dt_usage *usage, int32_t device, const struct dt_memory_event *events,
                        size_t count)
{
    size_t at = usage->first[device];
    int64_t value = 0;

    for (size_t i = 0; i < count; i++) {
        value += usage->in_bytes ? events[i].bytes : events[i].inflight;
        if (value > usage->peak[device])
            usage->peak[device] = value;
        if (at == usage->first[device] || usage->steps[at - 1].time_ns != events[i].time_ns)
            at++;
        usage->steps[at - 1] = (struct dt_usage_step){events[i].time_ns, value};
    }
    return at;
}

enum detour_status dt_usage_create(struct dt_call *call, const struct dt_problem *p,
                                   const struct detour_schedule *schedule, struct dt_usage *usage)
{
    struct dt_memory_event *events;
    struct dt_copies copies;

    usage->in_bytes = knows_bytes(p);
    if (!dt_arena_new(call->arena, usage->first, p->device_count + 1) ||
        !dt_arena_new(call->arena, usage->peak, p->device_count) ||
        !dt_arena_new(call->arena, usage->limit, p->device_count) ||
        !dt_arena_new(call->arena, usage->steps, 3 * schedule->op_count) ||
        !dt_arena_new(call->arena, events, 3 * schedule->op_count) ||
        !dt_copies_init(call->arena, p, &copies))
        return dt_fail_memory(call->error);
    for (int32_t d = 0; d < p->device_count; d++) {
        size_t count = dt_memory_events(schedule, d, &copies, events);
        usage->first[d + 1] = add_steps(usage, d, events, count);
        usage->limit[d] = device_limit(p, d, usage->in_bytes);
    }
    return DETOUR_OK;
}
