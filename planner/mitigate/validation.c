/* SPDX-License-Identifier: Apache-2.0 */
/* Who exchanges messages with whom in a validation: FALCON, section 4.3 and figure 9. */
#include <inttypes.h>
#include <stdlib.h>

#include "planner/mitigate/layout.h"
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

static int compare_pairs(const void *left, const void *right)
{
    const struct detour_rank_pair *a = left, *b = right;

    return a->from != b->from ? (a->from > b->from) - (a->from < b->from) : (a->to > b->to) - (a->to < b->to);
}

static enum detour_status check_links(struct detour_arena *arena, int32_t rank_count,
                                      const struct detour_rank_pair *links, int32_t link_count,
                                      struct detour_error *error)
{
    struct detour_rank_pair *sorted;

    if (link_count < 1)
        return dt_error_set(error, DETOUR_INVALID, "links: at least one is needed");
    if (!dt_arena_new(arena, sorted, link_count))
        return dt_fail_memory(error);
    for (int32_t i = 0; i < link_count; i++) {
        int32_t a = links[i].from, b = links[i].to;

        if (a < 0 || b < 0 || a >= rank_count || b >= rank_count || a == b)
            return dt_error_set(error, DETOUR_INVALID,
                                "link %" PRId32 "-%" PRId32 ": expected two different ranks below %" PRId32,
                                a, b, rank_count);
        sorted[i] = a < b ? (struct detour_rank_pair){a, b} : (struct detour_rank_pair){b, a};
    }
    qsort(sorted, (size_t)link_count, sizeof *sorted, compare_pairs);
    for (int32_t i = 1; i < link_count; i++) {
        if (compare_pairs(&sorted[i - 1], &sorted[i]) == 0)
            return dt_error_set(error, DETOUR_INVALID, "link %" PRId32 "-%" PRId32 " is there twice",
                                sorted[i].from, sorted[i].to);
    }
    return DETOUR_OK;
}

enum detour_status detour_validation_links(struct detour_arena *arena, int32_t rank_count,
                                           const struct detour_rank_pair *links, int32_t link_count,
                                           const struct detour_validation **validation,
                                           struct detour_error *error)
{
    enum detour_status status = check_ranks(rank_count, error);

    if (!status)
        status = check_links(arena, rank_count, links, link_count, error);
    return status ? status : dt_passes_make(arena, rank_count, links, link_count, 1, validation, error);
}

enum detour_status detour_validation_job(struct detour_arena *arena, const struct detour_cluster *cluster,
                                         const int32_t *nodes, const struct detour_validation **validation,
                                         struct detour_error *error)
{
    enum detour_status status = detour_cluster_check(cluster, error);
    int32_t stages, replicas, count = 0;
    struct detour_rank_pair *links;

    if (!status)
        status = dt_nodes_check(cluster, nodes, NULL, error);
    if (status)
        return status;
    stages = cluster->stage_count;
    replicas = cluster->replica_count;
    nodes = nodes ? nodes : cluster->nodes;
    if (!dt_arena_new(arena, links, 2 * (size_t)replicas * (size_t)stages))
        return dt_fail_memory(error);
    for (int32_t i = 0; i < replicas * stages; i++) {
        int32_t stage = i % stages, above = i + stages; /* of the next replica */
        int32_t node = nodes ? nodes[i] : i;

        if (stage + 1 < stages)
            links[count++] = (struct detour_rank_pair){node, nodes ? nodes[i + 1] : i + 1};
        if (above >= replicas * stages)
            above = replicas > 2 ? stage : i; /* the ring of two is one link */
        if (above != i)
            links[count++] = (struct detour_rank_pair){node, nodes ? nodes[above] : above};
    }
    return detour_validation_links(arena, replicas * stages, links, count, validation, error);
}
