/* SPDX-License-Identifier: Apache-2.0 */
/* detour_adapt(): whether measured delays are worth a new schedule. */
#include <inttypes.h>

#include "sched/generator.h"
#include "sched/offload.h"
#include "sched/relief.h"
#include "sched/schedule.h"
#include "sched/simulate.h"

enum { CHANGE_PERMILLE = 50, GAIN_PERMILLE = 10, HORIZON_ITERATIONS = 100 };

static enum detour_status check_pair(struct dt_call *call, const struct dt_problem *a,
                                     const struct dt_problem *b)
{
    if (a->stage_count != b->stage_count || a->microbatch_count != b->microbatch_count ||
        a->device_count != b->device_count)
        return dt_fail(call, DETOUR_INVALID,
                       "planned profile has %" PRId32 " stages, %" PRId32 " microbatches, %" PRId32
                       " devices, the measured one %" PRId32 ", %" PRId32 ", %" PRId32 "; they must agree",
                       a->stage_count, a->microbatch_count, a->device_count, b->stage_count,
                       b->microbatch_count, b->device_count);
    for (int32_t i = 0; i < a->stage_count; i++)
        if (a->device[i] != b->device[i])
            return dt_fail(call, DETOUR_INVALID,
                           "stage %" PRId32 " is on device %" PRId32 " in the planned profile and on %" PRId32
                           " in the measured one; they must agree",
                           i, a->device[i], b->device[i]);
    return DETOUR_OK;
}

static enum detour_status check_options(struct dt_call *call, const struct detour_adapt_options *options)
{
    if (options->change_ns_min < 0 || options->change_permille_min < 0 || options->confirm_count < 0 ||
        options->switch_cost_ns < 0 || options->horizon_iterations < 0)
        return dt_fail(call, DETOUR_INVALID, "an option of adapt is negative; only gain_permille_min may be");
    return DETOUR_OK;
}

static int64_t or_default(int64_t value, int64_t otherwise)
{
    return value ? value : otherwise;
}

/* Whether a time differs by more than the options tolerate; the tolerance is relative to `work_ns`. */
static bool differs(const struct detour_adapt_options *options, int64_t planned_ns, int64_t measured_ns,
                    int64_t work_ns)
{
    int64_t difference_ns = planned_ns < measured_ns ? measured_ns - planned_ns : planned_ns - measured_ns;

    return difference_ns > options->change_ns_min &&
           difference_ns > work_ns / 1000 * or_default(options->change_permille_min, CHANGE_PERMILLE);
}

static int64_t longest_op_ns(const struct dt_problem *p, int32_t stage)
{
    int64_t f_ns = p->duration_ns[DETOUR_OP_F][stage], b_ns = p->duration_ns[DETOUR_OP_B][stage];

    return f_ns > b_ns ? f_ns : b_ns;
}

static bool stage_changed(const struct detour_adapt_options *options, const struct dt_problem *a,
                          const struct dt_problem *b, int32_t stage)
{
    for (int kind = 0; kind < DT_KIND_COUNT; kind++)
        if (differs(options, a->duration_ns[kind][stage], b->duration_ns[kind][stage],
                    longest_op_ns(a, stage)))
            return true;
    return false;
}

static bool link_changed(const struct detour_adapt_options *options, const struct dt_problem *a,
                         const struct dt_problem *b, int32_t link)
{
    int64_t here_ns = longest_op_ns(a, link), there_ns = longest_op_ns(a, link + 1);
    int64_t work_ns = here_ns > there_ns ? here_ns : there_ns;

    return differs(options, a->forward_ns[link], b->forward_ns[link], work_ns) ||
           differs(options, a->backward_ns[link], b->backward_ns[link], work_ns) ||
           differs(options, a->forward_serial_ns[link], b->forward_serial_ns[link], work_ns) ||
           differs(options, a->backward_serial_ns[link], b->backward_serial_ns[link], work_ns);
}

static bool changed(const struct detour_adapt_options *options, const struct dt_problem *a,
                    const struct dt_problem *b)
{
    for (int32_t i = 0; i < a->stage_count; i++)
        if (stage_changed(options, a, b, i) || (i + 1 < a->stage_count && link_changed(options, a, b, i)))
            return true;
    return false;
}

/* Whether the gain per iteration is large enough, and pays for the switch within the horizon. */
static bool pays(const struct detour_adapt_options *options, int64_t present_ns, int64_t candidate_ns)
{
    __int128 gain_ns = present_ns - candidate_ns;

    return gain_ns > 0 &&
           gain_ns * 1000 >= (__int128)present_ns * or_default(options->gain_permille_min, GAIN_PERMILLE) &&
           gain_ns * or_default(options->horizon_iterations, HORIZON_ITERATIONS) > options->switch_cost_ns;
}

