/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lower bounds from smaller problems ("Russian dolls", after Verfaillie, Lemaitre and Schiex, 1996): from the
 * start of F(0, N - n) on, all of the last n microbatches pass through all stages, so at least as much time
 * is left as the best schedule of n microbatches takes. Small n are solved first, and what is known of them
 * bounds the larger ones. With tight memory this reaches far: where at most M microbatches are in flight,
 * each F of stage 0 waits for an earlier microbatch to come back, and the two parts lie one behind the other.
 */
#include "sched/search/algorithms.h"

/* A problem of `count` microbatches: search->least_ns[count] becomes a lower bound on its makespan. */
static enum detour_status solve(struct dt_search *outer, int32_t count, uint64_t node_limit)
{
    struct dt_call *call = outer->call;
    struct detour_profile profile = *outer->shop->p->profile;
    struct dt_search inner;
    struct dt_timeline start;
    struct dt_problem *p;

    profile.microbatch_count = count;
    enum detour_status status = dt_problem_create(call, &profile, &p);
    if (!status)
        status = dt_timeline_init(call, p, &start);
    if (!status)
        status = dt_search_begin(call, &start, &inner);
    if (status)
        return status;
    if (inner.node_limit > node_limit)
        inner.node_limit = node_limit;
    dt_search_raise(&inner, outer->least_ns);
    status = dt_beam_widening(&inner, call->node_count + dt_search_nodes_left(&inner) / 8);
    if (!status)
        status = dt_tabu(&inner, call->node_count + dt_search_nodes_left(&inner) / 4);
    if (!status)
        status = dt_branch_raising(&inner, inner.node_limit);
    outer->least_ns[count] = inner.lower_ns;
    return status;
}

enum detour_status dt_nested_bounds(struct dt_search *search, uint64_t node_limit)
{
    enum { NODES_MIN = 200 }; /* for one problem */
    struct dt_call *call = search->call;
    int32_t last = search->shop->p->microbatch_count - 1, count = 1;
    uint64_t left = node_limit > call->node_count ? node_limit - call->node_count : 0;
    enum detour_status status = DETOUR_OK;
    int64_t stride = left < NODES_MIN ? last : last / (int64_t)(left / NODES_MIN) + 1;

    if (!search->shop->complete || left < NODES_MIN)
        return DETOUR_OK;
    for (; !status && count <= last && dt_search_nodes_left(search); count++) {
        struct dt_arena_mark mark = dt_arena_save(call->arena);
        uint64_t parts = (uint64_t)((last - count) / stride + 1);
        if (count % stride == 0 && call->node_count < node_limit)
            status = solve(search, count, call->node_count + (node_limit - call->node_count) / parts);
        if (search->least_ns[count] < search->least_ns[count - 1])
            search->least_ns[count] = search->least_ns[count - 1];
        dt_arena_rewind(call->arena, mark);
    }
    dt_search_raise(search, search->least_ns);
    return status;
}
