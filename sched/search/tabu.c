/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local search: tabu search on the order of each device (Nowicki and Smutnicki, "A fast taboo search
 * algorithm for the job shop problem", 1996; moves and their estimates after Balas and Vazacopoulos, 1998).
 *
 * The makespan, the longest path of the graph (order_graph.h), can only become shorter if some operation of a
 * block of it (a run on one device) moves before the block's first or behind its last. Each step makes the
 * move that promises most, even if it makes things worse, and forbids for a while to take it back.
 *
 * Microbatches stay in order, so memory limits are a matter of the order of the device alone: a move that
 * would break one is not made.
 */
#include <string.h>

#include "base/prng.h"
#include "sched/search/order_graph.h"
#include "sched/search/algorithms.h"

enum { F = DETOUR_OP_F, B = DETOUR_OP_B, BW = DETOUR_OP_BW };

enum {
    REACH_MAX = 8, /* operations that one move passes */
    TENURE = 8,    /* steps for which a move is forbidden to be taken back, and as many more by chance */
    TABU_SLOT_BITS = 12,
    TABU_SLOTS = 1 << TABU_SLOT_BITS,
    NODES_PER_STEP = 2, /* what a step costs, in nodes */
    NODES_MIN = 100,    /* with fewer nodes left, making the graph does not pay */
    PATIENCE = 1000,    /* steps without a new best after which the search goes back to the best */
};

/* A move that is forbidden; another one of the same hash takes its place. */
struct tabu_slot {
    uint64_t arc;
    uint64_t until; /* step */
};

/* Arrays of a graph (order_graph.h). */
struct solution {
    struct dt_order_node *nodes;
    struct dt_order_held *held;
    int32_t *order;
};

struct tabu {
    struct dt_search *search;
    const struct dt_problem *p;
    struct dt_order_graph graph;
    int32_t *path; /* scratch: the critical path from its end */
    struct solution best;
    int64_t best_finish_ns; /* best makespan so far */
    uint64_t step;
    uint64_t best_step;
    struct tabu_slot *slots; /* [TABU_SLOTS], by the hash of the arc */
    struct dt_prng prng;
};

/* ---- moves -------------------------------------------------------------------------------------------- */

/* A longest path, from its end; where there are several, one of them by chance. Returns its length. */
static int32_t find_path(struct tabu *tabu)
{
    const struct dt_order_node *nodes = tabu->graph.nodes;
    int32_t count = 0, last = tabu->graph.node_count - 1;

    while (last > 0 && dt_order_finish_ns(&nodes[tabu->graph.order[last]]) < tabu->graph.finish_ns)
        last--;
    int32_t v = tabu->graph.order[last];
    while (v) {
        const struct dt_order_node *node = &nodes[v];
        bool by_device = node->before && dt_order_finish_ns(&nodes[node->before]) == node->head_ns;
        bool by_input =
            node->input && dt_order_finish_ns(&nodes[node->input]) + node->lag_ns == node->head_ns;
        tabu->path[count++] = v;
        if (by_device && by_input)
            by_device = dt_prng_chance(&tabu->prng, 1, 2);
        v = by_device ? node->before : by_input ? node->input : 0;
    }
    return count;
}

static uint64_t arc_of(int32_t first, int32_t second)
{
    return ((uint64_t)(uint32_t)first << 32) + (uint32_t)second;
}

/* Fibonacci hashing: the upper bits of the product. */
static struct tabu_slot *slot_of(const struct tabu *tabu, uint64_t arc)
{
    return &tabu->slots[(arc * 0x9e3779b97f4a7c15u) >> (64 - TABU_SLOT_BITS)];
}

static bool is_forbidden(const struct tabu *tabu, int32_t first, int32_t second)
{
    uint64_t arc = arc_of(first, second);
    const struct tabu_slot *slot = slot_of(tabu, arc);

    return slot->arc == arc && slot->until > tabu->step;
}

static int chain_of(int kind)
{
    return kind == BW ? B : kind;
}

/* Forbids for a while to take back what the move changes. */
static void forbid(struct tabu *tabu, const struct dt_order_shift *shift)
{
    uint64_t until = tabu->step + TENURE + dt_prng_below(&tabu->prng, TENURE);
    int32_t x = shift->node, v = x;

    for (int32_t k = 0; k < shift->reach; k++) {
        v = dt_order_next(&tabu->graph, shift, v);
        uint64_t arc = shift->forward ? arc_of(x, v) : arc_of(v, x);
        *slot_of(tabu, arc) = (struct tabu_slot){arc, until};
    }
}

/* Whether two operations of a device have an order that no move may change. */
static bool are_tied(const struct tabu *tabu, int32_t u, int32_t v)
{
    const struct dt_order_node *x = &tabu->graph.nodes[u], *y = &tabu->graph.nodes[v];

    if (tabu->graph.held[u].microbatch == tabu->graph.held[v].microbatch &&
        (x->stage == y->stage || x->input == v || y->input == u))
        return true;
    return x->stage == y->stage && chain_of(x->kind) == chain_of(y->kind);
}

/* Whether the operation fits with this much held before it. */
static bool fits(const struct dt_problem *p, const struct dt_order_node *node, int64_t bytes,
                 int32_t inflight)
{
    return (node->kind != F || inflight < p->max_inflight[node->stage]) &&
           dt_memory_taken(p, node->kind, node->stage) <= p->capacity[p->device[node->stage]] - bytes;
}

/* Whether memory allows that x passes the operations from `u` on, towards the beginning or the end. */
static bool memory_allows(const struct tabu *tabu, const struct dt_order_shift *shift)
{
    const struct dt_problem *p = tabu->p;
    const struct dt_order_node *x = &tabu->graph.nodes[shift->node];
    int64_t x_bytes = dt_order_net_bytes(p, x);
    int32_t x_change = dt_memory_inflight_change(p, x->kind);
    struct dt_order_held ahead = tabu->graph.held[shift->node];
    int32_t v = shift->node;

    for (int32_t k = 0; k < shift->reach; k++) {
        v = dt_order_next(&tabu->graph, shift, v);
        const struct dt_order_node *y = &tabu->graph.nodes[v];
        int32_t inflight = tabu->graph.held[v].inflight, y_change = dt_memory_inflight_change(p, y->kind);
        int sign = shift->forward ? -1 : 1;
        if (!fits(p, y, tabu->graph.held[v].bytes + sign * x_bytes,
                  y->stage == x->stage ? inflight + sign * x_change : inflight))
            return false;
        ahead.bytes -= sign * dt_order_net_bytes(p, y);
        ahead.inflight -= y->stage == x->stage ? sign * y_change : 0;
    }
    return fits(p, x, ahead.bytes, ahead.inflight);
}

/* The makespan that a move promises: the longest path through those that change places. */
static int64_t estimate_ns(const struct tabu *tabu, const struct dt_order_shift *shift)
{
    const struct dt_order_node *nodes = tabu->graph.nodes;
    const struct dt_order_node *changed[REACH_MAX + 1]; /* in their new order */
    int64_t head_ns[REACH_MAX + 1], longest_ns = 0;
    int32_t count = shift->reach + 1, v = shift->node;

    for (int32_t k = 0; k < shift->reach; k++) {
        v = dt_order_next(&tabu->graph, shift, v);
        changed[shift->forward ? k : shift->reach - k] = &nodes[v];
    }
    changed[shift->forward ? shift->reach : 0] = &nodes[shift->node];
    int64_t now_ns = dt_order_finish_ns(&nodes[shift->forward ? nodes[shift->node].before : nodes[v].before]);
    const struct dt_order_node *behind = &nodes[shift->forward ? nodes[v].behind : nodes[shift->node].behind];
    int64_t tail_ns = behind->tail_ns + behind->duration_ns;
    for (int32_t k = 0; k < count; k++) {
        head_ns[k] = dt_later_ns(dt_order_arrival_ns(&tabu->graph, changed[k]), now_ns);
        now_ns = head_ns[k] + changed[k]->duration_ns;
    }
    for (int32_t k = count - 1; k >= 0; k--) {
        tail_ns = dt_later_ns(dt_order_output_tail_ns(&tabu->graph, changed[k]), tail_ns);
        longest_ns = dt_later_ns(longest_ns, head_ns[k] + changed[k]->duration_ns + tail_ns);
        tail_ns += changed[k]->duration_ns;
    }
    return longest_ns;
}

/*
 * Takes the move over if it is better than the best so far. It is possible if no path leads from those that
 * are passed to x by way of its message, or from x to them; heads and tails tell.
 */
static void consider(struct tabu *tabu, const int32_t *passed, struct dt_order_shift shift,
                     struct dt_order_shift *best)
{
    const struct dt_order_node *nodes = tabu->graph.nodes, *x = &nodes[shift.node];
    bool forbidden = false;

    for (int32_t k = 0; k < shift.reach; k++) {
        if (are_tied(tabu, shift.node, passed[k]))
            return;
        forbidden = forbidden || (shift.forward ? is_forbidden(tabu, passed[k], shift.node)
                                                : is_forbidden(tabu, shift.node, passed[k]));
    }
    const struct dt_order_node *last = &nodes[shift.forward ? passed[0] : passed[shift.reach - 1]];
    if (shift.forward ? x->output && nodes[x->output].tail_ns >= last->tail_ns + last->duration_ns
                      : x->input && nodes[x->input].head_ns >= dt_order_finish_ns(last))
        return;
    if (tabu->p->limited && !memory_allows(tabu, &shift))
        return;
    shift.estimate_ns = estimate_ns(tabu, &shift);
    if (shift.estimate_ns < best->estimate_ns && (!forbidden || shift.estimate_ns < tabu->best_finish_ns))
        *best = shift;
}

/* Moves within a block, path[0..count), which is listed from its end. */
static void consider_block(struct tabu *tabu, const int32_t *block, int32_t count, bool first, bool last,
                           struct dt_order_shift *best)
{
    int32_t reach_max = count - 1 < REACH_MAX ? count - 1 : REACH_MAX;

    for (int32_t reach = 1; reach <= reach_max; reach++) {
        if (!last)
            consider(tabu, block, (struct dt_order_shift){block[reach], reach, true, 0}, best);
        if (!first && (last || count > 2 || reach > 1))
            consider(tabu, block + count - reach,
                     (struct dt_order_shift){block[count - 1 - reach], reach, false, 0}, best);
    }
}

static struct dt_order_shift find_shift(struct tabu *tabu)
{
    const struct dt_order_node *nodes = tabu->graph.nodes;
    struct dt_order_shift best = {.estimate_ns = INT64_MAX};
    int32_t count = find_path(tabu);

    for (int32_t begin = 0, end; begin < count; begin = end) {
        const int32_t *block = &tabu->path[begin];
        for (end = begin + 1; end < count && tabu->path[end] == nodes[tabu->path[end - 1]].before; end++)
            ;
        if (nodes[*block].kind != DT_ORDER_MESSAGE && end - begin > 1)
            consider_block(tabu, block, end - begin, end == count, begin == 0, &best);
    }
    return best;
}

/* ---- the search --------------------------------------------------------------------------------------- */

static void copy_solution(const struct tabu *tabu, struct solution *to, const struct solution *from)
{
    size_t count = (size_t)tabu->graph.node_count;

    memcpy(to->nodes, from->nodes, count * sizeof(*to->nodes));
    memcpy(to->held, from->held, count * sizeof(*to->held));
    memcpy(to->order, from->order, count * sizeof(*to->order));
}

static struct solution present(const struct tabu *tabu)
{
    return (struct solution){tabu->graph.nodes, tabu->graph.held, tabu->graph.order};
}

static void keep_best(struct tabu *tabu)
{
    struct solution now = present(tabu);

    tabu->best_finish_ns = tabu->graph.finish_ns;
    tabu->best_step = tabu->step;
    copy_solution(tabu, &tabu->best, &now);
}

static void go_back(struct tabu *tabu)
{
    struct solution now = present(tabu);

    tabu->graph.finish_ns = tabu->best_finish_ns;
    tabu->best_step = tabu->step;
    copy_solution(tabu, &now, &tabu->best);
}

static void offer_best(struct tabu *tabu, struct dt_shop_move *moves)
{
    int32_t count = 0;

    for (int32_t k = 1; k < tabu->graph.node_count; k++) {
        const struct dt_order_node *node = &tabu->best.nodes[tabu->best.order[k]];
        if (node->kind != DT_ORDER_MESSAGE)
            moves[count++] = (struct dt_shop_move){
                .start_ns = node->head_ns, .stage = node->stage, .kind = (uint8_t)node->kind};
    }
    dt_search_offer(tabu->search, tabu->best_finish_ns - tabu->search->shop->origin_ns, moves, count);
}

static bool allocate(struct tabu *tabu)
{
    struct detour_arena *arena = tabu->search->call->arena;
    size_t room = dt_order_room(tabu->search);

    return dt_arena_new(arena, tabu->path, room) && dt_arena_new(arena, tabu->best.nodes, room) &&
           dt_arena_new(arena, tabu->best.held, room) && dt_arena_new(arena, tabu->best.order, room) &&
           dt_arena_new(arena, tabu->slots, TABU_SLOTS);
}

static bool is_worth_it(const struct dt_search *search, uint64_t node_limit)
{
    uint64_t spent = search->call->node_count;

    return dt_search_nodes_left(search) >= NODES_MIN && node_limit >= spent + NODES_MIN;
}

enum detour_status dt_tabu(struct dt_search *search, uint64_t node_limit)
{
    struct dt_call *call = search->call;
    struct dt_arena_mark mark = dt_arena_save(call->arena);
    struct tabu tabu = {.search = search, .p = search->shop->p};
    int64_t floor_ns = search->lower_ns + search->shop->origin_ns;
    struct dt_shop_move *moves;

    if (!search->best_count || dt_search_is_closed(search) || !is_worth_it(search, node_limit))
        return DETOUR_OK;
    dt_prng_init(&tabu.prng, 1);
    if (!dt_order_make(&tabu.graph, search) || !allocate(&tabu) ||
        !dt_arena_new(call->arena, moves, search->best_count))
        return dt_fail_memory(call->error);
    keep_best(&tabu);
    while (tabu.best_finish_ns > floor_ns && call->node_count + NODES_PER_STEP <= node_limit &&
           dt_search_nodes_left(search) >= NODES_PER_STEP) {
        struct dt_order_shift shift = find_shift(&tabu);
        tabu.step++;
        for (int k = 0; k < NODES_PER_STEP; k++)
            dt_call_node(call);
        if (shift.estimate_ns < INT64_MAX) {
            forbid(&tabu, &shift);
            dt_order_apply(&tabu.graph, &shift);
        }
        if (tabu.graph.finish_ns < tabu.best_finish_ns)
            keep_best(&tabu);
        else if (tabu.step - tabu.best_step >= PATIENCE)
            go_back(&tabu);
    }
    offer_best(&tabu, moves);
    dt_arena_rewind(call->arena, mark);
    return DETOUR_OK;
}