static enum detour_status makespan_of(struct dt_call *call, const struct dt_problem *p,
                                      const struct detour_schedule *schedule, int64_t *makespan_ns)
{
    struct dt_arena_mark mark = dt_arena_save(call->arena);
    struct detour_schedule *copy;
    struct dt_times times;
    enum detour_status status = dt_schedule_copy(call, schedule, &copy);

    if (!status)
        status = dt_simulate(call, p, copy, NULL, NULL, &times);
    dt_arena_rewind(call->arena, mark);
    *makespan_ns = times.makespan_ns;
    return status;
}

/* The best schedule for the measured times. Finding none is no error: best->schedule is NULL then. */
static enum detour_status seek(struct dt_call *call, const struct dt_problem *p, bool offload,
                               struct dt_result *best)
{
    struct dt_result relieved = {0};
    enum detour_status status = dt_generate_with(call, p, call->options->algorithm, best);

    if (status == DETOUR_UNSUPPORTED || status == DETOUR_MEMORY_TOO_SMALL) {
        *best = (struct dt_result){0};
        status = DETOUR_OK;
    }
    if (status || !offload || !p->limited)
        return status;
    status = dt_generate_relieved(call, p, &relieved);
    if (status)
        return status == DETOUR_MEMORY_TOO_SMALL ? DETOUR_OK : status;
    if (!best->schedule || relieved.makespan_ns < best->makespan_ns)
        *best = relieved;
    return DETOUR_OK;
}

static enum detour_status make_plan(struct dt_call *call, const struct dt_result *best,
                                    struct detour_adaptation *made)
{
    if (!dt_arena_new(call->arena, made->plan, 1))
        return dt_fail_memory(call->error);
    *made->plan = dt_result_plan(call, best);
    for (size_t i = 0; i < best->schedule->op_count; i++)
        made->offloaded += (best->schedule->ops[i].flags & DETOUR_OP_OFFLOADED) != 0;
    /* The bounds do not account for the host's memory. */
    if (made->offloaded) {
        made->plan->lower_bound_ns = 0;
        made->plan->proven_optimal = false;
    }
    return DETOUR_OK;
}

static enum detour_status adapt(struct dt_call *call, const struct dt_problem *planned,
                                const struct dt_problem *measured, const struct detour_schedule *present,
                                const struct detour_adapt_options *options, struct detour_adapt_state *state,
                                struct detour_adaptation *made)
{
    struct dt_result best = {0};
    enum detour_status status = makespan_of(call, planned, present, &made->planned_makespan_ns);

    if (!status)
        status = makespan_of(call, measured, present, &made->present_makespan_ns);
    if (status)
        return status;
    if (!changed(options, planned, measured)) {
        state->changed_count = 0;
        return DETOUR_OK; /* made->verdict is KEEP_UNCHANGED */
    }
    if (state->changed_count < INT32_MAX)
        state->changed_count++;
    made->verdict = DETOUR_ADAPT_KEEP_UNCONFIRMED;
    if (state->changed_count < or_default(options->confirm_count, 1))
        return DETOUR_OK;
    made->verdict = DETOUR_ADAPT_KEEP_NO_GAIN;
    status = seek(call, measured, options->allow_offload, &best);
    if (status || !best.schedule)
        return status;
    made->candidate_makespan_ns = best.makespan_ns;
    if (!pays(options, made->present_makespan_ns, best.makespan_ns))
        return DETOUR_OK;
    status = make_plan(call, &best, made);
    if (!status) {
        made->verdict = DETOUR_ADAPT_CHANGE;
        state->changed_count = 0;
    }
    return status;
}

enum detour_status detour_adapt(struct detour_arena *arena, const struct detour_profile *planned,
                                const struct detour_profile *measured, const struct detour_schedule *present,
                                const struct detour_adapt_options *options, struct detour_adapt_state *state,
                                struct detour_adaptation **adaptation, struct detour_error *error)
{
    static const struct detour_adapt_options defaults;
    struct dt_problem *before, *now;
    struct detour_adaptation *made;
    struct dt_call call;

    options = options ? options : &defaults;
    dt_call_init(&call, arena, error, &options->generate);
    if (!state || !adaptation)
        return dt_fail(&call, DETOUR_INVALID, "%s is NULL", state ? "adaptation" : "state");
    enum detour_status status = check_options(&call, options);
    if (!status)
        status = dt_problem_create(&call, planned, &before);
    if (!status)
        status = dt_problem_create(&call, measured, &now);
    if (!status)
        status = check_pair(&call, before, now);
    if (!status)
        status = dt_schedule_check_ops(&call, now, present);
    if (status)
        return status;
    if (!dt_arena_new(arena, made, 1))
        return dt_fail_memory(error);
    status = adapt(&call, before, now, present, options, state, made);
    if (!status)
        *adaptation = made;
    return status;
}
