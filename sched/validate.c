/* SPDX-License-Identifier: Apache-2.0 */
/* detour_validate(): all conditions for executing a schedule. */
#include <inttypes.h>

#include "sched/memory.h"
#include "sched/offload.h"
#include "sched/program.h"
#include "sched/schedule.h"
#include "sched/simulate.h"

struct time_check {
    const struct dt_problem *p;
    const struct detour_schedule *s;
    const int64_t *input_ns;
    struct dt_copies copies;
};

static enum detour_status check_op_times(struct dt_call *call, struct time_check *check, int32_t device,
                                         size_t index)
{
    const struct dt_problem *p = check->p;
    const struct detour_op *op = &check->s->ops[index];
    int64_t duration_ns = p->duration_ns[op->kind][op->stage];
    int64_t from_ns =
        check->input_ns[dt_op_index(p, (enum detour_op_kind)op->kind, op->stage, op->microbatch)];
    const char *why = "its input is there";
    char text[DT_OP_TEXT_BYTES];

    if (index > check->s->first[device] && op[-1].finish_ns > from_ns) {
        from_ns = op[-1].finish_ns;
        why = "the operation before it has finished";
    }
    if (dt_is_backward(op->kind)) {
        int64_t back_ns = dt_copies_in(&check->copies, op, NULL);
        if (back_ns > from_ns) {
            from_ns = back_ns;
            why = "its activation is back from the host";
        }
    }
    if (op->flags & DETOUR_OP_OFFLOADED)
        dt_copies_out(&check->copies, op);
    if (op->start_ns < from_ns)
        return dt_fail(
            call, DETOUR_TIMES,
            "device %" PRId32 ", position %zu: %s starts at %" PRId64 " ns; %s at %" PRId64 " ns only",
            device, index - check->s->first[device], dt_op_text(text, op), op->start_ns, why, from_ns);
    if (op->finish_ns - op->start_ns != duration_ns)
        return dt_fail(call, DETOUR_TIMES,
                       "device %" PRId32 ", position %zu: %s takes %" PRId64
                       " ns; in the profile it is %" PRId64 " ns",
                       device, index - check->s->first[device], dt_op_text(text, op),
                       op->finish_ns - op->start_ns, duration_ns);
    return DETOUR_OK;
}

/* So that no sum with them overflows. */
static enum detour_status check_time_range(struct dt_call *call, const struct detour_schedule *s)
{
    char text[DT_OP_TEXT_BYTES];

    for (size_t i = 0; i < s->op_count; i++) {
        const struct detour_op *op = &s->ops[i];
        if (op->start_ns < 0 || op->finish_ns < op->start_ns || op->finish_ns > DT_TIMELINE_MAX_NS)
            return dt_fail(call, DETOUR_TIMES,
                           "%s runs from %" PRId64 " ns to %" PRId64 " ns; times lie between 0 and %" PRId64
                           " ns and finish after they start",
                           dt_op_text(text, op), op->start_ns, op->finish_ns, DT_TIMELINE_MAX_NS);
    }
    return DETOUR_OK;
}

/* The schedule's own times; `copy` is scratch with the same operations. */
static enum detour_status check_times(struct dt_call *call, const struct dt_problem *p,
                                      const struct detour_schedule *s, struct detour_schedule *copy)
{
    struct time_check check = {.p = p, .s = s};
    struct dt_prefix prefix = {0};
    struct dt_times times;
    size_t *all;
    int64_t *input_ns;
    enum detour_status status = check_time_range(call, s);

    if (status)
        return status;
    if (!dt_arena_new(call->arena, all, p->device_count) ||
        !dt_arena_new(call->arena, input_ns, dt_op_index_count(p)) ||
        !dt_copies_init(call->arena, p, &check.copies))
        return dt_fail_memory(call->error);
    for (int32_t d = 0; d < p->device_count; d++)
        all[d] = s->first[d + 1] - s->first[d];
    prefix.started = all;
    /* With every operation fixed this only computes when messages arrive. */
    status = dt_simulate(call, p, copy, &prefix, input_ns, &times);
    check.input_ns = input_ns;
    for (int32_t d = 0; !status && d < p->device_count; d++)
        for (size_t i = s->first[d]; !status && i < s->first[d + 1]; i++)
            status = check_op_times(call, &check, d, i);
    return status;
}

static enum detour_status validate(struct dt_call *call, const struct dt_problem *p,
                                   const struct detour_schedule *s)
{
    struct detour_schedule *copy;
    struct detour_program *program;
    struct dt_times times;
    enum detour_status status = dt_schedule_check_ops(call, p, s);

    if (!status)
        status = dt_schedule_copy(call, s, &copy);
    if (!status && s->timed)
        status = check_times(call, p, s, copy);
    if (!status && !s->timed)
        status = dt_simulate(call, p, copy, NULL, NULL, &times);
    if (!status)
        status = dt_memory_check(call, p, copy);
    if (!status)
        status = dt_schedule_check_last_stage(call, p, s);
    if (!status)
        status = dt_program_create(call, p, copy, &program);
    if (!status)
        status = dt_program_check(call, p, program);
    return status;
}

enum detour_status detour_validate(struct detour_arena *arena, const struct detour_profile *profile,
                                   const struct detour_schedule *schedule, struct detour_error *error)
{
    struct dt_problem *p;
    struct dt_call call;

    dt_call_init(&call, arena, error, NULL);
    if (!arena)
        return dt_fail(&call, DETOUR_INVALID, "arena is NULL");
    struct dt_arena_mark mark = dt_arena_save(arena);
    enum detour_status status = dt_problem_create(&call, profile, &p);
    if (!status)
        status = validate(&call, p, schedule);
    dt_arena_rewind(arena, mark);
    return status;
}
