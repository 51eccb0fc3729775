/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/mitigate/passes.h"

#include "sched/arena.h"
#include "sched/call.h"

struct coloring {
    const struct detour_rank_pair *pairs;
    int32_t *used;  /* [rank * DT_PASSES_MAX + pass]: pair + 1, 0: free */
    int32_t *pass;  /* [pair] */
    int32_t *chain; /* [pair]: of one exchange */
    int32_t pass_count;
};

static int32_t *used_at(const struct coloring *c, int32_t rank, int32_t pass)
{
    return &c->used[(size_t)rank * DT_PASSES_MAX + (size_t)pass];
}

static int32_t other_end(const struct coloring *c, int32_t pair, int32_t rank)
{
    return c->pairs[pair].from == rank ? c->pairs[pair].to : c->pairs[pair].from;
}

static void mark(const struct coloring *c, int32_t pair, int32_t value)
{
    *used_at(c, c->pairs[pair].from, c->pass[pair]) = value;
    *used_at(c, c->pairs[pair].to, c->pass[pair]) = value;
}

static void put(const struct coloring *c, int32_t pair, int32_t pass)
{
    c->pass[pair] = pass;
    mark(c, pair, pair + 1);
}

/* Frees pass `a` at rank `start` by exchanging passes a and b along the path that begins there; false if
 * the path ends at rank `end`, which would lose its free pass. */
static bool exchange(const struct coloring *c, int32_t start, int32_t end, int32_t a, int32_t b)
{
    int32_t count = 0, rank = start;

    for (int32_t pass = a; *used_at(c, rank, pass); pass = a + b - pass) {
        c->chain[count] = *used_at(c, rank, pass) - 1;
        rank = other_end(c, c->chain[count++], rank);
    }
    if (rank == end)
        return false;
    for (int32_t k = 0; k < count; k++)
        mark(c, c->chain[k], 0);
    for (int32_t k = 0; k < count; k++)
        put(c, c->chain[k], a + b - c->pass[c->chain[k]]);
    return true;
}

static bool place_free(const struct coloring *c, int32_t pair)
{
    for (int32_t pass = 0; pass < c->pass_count; pass++)
        if (!*used_at(c, c->pairs[pair].from, pass) && !*used_at(c, c->pairs[pair].to, pass)) {
            put(c, pair, pass);
            return true;
        }
    return false;
}

static bool place(const struct coloring *c, int32_t pair)
{
    int32_t from = c->pairs[pair].from, to = c->pairs[pair].to;

    if (place_free(c, pair))
        return true;
    for (int32_t a = 0; a < c->pass_count; a++)
        for (int32_t b = 0; b < c->pass_count; b++)
            if (!*used_at(c, from, a) && !*used_at(c, to, b) && exchange(c, to, from, a, b)) {
                put(c, pair, a);
                return true;
            }
    return false;
}

/* The pairs pass by pass, in their order. */
static enum detour_status sort_passes(struct detour_arena *arena, const struct coloring *c,
                                      int32_t rank_count, int32_t pair_count,
                                      const struct detour_validation **validation, struct detour_error *error)
{
    struct detour_validation *made;
    struct detour_rank_pair *pairs;
    int32_t *first, count = 0;

    if (!dt_arena_new(arena, made, 1) || !dt_arena_new(arena, pairs, pair_count) ||
        !dt_arena_new(arena, first, DT_PASSES_MAX + 1))
        return dt_fail_memory(error);
    for (int32_t pass = 0; pass < c->pass_count; pass++) {
        int32_t before = count;
        first[made->pass_count] = count;
        for (int32_t k = 0; k < pair_count; k++)
            if (c->pass[k] == pass)
                pairs[count++] = c->pairs[k];
        made->pass_count += count > before;
    }
    first[made->pass_count] = count;
    made->rank_count = rank_count;
    made->pair_count = count;
    made->first_pair = first;
    made->pairs = pairs;
    *validation = made;
    return DETOUR_OK;
}

enum detour_status dt_passes_make(struct detour_arena *arena, int32_t rank_count,
                                  const struct detour_rank_pair *pairs, int32_t pair_count,
                                  int32_t pass_count, const struct detour_validation **validation,
                                  struct detour_error *error)
{
    struct coloring c = {.pairs = pairs, .pass_count = pass_count};

    if (!dt_arena_new(arena, c.used, (size_t)rank_count * DT_PASSES_MAX) ||
        !dt_arena_new(arena, c.pass, pair_count) || !dt_arena_new(arena, c.chain, pair_count))
        return dt_fail_memory(error);
    for (int32_t k = 0; k < pair_count; k++) {
        if (place(&c, k))
            continue;
        if (++c.pass_count > DT_PASSES_MAX || !place(&c, k))
            return dt_error_set(error, DETOUR_UNSUPPORTED, "pairs: more than %d passes are needed",
                                DT_PASSES_MAX);
    }
    return sort_passes(arena, &c, rank_count, pair_count, validation, error);
}
