/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/memory.h"

#include <inttypes.h>
#include <stdlib.h>

#include "sched/offload.h"
#include "sched/schedule.h"

enum detour_status dt_memory_init(struct dt_call *call, const struct dt_problem *p, struct dt_memory *memory)
{
    memory->problem = p;
    if (!dt_arena_new(call->arena, memory->bytes, p->device_count) ||
        !dt_arena_new(call->arena, memory->inflight, p->stage_count))
        return dt_fail_memory(call->error);
    return DETOUR_OK;
}

static void raise_peaks(const struct dt_peaks *peaks, const struct dt_memory *memory, int32_t device,
                        int32_t stage)
{
    if (memory->bytes[device] > peaks->bytes[device])
        peaks->bytes[device] = memory->bytes[device];
    if (memory->inflight[stage] > peaks->inflight[stage])
        peaks->inflight[stage] = memory->inflight[stage];
}

/* Without offloading the order of the device determines the peaks. */
static void peaks_in_order(const struct detour_schedule *s, int32_t device, struct dt_memory *memory,
                           const struct dt_peaks *peaks)
{
    const struct dt_problem *p = memory->problem;

    for (size_t i = s->first[device]; i < s->first[device + 1]; i++) {
        const struct detour_op *op = &s->ops[i];
        int64_t at_start = memory->bytes[device] + dt_memory_taken(p, op->kind, op->stage);
        if (at_start > peaks->bytes[device])
            peaks->bytes[device] = at_start;
        dt_memory_apply(memory, op->kind, op->stage);
        raise_peaks(peaks, memory, device, op->stage);
    }
}

static int compare_events(const void *a, const void *b)
{
    const struct dt_memory_event *x = a, *y = b;

    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

static void add_event(struct dt_memory_event *events, size_t *count, int64_t time_ns,
                      const struct detour_op *op, int64_t bytes, int32_t inflight)
{
    events[*count] = (struct dt_memory_event){time_ns, *count, bytes, inflight, op->stage, op->microbatch};
    ++*count;
}

static size_t collect_events(const struct detour_schedule *s, int32_t device, struct dt_copies *copies,
                             struct dt_memory_event *events)
{
    const struct dt_problem *p = copies->problem;
    size_t count = 0;

    for (size_t i = s->first[device]; i < s->first[device + 1]; i++) {
        const struct detour_op *op = &s->ops[i];
        int64_t back_ns;
        if (dt_is_backward(op->kind) && dt_copies_in(copies, op, &back_ns))
            add_event(events, &count, back_ns, op, p->bytes_f[op->stage], 1);
        add_event(events, &count, op->start_ns, op, dt_memory_taken(p, op->kind, op->stage),
                  op->kind == DETOUR_OP_F);
        if (op->flags & DETOUR_OP_OFFLOADED)
            add_event(events, &count, dt_copies_out(copies, op), op, -p->bytes_f[op->stage], -1);
        else if (op->kind != DETOUR_OP_F)
            add_event(events, &count, op->finish_ns, op, -dt_memory_freed(p, op->kind, op->stage),
                      dt_memory_inflight_change(p, op->kind));
    }
    return count;
}

size_t dt_memory_events(const struct detour_schedule *schedule, int32_t device, struct dt_copies *copies,
                        struct dt_memory_event *events)
{
    size_t count = collect_events(schedule, device, copies, events);

    qsort(events, count, sizeof(*events), compare_events);
    return count;
}

static void peaks_in_time(const struct dt_memory_event *events, size_t count, int32_t device,
                          struct dt_memory *memory, const struct dt_peaks *peaks)
{
    for (size_t i = 0; i < count; i++) {
        memory->bytes[device] += events[i].bytes;
        memory->inflight[events[i].stage] += events[i].inflight;
        raise_peaks(peaks, memory, device, events[i].stage);
    }
}

static bool device_offloads(const struct detour_schedule *s, int32_t device)
{
    for (size_t i = s->first[device]; i < s->first[device + 1]; i++)
        if (s->ops[i].flags & DETOUR_OP_OFFLOADED)
            return true;
    return false;
}

static enum detour_status device_peaks(struct dt_call *call, const struct detour_schedule *s, int32_t device,
                                       struct dt_memory *memory, const struct dt_peaks *peaks)
{
    const struct dt_problem *p = memory->problem;
    struct dt_arena_mark mark = dt_arena_save(call->arena);
    struct dt_copies copies;
    struct dt_memory_event *events;

    if (!device_offloads(s, device)) {
        peaks_in_order(s, device, memory, peaks);
        return DETOUR_OK;
    }
    if (!dt_arena_new(call->arena, events, 3 * (s->first[device + 1] - s->first[device])) ||
        !dt_copies_init(call->arena, p, &copies))
        return dt_fail_memory(call->error);
    size_t count = dt_memory_events(s, device, &copies, events);
    peaks_in_time(events, count, device, memory, peaks);
    dt_arena_rewind(call->arena, mark);
    return DETOUR_OK;
}

enum detour_status dt_memory_peaks(struct dt_call *call, const struct dt_problem *p,
                                   const struct detour_schedule *schedule, struct dt_peaks *peaks)
{
    struct dt_memory memory;
    enum detour_status status;

    if (!dt_arena_new(call->arena, peaks->bytes, p->device_count) ||
        !dt_arena_new(call->arena, peaks->inflight, p->stage_count))
        return dt_fail_memory(call->error);
    struct dt_arena_mark mark = dt_arena_save(call->arena);
    status = dt_memory_init(call, p, &memory);
    for (int32_t d = 0; !status && d < p->device_count; d++)
        status = device_peaks(call, schedule, d, &memory, peaks);
    dt_arena_rewind(call->arena, mark);
    return status;
}

static enum detour_status compare_with_limits(struct dt_call *call, const struct dt_problem *p,
                                              const struct dt_peaks *peaks)
{
    for (int32_t d = 0; d < p->device_count; d++)
        if (peaks->bytes[d] > p->capacity[d])
            return dt_fail(call, DETOUR_OVER_MEMORY,
                           "device %" PRId32 ": the schedule needs %" PRId64
                           " bytes; its capacity is %" PRId64,
                           d, peaks->bytes[d], p->capacity[d]);
    for (int32_t i = 0; i < p->stage_count; i++)
        if (peaks->inflight[i] > p->max_inflight[i])
            return dt_fail(call, DETOUR_OVER_MEMORY,
                           "stage %" PRId32 ": the schedule keeps %" PRId32
                           " microbatches in flight; max_inflight is %" PRId32,
                           i, peaks->inflight[i], p->max_inflight[i]);
    return DETOUR_OK;
}

enum detour_status dt_memory_check(struct dt_call *call, const struct dt_problem *p,
                                   const struct detour_schedule *schedule)
{
    struct dt_arena_mark mark = dt_arena_save(call->arena);
    struct dt_peaks peaks;

    if (!p->limited)
        return DETOUR_OK;
    enum detour_status status = dt_memory_peaks(call, p, schedule, &peaks);
    if (!status)
        status = compare_with_limits(call, p, &peaks);
    dt_arena_rewind(call->arena, mark);
    return status;
}
