/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Beam search guided by the lower bound: step by step every state that is kept is continued in all ways, and
 * of the new states those with the lowest bounds are kept, without those that another one makes superfluous.
 */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "sched/search/memo.h"
#include "sched/search/algorithms.h"

/* Limit of a beam's memory. */
enum { BEAM_BYTES_MAX = 1 << 28 };

/* A state that could be kept in the next step. */
struct candidate {
    int64_t bound_ns;
    int64_t key;
    int32_t parent; /* in the present step */
    int32_t rank;   /* among the candidates as they were made */
    struct dt_shop_move move;
};

/* How a kept state was reached. */
struct footprint {
    int32_t parent; /* in the step before */
    struct dt_shop_move move;
};

/* A state that is kept. */
struct kept {
    struct dt_shop_state *state;
    int64_t bound_ns;
    int64_t key;
};

struct layer {
    struct kept *kept; /* width */
    int32_t count;
};

/* The states that were kept in a step. */
struct step {
    struct footprint *prints;
};

struct beam {
    struct dt_search *search;
    const struct dt_shop *shop;
    int32_t width;
    enum dt_search_key key;
    struct layer now;
    struct layer next;
    struct candidate *candidates;
    int32_t candidate_count;
    struct dt_shop_move *moves; /* scratch, and the way to a complete schedule */
    struct step *trail;
    int32_t step;
    struct dt_memo memo;
};

static bool allocate_layer(struct beam *beam, struct layer *layer)
{
    struct dt_call *call = beam->search->call;

    if (!dt_arena_new(call->arena, layer->kept, beam->width))
        return false;
    for (int32_t k = 0; k < beam->width; k++)
        if (!(layer->kept[k].state = dt_shop_state_create(call, beam->shop)))
            return false;
    return true;
}

static enum detour_status allocate(struct beam *beam)
{
    struct dt_call *call = beam->search->call;
    const struct dt_shop *shop = beam->shop;
    int32_t moves_max = shop->op_count > shop->moves_max ? shop->op_count : shop->moves_max;

    if (!allocate_layer(beam, &beam->now) || !allocate_layer(beam, &beam->next) ||
        !dt_arena_new(call->arena, beam->candidates, (size_t)beam->width * (size_t)shop->moves_max) ||
        !dt_arena_new(call->arena, beam->moves, moves_max) ||
        !dt_arena_new(call->arena, beam->trail, (size_t)shop->op_count + 1))
        return dt_fail_memory(call->error);
    beam->now.count = 1;
    beam->now.kept[0].bound_ns = beam->search->lower_ns;
    return dt_memo_init(call, shop, 2 * (size_t)beam->width, &beam->memo);
}

/* The moves worth trying: not those that waste time, if there are others. */
static int32_t moves_of(struct beam *beam, const struct dt_shop_state *state)
{
    int32_t count = dt_shop_moves(beam->shop, state, beam->moves), kept = 0;

    for (int32_t k = 0; k < count; k++)
        if (!beam->moves[k].wasteful)
            beam->moves[kept++] = beam->moves[k];
    return kept ? kept : count;
}

/* Adds what a state of the present step can become. A move without alternative is worth no node. */
static void continue_state(struct beam *beam, int32_t parent)
{
    const struct kept *kept = &beam->now.kept[parent];
    struct dt_shop_state *state = kept->state;
    int32_t move_count = moves_of(beam, state);

    for (int32_t k = 0; k < move_count; k++) {
        struct candidate *c = &beam->candidates[beam->candidate_count];
        struct dt_shop_undo undo;
        *c = (struct candidate){kept->bound_ns, kept->key, parent, beam->candidate_count, beam->moves[k]};
        if (move_count > 1 && dt_search_nodes_left(beam->search)) {
            dt_shop_place(beam->shop, state, &c->move, &undo);
            int64_t bound_ns = dt_bound_ns(beam->search->bound, state);
            c->bound_ns = bound_ns > c->bound_ns ? bound_ns : c->bound_ns;
            c->key = dt_search_key(beam->search, state, beam->key);
            dt_shop_take_back(beam->shop, state, &c->move, &undo);
            dt_call_node(beam->search->call);
        }
        if (c->bound_ns < beam->search->best_ns)
            beam->candidate_count++;
    }
}

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    if (x->bound_ns != y->bound_ns)
        return x->bound_ns < y->bound_ns ? -1 : 1;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Whether a kept state is as good as the newest one. */
static bool is_superfluous(struct beam *beam, const struct dt_shop_state *state)
{
    if (beam->width == 1)
        return false;
    if (dt_memo_has(&beam->memo, state) && dt_search_nodes_left(beam->search)) {
        dt_bound_ns(beam->search->bound, state);
        dt_call_node(beam->search->call);
        if (dt_memo_dominates(&beam->memo, beam->search->bound, state))
            return true;
    }
    dt_memo_add(&beam->memo, state);
    return false;
}

/* A complete schedule: the moves that led to it, from the last to the first. */
static void finish_state(struct beam *beam, const struct candidate *last, const struct dt_shop_state *state)
{
    int32_t parent = last->parent;

    beam->moves[beam->step] = last->move;
    for (int32_t step = beam->step; step > 0; step--) {
        const struct footprint *print = &beam->trail[step - 1].prints[parent];
        beam->moves[step - 1] = print->move;
        parent = print->parent;
    }
    dt_search_offer(beam->search, dt_shop_makespan_ns(beam->shop, state), beam->moves, beam->step + 1);
}

