/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partial schedules visited before, for pruning: they show which new ones cannot lead to a better schedule.
 *
 * Of two states with equal numbers of F's and B's of every stage, one dominates the other if it has at
 * least as many W's on every stage and lets every remaining operation start no later: any completion of the
 * other completes it too, and no later. The older state is represented by the times at which devices are
 * free and messages arrive, the newer one by the heads of its remaining operations, which are later still.
 */
#ifndef DETOUR_SCHED_SEARCH_MEMO_H
#define DETOUR_SCHED_SEARCH_MEMO_H

#include "sched/search/bound.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_memo_bucket;
struct dt_memo_chunk;

struct dt_memo {
    struct dt_call *call;
    const struct dt_shop *shop;
    struct dt_memo_bucket *buckets;
    size_t bucket_count; /* a power of two */
    struct dt_memo_chunk *chunks;
    struct dt_memo_chunk *current;
    size_t used_bytes; /* of the current chunk */
    size_t chunk_count;
    int64_t *scratch; /* one entry's numbers */
};

/* An empty memo for about `entry_count` states, in call->arena. DETOUR_NO_MEMORY. */
enum detour_status dt_memo_init(struct dt_call *call, const struct dt_shop *shop, size_t entry_count,
                                struct dt_memo *memo);

/* Removes all entries. */
void dt_memo_clear(struct dt_memo *memo);

/* Whether there is an entry with equal numbers of F's and B's; if not, dt_memo_dominates() is false. */
bool dt_memo_has(const struct dt_memo *memo, const struct dt_shop_state *state);

/* Whether an entry dominates the state. The bound must have been taken of this state last. */
bool dt_memo_dominates(struct dt_memo *memo, const struct dt_bound *bound, const struct dt_shop_state *state);

/* Adds a state, unless the memory for entries is used up. */
void dt_memo_add(struct dt_memo *memo, const struct dt_shop_state *state);

#ifdef __cplusplus
}
#endif

#endif
