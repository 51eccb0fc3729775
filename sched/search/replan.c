/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detour_replan(): a new order for the rest of an iteration. Candidates are the present order continued,
 * the dispatcher (dispatch.h) with the warm-ups that the new delays need, and the result of a search from
 * the better of these (search.h), all from the iteration's present state.
 */
#include "base/util.h"
#include "sched/dispatch.h"
#include "sched/generator.h"
#include "sched/search/algorithms.h"
#include "sched/warmup.h"

struct replan {
    const struct dt_problem *p;
    const struct detour_schedule *present;
    struct dt_prefix prefix;
    struct detour_schedule *best; /* room for every operation; holds the best so far */
    struct dt_times times;
    enum detour_algorithm made_by;
    int64_t lower_bound_ns;
};

static void keep(struct replan *r, const struct detour_schedule *s, const struct dt_times *times,
                 enum detour_algorithm made_by)
{
    for (size_t i = 0; i < s->op_count; i++)
        r->best->ops[i] = s->ops[i];
    for (int32_t d = 0; d <= s->device_count; d++)
        r->best->first[d] = s->first[d];
    r->best->op_count = s->op_count;
    r->best->timed = true;
    r->times = *times;
    r->made_by = made_by;
}

/* The present order, which runs whatever its memory needs are; every candidate has to beat it. */
static enum detour_status carry_on(struct dt_call *call, struct replan *r)
{
    struct detour_schedule *copy;
    struct dt_times times;
    enum detour_status status = dt_schedule_copy(call, r->present, &copy);

    if (!status)
        status = dt_simulate(call, r->p, copy, &r->prefix, NULL, &times);
    if (!status)
        keep(r, copy, &times, call->options->algorithm);
    return status;
}

/* A candidate that exceeds the memory limits is dropped. */
static enum detour_status offer(struct dt_call *call, struct replan *r, struct detour_schedule *candidate,
                                enum detour_algorithm made_by)
{
    struct dt_times times;
    enum detour_status status = dt_simulate(call, r->p, candidate, &r->prefix, NULL, &times);

    if (!status)
        status = dt_memory_check(call, r->p, candidate);
    if (status == DETOUR_NO_MEMORY)
        return status;
    if (!status && dt_times_compare(&times, &r->times) < 0)
        keep(r, candidate, &times, made_by);
    return DETOUR_OK;
}

static enum detour_status dispatch(struct dt_call *call, struct replan *r, const int32_t *warmup, bool hold)
{
    struct dt_dispatch_rule rule = {.warmup = warmup, .hold = hold};
    struct detour_schedule *candidate;
    struct dt_timeline tl;
    enum detour_status status = dt_timeline_resume(call, r->p, r->present, &r->prefix, &tl);

    if (!status)
        status = dt_dispatch(call, &tl, &rule);
    if (!status)
        status = dt_timeline_finish(call, &tl, &candidate);
    if (status == DETOUR_MEMORY_TOO_SMALL) /* got stuck */
        return DETOUR_OK;
    return status ? status : offer(call, r, candidate, DETOUR_ALGORITHM_ADAPTRA);
}

static enum detour_status dispatch_all(struct dt_call *call, struct replan *r)
{
    enum detour_status status = DETOUR_OK;
    int32_t *limits, *warmup;

    if (!dt_arena_new(call->arena, limits, r->p->stage_count) ||
        !dt_arena_new(call->arena, warmup, r->p->stage_count))
        return dt_fail_memory(call->error);
    dt_warmup_limits(r->p, limits);
    for (int variant = 0; !status && variant < 4; variant++) {
        struct dt_arena_mark mark = dt_arena_save(call->arena);
        dt_warmup_for_delays(r->p, limits, DT_WARMUP_OWN, variant & 1, warmup);
        status = dispatch(call, r, warmup, variant & 2);
        dt_arena_rewind(call->arena, mark);
    }
    return status;
}

/*
 * Searches for a better schedule than the best so far, which is the starting point only if it keeps the
 * memory limits; the present order need not.
 */
static enum detour_status search_on(struct dt_call *call, struct replan *r)
{
    struct detour_error *error = call->error;
    struct detour_schedule *candidate;
    struct dt_search search;
    struct dt_timeline tl;
    enum detour_status status = dt_timeline_resume(call, r->p, r->present, &r->prefix, &tl);

    if (!status)
        status = dt_search_begin(call, &tl, &search);
    if (status || !search.shop->op_count)
        return status;
    call->error = NULL; /* the best so far may exceed the limits: no error here */
    bool fits = !dt_memory_check(call, r->p, r->best);
    call->error = error;
    search.best_ns = r->times.makespan_ns;
    if (fits)
        status = dt_search_offer_schedule(&search, r->best, r->prefix.started, r->times.makespan_ns);
    if (!status)
        status = dt_search_run(&search);
    r->lower_bound_ns = search.lower_ns;
    if (status || search.best_ns == r->times.makespan_ns)
        return status;
    status = dt_search_finish(&search, &candidate);
    return status ? status : offer(call, r, candidate, DETOUR_ALGORITHM_BEAM);
}

static enum detour_status replan(struct dt_call *call, struct replan *r, struct detour_plan *plan)
{
    enum detour_status status = carry_on(call, r);

    if (!status)
        status = dispatch_all(call, r);
    r->lower_bound_ns = r->times.makespan_ns;
    if (!status)
        status = search_on(call, r);
    if (status)
        return status;
    *plan = (struct detour_plan){
        .schedule = r->best,
        .algorithm = r->made_by,
        .makespan_ns = r->times.makespan_ns,
        .longest_span_ns = r->times.longest_span_ns,
        .lower_bound_ns = r->lower_bound_ns,
        .nodes = call->node_count,
    };
    /*
     * The present order may exceed the memory limits, so its makespan may be below the bound for schedules
     * within them.
     */
    if (plan->lower_bound_ns > plan->makespan_ns)
        plan->lower_bound_ns = plan->makespan_ns;
    plan->proven_optimal = plan->makespan_ns == plan->lower_bound_ns;
    return DETOUR_OK;
}

enum detour_status detour_replan(struct detour_arena *arena, const struct detour_profile *measured,
                                 const struct detour_schedule *present, const size_t *started, int64_t now_ns,
                                 const struct detour_options *options, struct detour_plan **plan,
                                 struct detour_error *error)
{
    struct replan r = {.present = present, .prefix = {started, now_ns}};
    struct detour_plan *made;
    struct dt_problem *p;
    struct dt_call call;

    dt_call_init(&call, arena, error, options);
    enum detour_status status = dt_problem_create(&call, measured, &p);
    if (status)
        return status;
    if (!plan)
        return dt_fail(&call, DETOUR_INVALID, "plan is NULL");
    r.p = p;
    status = dt_prefix_check(&call, p, present, &r.prefix);
    if (!status && !dt_arena_new(arena, made, 1))
        status = dt_fail_memory(error);
    if (!status)
        status = detour_schedule_create(arena, measured, dt_op_index_count(p), &r.best, error);
    if (!status)
        status = replan(&call, &r, made);
    if (!status)
        *plan = made;
    return status;
}
