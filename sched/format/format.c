/* SPDX-License-Identifier: Apache-2.0 */
/* The table of formats behind detour_plan_write(). */
#include "sched/format/format.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "sched/schedule.h"

static const struct {
    const char *name;
    dt_write_func *write;
    bool untimed; /* works without times */
} formats[] = {
    [DETOUR_FORMAT_JSON] = {"json", dt_write_json, false},
    [DETOUR_FORMAT_CSV] = {"csv", dt_write_csv, true},
    [DETOUR_FORMAT_CSV_COMMS] = {"csv-comms", dt_write_csv_comms, true},
    [DETOUR_FORMAT_TRACE] = {"trace", dt_write_trace, false},
    [DETOUR_FORMAT_SVG] = {"svg", dt_write_svg, false},
    [DETOUR_FORMAT_TEXT] = {"text", dt_write_gantt, false},
};

const char *detour_format_name(enum detour_format format)
{
    return (unsigned)format < DT_COUNT_OF(formats) ? formats[format].name : NULL;
}

bool detour_format_find(const char *name, enum detour_format *format)
{
    for (size_t i = 0; i < DT_COUNT_OF(formats); i++) {
        if (!strcmp(formats[i].name, name)) {
            *format = (enum detour_format)i;
            return true;
        }
    }
    return false;
}

void dt_text_add_summary(struct dt_text *text, const struct detour_plan *plan)
{
    dt_text_printf(text, "%s: makespan ", dt_algorithm_label(plan->algorithm));
    dt_text_add_ms(text, plan->makespan_ns);
    dt_text_add(text, " ms");
    if (plan->proven_optimal) {
        dt_text_add(text, ", proven optimal");
    } else if (plan->lower_bound_ns > 0) {
        dt_text_add(text, ", lower bound ");
        dt_text_add_ms(text, plan->lower_bound_ns);
        dt_text_add(text, " ms");
    }
}

static bool is_good_time(int64_t time_ns)
{
    return time_ns >= 0 && time_ns <= DETOUR_SCHEDULE_TIME_MAX_NS;
}

/* Times that the writers can hold, in an order in which nothing ends before it starts. */
static enum detour_status check_ops(struct dt_call *call, const struct detour_schedule *s)
{
    for (size_t i = 0; i < s->op_count; i++)
        if (!is_good_time(s->ops[i].start_ns) || s->ops[i].finish_ns < s->ops[i].start_ns ||
            !is_good_time(s->ops[i].finish_ns))
            return dt_fail(call, DETOUR_LIMIT,
                           "the schedule has a time beyond 11 days, which no format holds");
    return DETOUR_OK;
}

static enum detour_status check_times(struct dt_call *call, const struct detour_plan *plan)
{
    const int64_t times_ns[] = {plan->makespan_ns, plan->longest_span_ns, plan->lower_bound_ns};

    for (size_t i = 0; i < DT_COUNT_OF(times_ns); i++)
        if (!is_good_time(times_ns[i]))
            return dt_fail(call, DETOUR_LIMIT, "the plan has a time beyond 11 days, which no format holds");
    return check_ops(call, plan->schedule);
}

/* A message between neighboring stages on two devices. */
static bool is_good_message(const struct dt_problem *p, const struct detour_message *m)
{
    return m->from_stage >= 0 && m->from_stage < p->stage_count && m->to_stage >= 0 &&
           m->to_stage < p->stage_count && abs(m->to_stage - m->from_stage) == 1 &&
           p->device[m->from_stage] != p->device[m->to_stage] && m->microbatch >= 0 &&
           m->microbatch < p->microbatch_count && is_good_time(m->ready_ns) && is_good_time(m->arrive_ns) &&
           m->depart_ns >= m->ready_ns && m->arrive_ns >= m->depart_ns;
}

static enum detour_status check_measured(struct dt_call *call, const struct dt_problem *p,
                                         const struct detour_measured *measured)
{
    enum detour_status status = dt_schedule_check_ops(call, p, measured->schedule);

    if (!status && !measured->schedule->timed)
        status = dt_fail(call, DETOUR_INVALID, "the measured schedule has no times");
    if (!status)
        status = check_ops(call, measured->schedule);
    for (size_t i = 0; !status && i < measured->message_count; i++)
        if (!is_good_message(p, &measured->messages[i]))
            status = dt_fail(call, DETOUR_INVALID,
                             "measured message %zu is not one between two devices, or its times go back", i);
    return status;
}

static enum detour_status check_plan(struct dt_call *call, const struct dt_problem *p,
                                     const struct detour_plan *plan, enum detour_format format)
{
    if ((unsigned)format >= DT_COUNT_OF(formats))
        return dt_fail(call, DETOUR_INVALID, "format is %d; there are 0 to %zu", (int)format,
                       DT_COUNT_OF(formats) - 1);
    enum detour_status status = dt_schedule_check_ops(call, p, plan->schedule);
    if (status || formats[format].untimed)
        return status;
    if (!plan->schedule->timed)
        return dt_fail(call, DETOUR_INVALID, "the schedule has no times; detour_simulate() sets them");
    if (!dt_algorithm_label(plan->algorithm))
        return dt_fail(call, DETOUR_INVALID,
                       "the plan's algorithm is %d; it must be an enum detour_algorithm",
                       (int)plan->algorithm);
    return check_times(call, plan);
}

enum detour_status detour_plan_write(struct detour_arena *arena, const struct detour_profile *profile,
                                     const struct detour_plan *plan, enum detour_format format,
                                     const struct detour_format_options *options, struct detour_text *text,
                                     struct detour_error *error)
{
    static const struct detour_format_options defaults;
    struct dt_text made;
    struct dt_call call;
    struct dt_problem *p;

    dt_call_init(&call, arena, error, NULL);
    enum detour_status status = dt_problem_create(&call, profile, &p);
    if (!status && !plan)
        status = dt_fail(&call, DETOUR_INVALID, "plan is NULL");
    if (!status)
        status = check_plan(&call, p, plan, format);
    if (!status && options && options->measured)
        status = check_measured(&call, p, options->measured);
    if (status)
        return status;
    struct dt_write w = {.call = &call,
                         .p = p,
                         .plan = plan,
                         .schedule = plan->schedule,
                         .options = options ? options : &defaults};
    dt_text_init(&made);
    status = formats[format].write(&w, &made);
    if (!status)
        return dt_text_finish(arena, &made, text, error);
    dt_text_destroy(&made);
    return status;
}
