/* SPDX-License-Identifier: Apache-2.0 */
/* Who exchanges messages with whom in a validation: FALCON, section 4.3 and figure 9. */
#include <inttypes.h>

#include "planner/mitigate/passes.h"
#include "sched/arena.h"
#include "sched/call.h"

enum { RING_PASSES = 2, TREE_PASSES = 4 };

static enum detour_status check_ranks(int32_t rank_count, struct detour_error *error)
{
    if (rank_count < 2)
        return dt_error_set(error, DETOUR_INVALID,
                            "rank_count is %" PRId32 "; a validation needs at least 2 ranks", rank_count);
    if (rank_count > DETOUR_RANKS_MAX)
        return dt_error_set(error, DETOUR_LIMIT, "rank_count is %" PRId32 "; at most %d are possible",
                            rank_count, DETOUR_RANKS_MAX);
    return DETOUR_OK;
}

enum detour_status detour_validation_ring(struct detour_arena *arena, int32_t rank_count,
                                          const struct detour_validation **validation,
                                          struct detour_error *error)
{
    enum detour_status status = check_ranks(rank_count, error);
    struct detour_validation *made;
    struct detour_rank_pair *pairs;
    int32_t *first, count = 0;

    if (status)
        return status;
    if (!dt_arena_new(arena, made, 1) || !dt_arena_new(arena, pairs, rank_count) ||
        !dt_arena_new(arena, first, RING_PASSES + 2))
        return dt_fail_memory(error);
    for (int32_t pass = 0; pass < RING_PASSES; pass++) {
        first[pass] = count;
        for (int32_t rank = pass; rank + 1 < rank_count; rank += 2)
            pairs[count++] = (struct detour_rank_pair){rank, rank + 1};
        if (pass == 1 && rank_count % 2 == 0)
            pairs[count++] = (struct detour_rank_pair){rank_count - 1, 0};
    }
    first[RING_PASSES] = count;
    if (rank_count % 2) { /* the link that is left: both its ends are in each of the two passes' rings */
        pairs[count++] = (struct detour_rank_pair){rank_count - 1, 0};
        first[RING_PASSES + 1] = count;
    }
    *made = (struct detour_validation){rank_count, RING_PASSES + rank_count % 2, count, first, pairs};
    *validation = made;
    return DETOUR_OK;
}

/* The parent of a rank other than 0 in NCCL's binary tree: the lowest set bit moves up, and where that is
 * no rank, is cleared. */
static int32_t parent_of(int32_t rank, int32_t rank_count)
{
    int32_t bit = rank & -rank, up = (rank ^ bit) | (bit << 1);

    return up < rank_count ? up : rank ^ bit;
}

/* NCCL's second tree: the first one mirrored, for an odd number of ranks shifted by one. */
static int32_t in_second(int32_t rank, int32_t rank_count)
{
    return rank_count % 2 ? (rank + 1) % rank_count : rank_count - 1 - rank;
}

static int32_t in_first(int32_t rank, int32_t rank_count)
{
    return rank_count % 2 ? (rank + rank_count - 1) % rank_count : rank_count - 1 - rank;
}

static bool is_link_of_first(int32_t a, int32_t b, int32_t rank_count)
{
    return (a > 0 && parent_of(a, rank_count) == b) || (b > 0 && parent_of(b, rank_count) == a);
}

enum detour_status detour_validation_double_tree(struct detour_arena *arena, int32_t rank_count,
                                                 const struct detour_validation **validation,
                                                 struct detour_error *error)
{
    enum detour_status status = check_ranks(rank_count, error);
    struct detour_rank_pair *pairs;
    int32_t count = 0;

    if (status)
        return status;
    if (!dt_arena_new(arena, pairs, 2 * (size_t)rank_count))
        return dt_fail_memory(error);
    for (int32_t rank = 1; rank < rank_count; rank++)
        pairs[count++] = (struct detour_rank_pair){rank, parent_of(rank, rank_count)};
    for (int32_t rank = 0; rank < rank_count; rank++) {
        int32_t first = in_first(rank, rank_count);
        int32_t parent = first ? in_second(parent_of(first, rank_count), rank_count) : -1;
        if (parent >= 0 && !is_link_of_first(rank, parent, rank_count))
            pairs[count++] = (struct detour_rank_pair){rank, parent};
    }
    return dt_passes_make(arena, rank_count, pairs, count, TREE_PASSES, validation, error);
}
