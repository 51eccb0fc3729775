/* SPDX-License-Identifier: Apache-2.0 */
/* The joint search over partitions and placements. */
#include <stdlib.h>

#include "planner/move.h"
#include "planner/search.h"
#include "sched/arena.h"
#include "sched/call.h"

enum {
    SETTLE_STEPS = 6000,
    CANDIDATES = 4096,  /* moves that are listed */
    TRIALS = 24,        /* of these, how many get a schedule before a pipeline counts as a local optimum */
    KICKS = 3,          /* moves away from a local optimum */
    STALE_ROUNDS = 250, /* without an improvement, after which the search ends */
};

struct candidate {
    struct dt_move move;
    struct dt_estimate estimate;
};

struct exploration {
    struct dt_optimizer *o;
    struct dt_pool *pool;
    struct dt_prng prng;
    struct dt_pipeline *now;
    struct dt_pipeline *trial;
    struct dt_pipeline *best;
    struct dt_move *moves;
    struct candidate *candidates;
    enum detour_status status;
};

/* Whether a worse estimate is accepted all the same: by less and less of it, and not more memory. */
static bool is_acceptable(const struct dt_estimate *trial, const struct dt_estimate *now, int32_t step)
{
    int64_t slack_ns = now->bound_ns / 50 * (SETTLE_STEPS - step) / SETTLE_STEPS;

    return trial->over_bytes <= now->over_bytes && trial->bound_ns <= now->bound_ns + slack_ns;
}

/* Threshold accepting by the estimate alone; leaves the best in x->now. No schedule is made. */
static void settle(struct exploration *x, unsigned allowed)
{
    struct dt_estimate now = dt_look(x->o, x->now), best = now;

    dt_pipeline_copy(x->best, x->now);
    for (int32_t step = 0; allowed && step < SETTLE_STEPS; step++) {
        struct dt_move move = dt_move_draw(x->o->space, x->now, allowed, &x->prng);
        dt_pipeline_copy(x->trial, x->now);
        if (!dt_move_apply(x->o->space, x->trial, &move))
            continue;
        struct dt_estimate trial = dt_look(x->o, x->trial);
        if (dt_estimate_compare(&trial, &now) > 0 && !is_acceptable(&trial, &now, step))
            continue;
        struct dt_pipeline *moved = x->trial;
        x->trial = x->now;
        x->now = moved;
        now = trial;
        if (dt_estimate_compare(&now, &best) < 0) {
            best = now;
            dt_pipeline_copy(x->best, x->now);
        }
    }
    dt_pipeline_copy(x->now, x->best);
}

static int compare_candidates(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    int order = dt_estimate_compare(&a->estimate, &b->estimate);

    return order ? order : (a < b ? -1 : 1);
}

/* Moves from x->now whose estimate does not dismiss them, the most promising first. */
static size_t list_candidates(struct exploration *x, unsigned allowed, int64_t below_ns)
{
    struct dt_estimate now = dt_look(x->o, x->now);
    size_t count = dt_moves_list(x->o->space, x->now, allowed, now.busiest, x->moves, CANDIDATES), kept = 0;

    for (size_t k = 0; k < count; k++) {
        dt_pipeline_copy(x->trial, x->now);
        if (!dt_move_apply(x->o->space, x->trial, &x->moves[k]))
            continue;
        struct dt_estimate trial = dt_look(x->o, x->trial);
        if (trial.over_bytes == 0 && trial.bound_ns < below_ns)
            x->candidates[kept++] = (struct candidate){x->moves[k], trial};
    }
    qsort(x->candidates, kept, sizeof(*x->candidates), compare_candidates);
    return kept;
}

/* Takes the makespan of a pipeline; true if it is below `below_ns`. */
static bool score(struct exploration *x, const struct dt_pipeline *pipeline, int64_t below_ns,
                  int64_t *makespan_ns)
{
    *makespan_ns = dt_quick_iteration(x->o, pipeline, &x->status);
    dt_pool_offer(x->pool, pipeline, *makespan_ns);
    if (*makespan_ns < x->o->best_ns)
        x->o->best_ns = *makespan_ns;
    return *makespan_ns < below_ns;
}

