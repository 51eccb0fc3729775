/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithms that search for a better schedule (search.h), and the orders in which they are run (run.c).
 * Each stops at its node limit or when the search is closed. DETOUR_OK or DETOUR_NO_MEMORY.
 */
#ifndef DETOUR_SCHED_SEARCH_ALGORITHMS_H
#define DETOUR_SCHED_SEARCH_ALGORITHMS_H

#include "sched/search/search.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A beam search of the given width. Abandoned when the budget is used up, except that it then still finishes
 * greedily when no schedule is known yet. DETOUR_OK or DETOUR_NO_MEMORY.
 */
enum detour_status dt_beam(struct dt_search *search, int32_t width, enum dt_search_key key);

/* Beams, ever wider, until `node_limit` of call->node_count or a closed search. */
enum detour_status dt_beam_widening(struct dt_search *search, uint64_t node_limit);

/*
 * Local search from search->best until call->node_count reaches `node_limit` or the search is closed. A step
 * costs as much as two nodes and counts as such. Without effect if search->best is not known.
 */
enum detour_status dt_tabu(struct dt_search *search, uint64_t node_limit);

/*
 * Branch and bound: looks for schedules with a makespan below `target_ns` until call->node_count reaches
 * `node_limit`. Sets *exhausted if there are none but those it found; the lower bound is raised then.
 */
enum detour_status dt_branch(struct dt_search *search, int64_t target_ns, uint64_t node_limit,
                             bool *exhausted);

/*
 * Branch and bound from low targets upwards, until call->node_count reaches `node_limit` or the search is
 * closed.
 */
enum detour_status dt_branch_raising(struct dt_search *search, uint64_t node_limit);

/*
 * Solves problems with fewer microbatches, as well as goes until call->node_count reaches `node_limit`, and
 * takes their bounds into account. Fills search->least_ns.
 */
enum detour_status dt_nested_bounds(struct dt_search *search, uint64_t node_limit);

/* Branch and bound with the rest of the budget, with and without the bounds of smaller problems. */
enum detour_status dt_search_prove(struct dt_search *search);

/*
 * All of these, one after the other, with the whole budget: the best that can be found and a lower bound,
 * from wherever search->best stands.
 */
enum detour_status dt_search_run(struct dt_search *search);

#ifdef __cplusplus
}
#endif

#endif
