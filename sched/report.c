/* SPDX-License-Identifier: Apache-2.0 */
/* detour_simulate(): the times of a schedule and its report. */
#include "sched/memory.h"
#include "sched/schedule.h"
#include "sched/simulate.h"
#include "sched/slack.h"

static enum detour_status report_create(struct dt_call *call, const struct dt_problem *p,
                                        struct detour_report **report)
{
    if (!dt_arena_new(call->arena, *report, 1) ||
        !dt_arena_new(call->arena, (*report)->devices, p->device_count) ||
        !dt_arena_new(call->arena, (*report)->stages, p->stage_count) ||
        !dt_arena_new(call->arena, (*report)->links, p->stage_count))
        return dt_fail_memory(call->error);
    return DETOUR_OK;
}

/* Fills in all but peak_bytes; returns the busy time of the busiest device. */
static int64_t report_devices(const struct detour_schedule *s, struct detour_report *report)
{
    int64_t busiest_ns = 0;

    for (int32_t d = 0; d < s->device_count; d++) {
        struct detour_device_report *device = &report->devices[d];
        device->first_start_ns = s->ops[s->first[d]].start_ns;
        device->last_finish_ns = s->ops[s->first[d + 1] - 1].finish_ns;
        for (size_t i = s->first[d]; i < s->first[d + 1]; i++)
            device->busy_ns += s->ops[i].finish_ns - s->ops[i].start_ns;
        device->idle_ns = device->last_finish_ns - device->first_start_ns - device->busy_ns;
        busiest_ns = device->busy_ns > busiest_ns ? device->busy_ns : busiest_ns;
    }
    return busiest_ns;
}

static void report_warmup(const struct detour_schedule *s, struct detour_report *report, bool *seen_b)
{
    for (size_t i = 0; i < s->op_count; i++) {
        const struct detour_op *op = &s->ops[i];
        if (dt_is_backward(op->kind))
            seen_b[op->stage] = true;
        else if (op->kind == DETOUR_OP_F && !seen_b[op->stage])
            report->stages[op->stage].warmup++;
    }
}

/* Idle shares of a schedule without any work are 0. */
static void report_ratios(const struct detour_schedule *s, int64_t busiest_ns, struct detour_report *report)
{
    double busy_ns = 0, whole_ns = (double)s->device_count * (double)report->makespan_ns;

    for (int32_t d = 0; d < s->device_count; d++)
        busy_ns += (double)report->devices[d].busy_ns;
    if (report->makespan_ns > 0)
        report->bubble_ratio_makespan = 1 - busy_ns / whole_ns;
    if (report->longest_span_ns > 0)
        report->bubble_ratio_span = 1 - (double)busiest_ns / (double)report->longest_span_ns;
}

static enum detour_status report_fill(struct dt_call *call, const struct dt_problem *p,
                                      const struct detour_schedule *s, const int64_t *input_ns,
                                      const struct dt_times *times, struct detour_report *report)
{
    struct dt_peaks peaks;
    bool *seen_b;

    report->makespan_ns = times->makespan_ns;
    report->longest_span_ns = times->longest_span_ns;
    report->longest_span_device = times->longest_span_device;
    report_ratios(s, report_devices(s, report), report);
    if (!dt_arena_new(call->arena, seen_b, p->stage_count))
        return dt_fail_memory(call->error);
    report_warmup(s, report, seen_b);

    enum detour_status status = dt_memory_peaks(call, p, s, &peaks);
    if (status)
        return status;
    for (int32_t d = 0; d < p->device_count; d++)
        report->devices[d].peak_bytes = peaks.bytes[d];
    for (int32_t i = 0; i < p->stage_count; i++)
        report->stages[i].peak_inflight = peaks.inflight[i];
    return dt_slack(call, p, s, input_ns, report->links);
}

enum detour_status detour_simulate(struct detour_arena *arena, const struct detour_profile *profile,
                                   struct detour_schedule *schedule, struct detour_report **report,
                                   struct detour_error *error)
{
    struct detour_report *made = NULL;
    struct dt_problem *p;
    struct dt_times times;
    struct dt_call call;
    int64_t *input_ns = NULL;

    dt_call_init(&call, arena, error, NULL);
    enum detour_status status = dt_problem_create(&call, profile, &p);
    if (!status)
        status = dt_schedule_check_ops(&call, p, schedule);
    if (!status && report)
        status = report_create(&call, p, &made);
    if (!status && report && !dt_arena_new(arena, input_ns, dt_op_index_count(p)))
        status = dt_fail_memory(error);
    if (!status)
        status = dt_simulate(&call, p, schedule, NULL, input_ns, &times);
    if (!status && report)
        status = report_fill(&call, p, schedule, input_ns, &times, made);
    if (!status && report)
        *report = made;
    return status;
}