/* One improvement of x->now; false at a local optimum. */
static bool improve(struct exploration *x, unsigned allowed, int64_t *now_ns)
{
    size_t count = list_candidates(x, allowed, *now_ns);
    int64_t trial_ns;

    for (size_t k = 0; k < count && k < TRIALS && dt_goes_on(x->o) && !x->status; k++) {
        dt_pipeline_copy(x->trial, x->now);
        dt_move_apply(x->o->space, x->trial, &x->candidates[k].move);
        if (score(x, x->trial, *now_ns, &trial_ns)) {
            dt_pipeline_copy(x->now, x->trial);
            *now_ns = trial_ns;
            return true;
        }
    }
    return false;
}

static void refine(struct exploration *x, unsigned allowed, int64_t now_ns)
{
    while (!x->status && dt_goes_on(x->o) && improve(x, allowed, &now_ns))
        ;
}

/* Every pattern as it is, with its cuts settled, and with everything settled. */
static void begin(struct exploration *x, unsigned allowed)
{
    const unsigned cuts = allowed & (1u << DT_MOVE_CUT | 1u << DT_MOVE_SHIFT);
    int64_t makespan_ns;
    bool usable;

    for (int v = 0; !x->status && dt_pattern(x->o, v, x->now, &usable, &x->status); v++) {
        if (!usable || !dt_goes_on(x->o))
            continue;
        score(x, x->now, 0, &makespan_ns);
        settle(x, cuts);
        score(x, x->now, 0, &makespan_ns);
        settle(x, allowed);
        score(x, x->now, 0, &makespan_ns);
    }
}

/* Away from a local optimum by random moves, and on to where the estimate does not dismiss it. */
static int64_t kick(struct exploration *x, unsigned allowed)
{
    int64_t makespan_ns;

    for (int k = 0; k < KICKS; k++) {
        struct dt_move move = dt_move_draw(x->o->space, x->now, allowed, &x->prng);
        dt_move_apply(x->o->space, x->now, &move);
    }
    struct dt_estimate kicked = dt_look(x->o, x->now);
    if (kicked.over_bytes || kicked.bound_ns >= x->o->best_ns)
        settle(x, allowed);
    score(x, x->now, 0, &makespan_ns);
    return makespan_ns;
}

/* Refines what is in the pool, then goes on from random changes of it. */
static void go_on(struct exploration *x, unsigned allowed)
{
    int64_t best_ns = x->o->best_ns;

    for (int32_t round = 0, stale = 0; stale < STALE_ROUNDS; round++, stale++) {
        if (x->status || !x->pool->count || !dt_goes_on(x->o))
            return;
        const struct dt_scored *from = &x->pool->entries[round % x->pool->count];
        int64_t makespan_ns = from->makespan_ns;
        dt_pipeline_copy(x->now, from->pipeline);
        if (round >= DT_POOL_SIZE)
            makespan_ns = kick(x, allowed);
        refine(x, allowed, makespan_ns);
        if (x->o->best_ns < best_ns) {
            best_ns = x->o->best_ns;
            stale = 0;
        }
    }
}

enum detour_status dt_explore(struct dt_optimizer *o, struct dt_pool *pool)
{
    struct dt_arena_mark mark = dt_arena_save(o->arena);
    struct exploration x = {.o = o, .pool = pool};
    unsigned allowed = dt_moves_allowed(o->space, o->parts);

    x.now = dt_pipeline_create(o->arena, o->space);
    x.trial = dt_pipeline_create(o->arena, o->space);
    x.best = dt_pipeline_create(o->arena, o->space);
    if (!x.now || !x.trial || !x.best || !dt_arena_new(o->arena, x.moves, CANDIDATES) ||
        !dt_arena_new(o->arena, x.candidates, CANDIDATES))
        return dt_fail_memory(o->error);
    dt_prng_init(&x.prng, 17);
    begin(&x, allowed);
    if (allowed)
        go_on(&x, allowed);
    dt_arena_rewind(o->arena, mark);
    return x.status;
}
