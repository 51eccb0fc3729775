/* SPDX-License-Identifier: Apache-2.0 */
/* detour_simulate_from(): continues an iteration in progress in its present order. */
#include <inttypes.h>

#include "sched/schedule.h"
#include "sched/simulate.h"
#include "sched/timeline.h"

static enum detour_status check_device(struct dt_call *call, const struct detour_schedule *s,
                                       const struct dt_prefix *prefix, int32_t device)
{
    size_t count = s->first[device + 1] - s->first[device];
    char text[DT_OP_TEXT_BYTES];

    if (prefix->started[device] > count)
        return dt_fail(call, DETOUR_INVALID, "started[%" PRId32 "] is %zu; the device has %zu operations",
                       device, prefix->started[device], count);
    for (size_t k = 0; k < prefix->started[device]; k++) {
        const struct detour_op *op = &s->ops[s->first[device] + k];
        int64_t from_ns = k ? op[-1].finish_ns : 0;
        if (op->start_ns < from_ns || op->start_ns > prefix->now_ns || op->finish_ns < op->start_ns ||
            op->finish_ns > DT_TIMELINE_MAX_NS)
            return dt_fail(
                call, DETOUR_TIMES,
                "device %" PRId32 ", position %zu: %s has started, so it must start between "
                "%" PRId64 " ns and now (%" PRId64 " ns), not run from %" PRId64 " to %" PRId64 " ns",
                device, k, dt_op_text(text, op), from_ns, prefix->now_ns, op->start_ns, op->finish_ns);
    }
    return DETOUR_OK;
}

enum detour_status dt_prefix_check(struct dt_call *call, const struct dt_problem *p,
                                   const struct detour_schedule *s, const struct dt_prefix *prefix)
{
    enum detour_status status = dt_schedule_check_ops(call, p, s);

    if (status)
        return status;
    if (!prefix->started)
        return dt_fail(call, DETOUR_INVALID, "started is NULL");
    if (prefix->now_ns < 0 || prefix->now_ns > DT_TIMELINE_MAX_NS)
        return dt_fail(call, DETOUR_INVALID, "now_ns is %" PRId64 "; it must be 0 to %" PRId64,
                       prefix->now_ns, DT_TIMELINE_MAX_NS);
    for (int32_t d = 0; !status && d < p->device_count; d++)
        status = check_device(call, s, prefix, d);
    return status;
}

enum detour_status detour_simulate_from(struct detour_arena *arena, const struct detour_profile *profile,
                                        struct detour_schedule *schedule, const size_t *started,
                                        int64_t now_ns, int64_t *makespan_ns, struct detour_error *error)
{
    struct dt_prefix prefix = {started, now_ns};
    struct dt_timeline timeline;
    struct dt_problem *p;
    struct dt_times times;
    struct dt_call call;

    dt_call_init(&call, arena, error, NULL);
    enum detour_status status = dt_problem_create(&call, profile, &p);
    if (!status)
        status = dt_prefix_check(&call, p, schedule, &prefix);
    if (!status) /* checks that the inputs of started operations existed */
        status = dt_timeline_resume(&call, p, schedule, &prefix, &timeline);
    if (!status)
        status = dt_simulate(&call, p, schedule, &prefix, NULL, &times);
    if (!status && makespan_ns)
        *makespan_ns = times.makespan_ns;
    return status;
}
