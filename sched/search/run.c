/* SPDX-License-Identifier: Apache-2.0 */
/* Which algorithm gets which part of the budget. */
#include "sched/search/algorithms.h"

enum detour_status dt_search_prove(struct dt_search *search)
{
    const uint64_t *spent = &search->call->node_count;
    enum detour_status status = dt_branch_raising(search, *spent + dt_search_nodes_left(search) / 8);

    if (!status && !dt_search_is_closed(search))
        status = dt_nested_bounds(search, *spent + dt_search_nodes_left(search) / 2);
    return status ? status : dt_branch_raising(search, search->node_limit);
}

enum detour_status dt_search_run(struct dt_search *search)
{
    const uint64_t *spent = &search->call->node_count;
    enum detour_status status = dt_beam_widening(search, *spent + dt_search_nodes_left(search) / 4);

    if (!status)
        status = dt_tabu(search, *spent + dt_search_nodes_left(search) / 3 * 2);
    return status ? status : dt_search_prove(search);
}
