/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithms that search: `beam`, `exact`, and `auto`, which first tries everything else and then looks
 * for something better until its budget is used up or the lower bound is met.
 */
#include "sched/search/algorithms.h"

/* A search from an empty schedule, within the budget of the call. */
static enum detour_status begin(struct dt_call *call, const struct dt_problem *p, struct dt_search *search)
{
    struct dt_timeline *start;

    if (!dt_arena_new(call->arena, start, 1))
        return dt_fail_memory(call->error);
    enum detour_status status = dt_timeline_init(call, p, start);
    return status ? status : dt_search_begin(call, start, search);
}

static enum detour_status finish(struct dt_search *search, struct dt_result *result)
{
    result->lower_bound_ns = search->lower_ns;
    return dt_search_finish(search, &result->schedule);
}

enum detour_status dt_generate_beam(struct dt_call *call, const struct dt_problem *p,
                                    struct dt_result *result)
{
    int32_t width = call->options->beam_width;
    struct dt_search search = {0};

    if (width < 0)
        return dt_fail(call, DETOUR_INVALID, "beam_width is %d; it must not be negative", (int)width);
    enum detour_status status = begin(call, p, &search);
    if (!status)
        status = width ? dt_beam(&search, width, width == 1 ? DT_KEY_DEVICES : DT_KEY_CHAINS)
                       : dt_beam_widening(&search, search.node_limit);
    return status ? status : finish(&search, result);
}

enum detour_status dt_generate_exact(struct dt_call *call, const struct dt_problem *p,
                                     struct dt_result *result)
{
    struct dt_search search = {0};
    enum detour_status status = begin(call, p, &search);

    if (!status)
        status = dt_beam_widening(&search, call->node_count + dt_search_nodes_left(&search) / 8);
    if (!status)
        status = dt_tabu(&search, call->node_count + dt_search_nodes_left(&search) / 4);
    if (!status)
        status = dt_search_prove(&search);
    return status ? status : finish(&search, result);
}

static bool is_better(const struct dt_result *a, const struct dt_result *b)
{
    if (!b->schedule || a->makespan_ns != b->makespan_ns)
        return !b->schedule || a->makespan_ns < b->makespan_ns;
    return a->longest_span_ns < b->longest_span_ns;
}

/* The best schedule of the algorithms that do not search; result->schedule stays NULL if none succeeds. */
static enum detour_status try_generators(struct dt_call *call, const struct dt_problem *p,
                                         struct dt_result *result)
{
    struct detour_error *error = call->error;
    enum detour_status status = DETOUR_OK;

    call->error = NULL; /* an algorithm whose schedule does not fit is no error here */
    for (const struct dt_generator *row = dt_generators; row->name; row++) {
        struct dt_arena_mark mark = dt_arena_save(call->arena);
        struct dt_result made = {0};
        if (row->generate == dt_generate_auto || row->generate == dt_generate_beam ||
            row->generate == dt_generate_exact)
            continue;
        status = dt_generate_with(call, p, row->algorithm, &made);
        if (status == DETOUR_NO_MEMORY)
            break;
        if (!status && is_better(&made, result))
            *result = made;
        else
            dt_arena_rewind(call->arena, mark);
    }
    call->error = error;
    return status == DETOUR_NO_MEMORY ? dt_fail_memory(error) : DETOUR_OK;
}

enum detour_status dt_generate_auto(struct dt_call *call, const struct dt_problem *p,
                                    struct dt_result *result)
{
    struct dt_result known = {0};
    struct dt_search search = {0};
    enum detour_status status = try_generators(call, p, &known);

    if (!status)
        status = begin(call, p, &search);
    if (status)
        return status;
    if (known.schedule)
        status = dt_search_offer_schedule(&search, known.schedule, NULL, known.makespan_ns);
    if (!status)
        status = dt_search_run(&search);
    if (status)
        return status;
    *result = known;
    result->lower_bound_ns = search.lower_ns;
    if (known.schedule && search.best_ns >= known.makespan_ns)
        return DETOUR_OK;
    result->made_by = DETOUR_ALGORITHM_BEAM;
    return finish(&search, result);
}

enum detour_status detour_lower_bound(struct detour_arena *arena, const struct detour_profile *profile,
                                      int64_t *lower_bound_ns, struct detour_error *error)
{
    struct dt_search search = {0};
    struct dt_problem *p;
    struct dt_call call;

    dt_call_init(&call, arena, error, NULL);
    if (!arena || !lower_bound_ns)
        return dt_fail(&call, DETOUR_INVALID, "%s is NULL", arena ? "lower_bound_ns" : "arena");
    struct dt_arena_mark mark = dt_arena_save(arena);
    enum detour_status status = dt_problem_create(&call, profile, &p);
    if (!status)
        status = begin(&call, p, &search);
    if (!status)
        *lower_bound_ns = search.lower_ns;
    dt_arena_rewind(arena, mark);
    return status;
}
