/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State that the search algorithms (algorithms.h) share: the shop, the best schedule so far, and the
 * remaining budget.
 *
 * A node is a partial schedule whose bound has been computed. Budgets are nodes (detour_node_budget()), so
 * the same input gives the same result on every machine.
 */
#ifndef DETOUR_SCHED_SEARCH_SEARCH_H
#define DETOUR_SCHED_SEARCH_SEARCH_H

#include "sched/search/bound.h"
#include "sched/generator.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_search {
    struct dt_call *call;
    struct dt_timeline *start; /* the schedule is finished in it */
    struct dt_shop *shop;
    struct dt_bound *bound;
    struct dt_shop_state *root; /* nothing placed yet */
    uint64_t node_limit;        /* of call->node_count */
    int64_t lower_ns;           /* no schedule has a smaller makespan */
    int64_t best_ns;            /* the smallest makespan known; INT64_MAX: none */
    struct dt_shop_move *best;  /* how it is made; best_count 0: not known */
    int32_t best_count;
    int64_t *least_ns; /* [microbatches]: lower bound of a problem with this many; 0: none known */
    int key_shift;     /* so that sums over devices and stages do not overflow */
};

/*
 * Starts a search for the completion of `start`, which must stay and is used up by dt_search_finish(). The
 * budget is that of the call's options.
 */
enum detour_status dt_search_begin(struct dt_call *call, struct dt_timeline *start, struct dt_search *search);

/* Takes lower bounds of smaller problems into account, least_ns[0] to [microbatches - 1]. */
void dt_search_raise(struct dt_search *search, const int64_t *least_ns);

/* Nothing better can be found. */
static inline bool dt_search_is_closed(const struct dt_search *search)
{
    return search->best_ns <= search->lower_ns;
}

/* Nodes that may still be spent; 0 also once should_stop has returned true. */
uint64_t dt_search_nodes_left(const struct dt_search *search);

/* Takes over a complete schedule if it is better than the best. */
void dt_search_offer(struct dt_search *search, int64_t makespan_ns, const struct dt_shop_move *moves,
                     int32_t move_count);

/*
 * Offers a timed, valid schedule that was made elsewhere, of which the first started[d] operations of each
 * device (NULL: none) are those of search->start. Without effect if it does not take microbatches in order.
 * DETOUR_OK or DETOUR_NO_MEMORY.
 */
enum detour_status dt_search_offer_schedule(struct dt_search *search, const struct detour_schedule *schedule,
                                            const size_t *started, int64_t makespan_ns);

/* The schedule of search->best. */
enum detour_status dt_search_finish(struct dt_search *search, struct detour_schedule **schedule);

/* The order of states with equal bounds: the smaller the better. */
enum dt_search_key {
    DT_KEY_DEVICES, /* sum of the bounds of all devices */
    DT_KEY_CHAINS,  /* that, and head + tail of the next F and B of each stage */
};

/* The key of the state whose bound was taken last. */
int64_t dt_search_key(const struct dt_search *search, const struct dt_shop_state *state,
                      enum dt_search_key key);

#ifdef __cplusplus
}
#endif

#endif
