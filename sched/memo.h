/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partial schedules seen before, to tell which new ones cannot lead to anything better.
 *
 * Of two states with as many F's and B's of every stage, one is at least as good as the other if it has as
 * many W's or more on every stage and lets everything that is left start no later: whatever order completes
 * the other completes it too, and no later. The older state is judged by when devices are free and messages
 * there, the newer one by the heads of what it has left, which are later still.
 */
#ifndef DETOUR_SCHED_MEMO_H
#define DETOUR_SCHED_MEMO_H

#include "sched/bound.h"

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

/* Forgets everything. */
void dt_memo_clear(struct dt_memo *memo);

/* Whether a state with as many F's and B's is remembered; without, dt_memo_dominates() is false. */
bool dt_memo_has(const struct dt_memo *memo, const struct dt_shop_state *state);

/* Whether a remembered state is at least as good. The bound must have been taken of this state last. */
bool dt_memo_dominates(struct dt_memo *memo, const struct dt_bound *bound, const struct dt_shop_state *state);

/* Remembers a state, unless memory for that is used up. */
void dt_memo_add(struct dt_memo *memo, const struct dt_shop_state *state);

#ifdef __cplusplus
}
#endif

#endif