/*
 * A state for the next step, like one of the present step. The only heir takes the very state: a copy costs
 * as much as all microbatches.
 */
static struct dt_shop_state *take_over(struct beam *beam, int32_t parent)
{
    struct kept *heir = &beam->next.kept[beam->next.count];
    struct dt_shop_state *state = heir->state;

    if (beam->width == 1 || beam->candidate_count == 1) {
        heir->state = beam->now.kept[parent].state;
        beam->now.kept[parent].state = state;
        return heir->state;
    }
    dt_shop_copy(beam->shop, state, beam->now.kept[parent].state);
    return state;
}

/* Makes the next step of the best candidates. */
static enum detour_status keep_best(struct beam *beam)
{
    struct layer *next = &beam->next;
    struct footprint *prints;
    struct dt_shop_undo undo;
    int32_t room = beam->candidate_count < beam->width ? beam->candidate_count : beam->width;

    if (!dt_arena_new(beam->search->call->arena, prints, room))
        return dt_fail_memory(beam->search->call->error);
    qsort(beam->candidates, (size_t)beam->candidate_count, sizeof(*beam->candidates), compare_candidates);
    dt_memo_clear(&beam->memo);
    next->count = 0;
    for (int32_t k = 0; k < beam->candidate_count && next->count < beam->width; k++) {
        const struct candidate *c = &beam->candidates[k];
        struct dt_shop_state *state = take_over(beam, c->parent);
        dt_shop_place(beam->shop, state, &c->move, &undo);
        if (state->placed == beam->shop->op_count) {
            finish_state(beam, c, state);
        } else if (!is_superfluous(beam, state)) {
            next->kept[next->count] = (struct kept){state, c->bound_ns, c->key};
            prints[next->count++] = (struct footprint){c->parent, c->move};
        }
    }
    beam->trail[beam->step++].prints = prints;
    return DETOUR_OK;
}

/*
 * The budget is used up: completes the best state greedily and without bounds, by the earliest start, then
 * by the longest tail.
 */
static void continue_blindly(struct beam *beam)
{
    const struct dt_shop_state *state = beam->now.kept[0].state;
    int64_t *const *tail_ns = beam->search->bound->tail_ns;
    int32_t move_count = moves_of(beam, state);
    struct dt_shop_move best = beam->moves[0];
    int64_t longest_ns = -1;

    for (int32_t k = 0; k < move_count; k++) {
        const struct dt_shop_move *move = &beam->moves[k];
        int kind = move->kind == DETOUR_OP_BW ? DETOUR_OP_B : move->kind;
        int64_t ns = tail_ns[kind][dt_shop_cell(beam->shop, move->stage, state->done[kind][move->stage])];
        if (move->start_ns < best.start_ns || (move->start_ns == best.start_ns && ns > longest_ns)) {
            best = *move;
            longest_ns = ns;
        }
    }
    beam->now.count = 1;
    beam->candidates[0] = (struct candidate){beam->now.kept[0].bound_ns, 0, 0, 0, best};
    beam->candidate_count = move_count > 0;
}

enum detour_status dt_beam(struct dt_search *search, int32_t width, enum dt_search_key key)
{
    struct dt_arena_mark mark = dt_arena_save(search->call->arena);
    struct beam beam = {.search = search, .shop = search->shop, .width = width, .key = key};
    enum detour_status status = allocate(&beam);

    while (!status && beam.now.count) {
        bool blind = !dt_search_nodes_left(search);
        if (blind && search->best_ns != INT64_MAX)
            break;
        beam.candidate_count = 0;
        for (int32_t k = 0; !blind && k < beam.now.count; k++)
            continue_state(&beam, k);
        if (blind)
            continue_blindly(&beam);
        status = keep_best(&beam);
        struct layer last = beam.now;
        beam.now = beam.next;
        beam.next = last;
    }
    dt_arena_rewind(search->call->arena, mark);
    return status;
}

/* The widest beam for which there is memory. */
static uint64_t width_max(const struct dt_shop *shop)
{
    uint64_t bytes = 2 * shop->state_bytes + (uint64_t)shop->moves_max * sizeof(struct candidate) +
                     (uint64_t)shop->op_count * sizeof(struct footprint);

    return BEAM_BYTES_MAX / bytes;
}

enum detour_status dt_beam_widening(struct dt_search *search, uint64_t node_limit)
{
    static const enum dt_search_key keys[] = {DT_KEY_DEVICES, DT_KEY_CHAINS};
    const uint64_t *spent = &search->call->node_count;
    uint64_t nodes_per_width = 1, width = 1;
    enum detour_status status = DETOUR_OK;

    /* Neither key is better than the other for all problems: a width of 1 is tried with both, others in turn.
     */
    for (size_t k = 0; !status && !dt_search_is_closed(search); k++) {
        uint64_t before = *spent;
        uint64_t left = node_limit > before && dt_search_nodes_left(search) ? node_limit - before : 0;
        if (search->best_ns != INT64_MAX &&
            dt_search_nodes_left(search) < (uint64_t)search->shop->op_count / 2)
            break; /* not enough for a whole beam */
        if (width > 1 && (width > left / nodes_per_width * 2 / 3 || width > width_max(search->shop)))
            break;
        status = dt_beam(search, (int32_t)width, keys[k % DT_COUNT_OF(keys)]);
        if (width == 1 && *spent - before > nodes_per_width)
            nodes_per_width = *spent - before;
        width = k == 0 ? 1 : k == 1 ? 4 : 2 * width;
    }
    return status;
}
