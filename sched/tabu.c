/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local search: tabu search on the order of each device (Nowicki and Smutnicki, "A fast taboo search
 * algorithm for the job shop problem", 1996; moves and their estimates after Balas and Vazacopoulos, 1998).
 *
 * In a graph of operations an arc leads to the next one of the device and to the receiver of the message. The
 * makespan is the longest path; it can only become shorter if some operation of a block of it (a run on one
 * device) moves ahead of the block's first or behind its last. Each step makes the move that promises most,
 * even if it makes things worse, and forbids for a while to take it back.
 *
 * Microbatches stay in order, so memory limits are a matter of the order of the device alone: a move that
 * would break one is not made. Messages of links with a serialisation time are nodes of their own.
 */
#include <string.h>

#include "base/prng.h"
#include "sched/search.h"

enum { F = DETOUR_OP_F, B = DETOUR_OP_B, W = DETOUR_OP_W, BW = DETOUR_OP_BW };

enum {
    REACH_MAX = 8, /* operations that one move passes */
    TENURE = 8,    /* steps for which a move is forbidden to be taken back, and as many more by chance */
    TABU_SLOTS = 1 << 12,
    NODES_PER_STEP = 2, /* what a step costs, in nodes */
    NODES_MIN = 100,    /* with less it is not worth making the graph */
    PATIENCE = 1000,    /* steps without a new best after which the search goes back to the best */
    MESSAGE = -1,       /* kind of a node that is no operation */
};

/* An operation or message. Node 0 stands for none: it takes no time and is nowhere. */
struct node {
    int64_t floor_ns; /* not before, whatever the order */
    int64_t duration_ns;
    int64_t lag_ns; /* from the finish of `input` to the arrival of its message */
    int64_t head_ns;
    int64_t tail_ns;
    int32_t before; /* on the device or link */
    int32_t behind;
    int32_t input; /* whose message it waits for */
    int32_t output;
    int32_t place; /* in tabu->order */
    int16_t stage;
    int8_t kind;
    bool marked;
};

/* What is held ahead of an operation. */
struct held {
    int64_t bytes;    /* on the device */
    int32_t inflight; /* of the stage */
    int32_t microbatch;
};

/* An operation of the critical path passes `reach` neighbours. */
struct shift {
    int32_t node;
    int32_t reach;
    bool forward; /* towards the end */
    int64_t estimate_ns;
};

struct tabu_slot {
    uint64_t arc;
    uint64_t until; /* step */
};

struct tabu {
    struct dt_search *search;
    const struct dt_problem *p;
    struct node *nodes; /* [node_count], 0 is none */
    struct held *held;  /* [node_count] */
    int32_t *order;     /* [node_count]: every node behind those it waits for; order[0] is 0 */
    int32_t *window;    /* scratch */
    int32_t *path;      /* scratch: the critical path from its end */
    struct node *best_nodes;
    struct held *best_held;
    int32_t *best_order;
    int32_t node_count;
    int64_t least_finish_ns; /* of what has been done already */
    int64_t finish_ns;       /* of all */
    int64_t best_finish_ns;  /* seen so far */
    uint64_t step;
    uint64_t best_step;
    struct tabu_slot *slots;
    struct dt_prng prng;
};

static inline int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- the graph ---------------------------------------------------------------------------------------- */

/* What making the graph needs to know of each device, stage and link: the last node, 0 if none. */
struct maker {
    struct tabu *tabu;
    struct dt_memory memory;
    int32_t *last;       /* [device] */
    int32_t *last_f;     /* [stage]: message on the link behind */
    int32_t *last_b;     /* [stage]: message on the link ahead */
    int32_t *producer_f; /* [cell]: whose message an F waits for */
    int32_t *producer_b; /* [cell] */
    int32_t *next[3];    /* [kind][stage]: microbatch */
    bool *fused;         /* [cell]: has no W of its own */
};

static int32_t add_node(struct tabu *tabu, const struct node *node)
{
    int32_t v = tabu->node_count++;

    tabu->nodes[v] = *node;
    tabu->nodes[v].place = v;
    tabu->order[v] = v;
    if (node->before)
        tabu->nodes[node->before].behind = v;
    if (node->input)
        tabu->nodes[node->input].output = v;
    return v;
}

/* The node whose end is the arrival of a message less its latency: the sender, or the message itself. */
static int32_t add_message(struct maker *maker, int32_t sender, int32_t *last, int64_t busy_ns,
                           int64_t serial_ns)
{
    if (!serial_ns)
        return sender;
    const struct node message = {.floor_ns = busy_ns,
                                 .duration_ns = serial_ns,
                                 .before = *last,
                                 .input = sender,
                                 .stage = -1,
                                 .kind = MESSAGE};
    return *last = add_node(maker->tabu, &message);
}

/* The stage's next microbatch of a kind. */
static int32_t take_microbatch(struct maker *maker, int kind, int32_t stage)
{
    const struct dt_shop *shop = maker->tabu->search->shop;
    int32_t *next = &maker->next[kind == BW ? B : kind][stage];

    if (kind == BW)
        maker->fused[dt_shop_cell(shop, stage, *next)] = true;
    while (kind == W && maker->fused[dt_shop_cell(shop, stage, *next)])
        ++*next;
    return (*next)++;
}

static void add_operation(struct maker *maker, const struct dt_shop_move *move)
{
    struct tabu *tabu = maker->tabu;
    const struct dt_problem *p = tabu->p;
    const struct dt_timeline *start = tabu->search->start;
    int32_t i = move->stage, kind = move->kind, device = p->device[i];
    int32_t j = take_microbatch(maker, kind, i);
    size_t cell = dt_shop_cell(tabu->search->shop, i, j), cells = (size_t)p->microbatch_count;
    struct node node = {.floor_ns = later(start->now_ns, start->free_ns[device]),
                        .duration_ns = p->duration_ns[kind][i],
                        .before = maker->last[device],
                        .stage = (int16_t)i,
                        .kind = (int8_t)kind};

    if (kind != W) {
        const int32_t *producer = kind == F ? maker->producer_f : maker->producer_b;
        int64_t there_ns = start->input_ns[dt_op_index(p, (enum detour_op_kind)kind, i, j)];
        node.input = producer[cell];
        if (!node.input)
            node.floor_ns = later(node.floor_ns, there_ns);
        else if (kind == F)
            node.lag_ns = p->forward_ns[i - 1];
        else if (i + 1 < p->stage_count)
            node.lag_ns = p->backward_ns[i];
    }
    int32_t v = add_node(tabu, &node);
    maker->last[device] = v;
    tabu->held[v] = (struct held){maker->memory.bytes[device], maker->memory.inflight[i], j};
    dt_memory_apply(&maker->memory, kind, i);
    if (kind == F && i + 1 < p->stage_count)
        maker->producer_f[cell + cells] =
            add_message(maker, v, &maker->last_f[i], start->forward_busy_ns[i], p->forward_serial_ns[i]);
    else if (kind == F)
        maker->producer_b[cell] = v;
    else if (kind != W && i > 0)
        maker->producer_b[cell - cells] = add_message(maker, v, &maker->last_b[i], start->backward_busy_ns[i],
                                                      p->backward_serial_ns[i - 1]);
}

static bool make_graph(struct tabu *tabu)
{
    struct dt_call *call = tabu->search->call;
    struct detour_arena *arena = call->arena;
    const struct dt_timeline *start = tabu->search->start;
    const struct dt_problem *p = tabu->p;
    size_t stages = (size_t)p->stage_count, cells = dt_cell_count(p);
    struct maker maker = {.tabu = tabu};

    if (dt_memory_init(call, p, &maker.memory) || !dt_arena_new(arena, maker.last, p->device_count) ||
        !dt_arena_new(arena, maker.last_f, stages) || !dt_arena_new(arena, maker.last_b, stages) ||
        !dt_arena_new(arena, maker.producer_f, cells) || !dt_arena_new(arena, maker.producer_b, cells) ||
        !dt_arena_new(arena, maker.fused, cells))
        return false;
    memcpy(maker.fused, start->fused, cells * sizeof(*maker.fused));
    memcpy(maker.memory.bytes, start->memory.bytes, (size_t)p->device_count * sizeof(*maker.memory.bytes));
    memcpy(maker.memory.inflight, start->memory.inflight, stages * sizeof(*maker.memory.inflight));
    for (int kind = F; kind <= W; kind++) {
        if (!dt_arena_new(arena, maker.next[kind], stages))
            return false;
        memcpy(maker.next[kind], start->done[kind], stages * sizeof(*maker.next[kind]));
    }
    tabu->node_count = 1;
    for (int32_t d = 0; d < p->device_count; d++)
        tabu->least_finish_ns = later(tabu->least_finish_ns, start->free_ns[d]);
    for (int32_t k = 0; k < tabu->search->best_count; k++)
        add_operation(&maker, &tabu->search->best[k]);
    return true;
}

/* ---- longest paths ------------------------------------------------------------------------------------ */

static inline int64_t arrival_ns(const struct tabu *tabu, const struct node *node)
{
    const struct node *input = &tabu->nodes[node->input];

    return later(node->floor_ns, input->head_ns + input->duration_ns + node->lag_ns);
}

/* From the finish of a node to the end, by way of its message. */
static inline int64_t output_tail_ns(const struct tabu *tabu, const struct node *node)
{
    const struct node *output = &tabu->nodes[node->output];

    return output->tail_ns + output->duration_ns + output->lag_ns;
}

static inline int64_t finish_ns(const struct node *node)
{
    return node->head_ns + node->duration_ns;
}

/* Heads from a place in the order on, tails from a place back to the begin. */
static void measure(struct tabu *tabu, int32_t heads_from, int32_t tails_from)
{
    struct node *nodes = tabu->nodes;

    for (int32_t k = heads_from; k < tabu->node_count; k++) {
        struct node *node = &nodes[tabu->order[k]];
        node->head_ns = later(arrival_ns(tabu, node), finish_ns(&nodes[node->before]));
    }
    for (int32_t k = tails_from; k > 0; k--) {
        struct node *node = &nodes[tabu->order[k]];
        const struct node *behind = &nodes[node->behind];
        node->tail_ns = later(output_tail_ns(tabu, node), behind->tail_ns + behind->duration_ns);
    }
    tabu->finish_ns = tabu->least_finish_ns;
    for (int32_t k = tabu->node_count - 1; k > 0; k--)
        tabu->finish_ns = later(tabu->finish_ns, finish_ns(&nodes[tabu->order[k]]));
}

/* A longest path, from its end; where there are several, one of them by chance. Returns its length. */
static int32_t find_path(struct tabu *tabu)
{
    const struct node *nodes = tabu->nodes;
    int32_t count = 0, last = tabu->node_count - 1;

    while (last > 0 && finish_ns(&nodes[tabu->order[last]]) < tabu->finish_ns)
        last--;
    int32_t v = tabu->order[last];
    while (v) {
        const struct node *node = &nodes[v];
        bool by_device = node->before && finish_ns(&nodes[node->before]) == node->head_ns;
        bool by_input = node->input && finish_ns(&nodes[node->input]) + node->lag_ns == node->head_ns;
        tabu->path[count++] = v;
        if (by_device && by_input)
            by_device = dt_prng_chance(&tabu->prng, 1, 2);
        v = by_device ? node->before : by_input ? node->input : 0;
    }
    return count;
}

/* ---- moves -------------------------------------------------------------------------------------------- */

static uint64_t arc_of(int32_t first, int32_t second)
{
    return ((uint64_t)(uint32_t)first << 32) + (uint32_t)second;
}

static struct tabu_slot *slot_of(const struct tabu *tabu, uint64_t arc)
{
    return &tabu->slots[(arc * 0x9e3779b97f4a7c15u) >> 52];
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

/* Whether two operations of a device have an order that no move may change. */
static bool are_tied(const struct tabu *tabu, int32_t u, int32_t v)
{
    const struct node *x = &tabu->nodes[u], *y = &tabu->nodes[v];

    if (tabu->held[u].microbatch == tabu->held[v].microbatch &&
        (x->stage == y->stage || x->input == v || y->input == u))
        return true;
    return x->stage == y->stage && chain_of(x->kind) == chain_of(y->kind);
}

static int64_t net_bytes(const struct dt_problem *p, const struct node *node)
{
    return dt_memory_taken(p, node->kind, node->stage) - dt_memory_freed(p, node->kind, node->stage);
}

/* Whether the operation fits with so much held ahead of it. */
static bool fits(const struct dt_problem *p, const struct node *node, int64_t bytes, int32_t inflight)
{
    return (node->kind != F || inflight < p->max_inflight[node->stage]) &&
           dt_memory_taken(p, node->kind, node->stage) <= p->capacity[p->device[node->stage]] - bytes;
}

/* Whether memory allows that x passes the operations from `u` on, towards the begin or the end. */
static bool memory_allows(const struct tabu *tabu, const struct shift *shift)
{
    const struct dt_problem *p = tabu->p;
    const struct node *x = &tabu->nodes[shift->node];
    int64_t x_bytes = net_bytes(p, x);
    int32_t x_change = dt_memory_inflight_change(p, x->kind);
    struct held ahead = tabu->held[shift->node];
    int32_t v = shift->node;

    for (int32_t k = 0; k < shift->reach; k++) {
        v = shift->forward ? tabu->nodes[v].behind : tabu->nodes[v].before;
        const struct node *y = &tabu->nodes[v];
        int32_t inflight = tabu->held[v].inflight, y_change = dt_memory_inflight_change(p, y->kind);
        int sign = shift->forward ? -1 : 1;
        if (!fits(p, y, tabu->held[v].bytes + sign * x_bytes,
                  y->stage == x->stage ? inflight + sign * x_change : inflight))
            return false;
        ahead.bytes -= sign * net_bytes(p, y);
        ahead.inflight -= y->stage == x->stage ? sign * y_change : 0;
    }
    return fits(p, x, ahead.bytes, ahead.inflight);
}

/* The makespan that a move promises: the longest path through those that change places. */
static int64_t estimate_ns(const struct tabu *tabu, const struct shift *shift)
{
    const struct node *nodes = tabu->nodes;
    const struct node *changed[REACH_MAX + 1]; /* in their new order */
    int64_t head_ns[REACH_MAX + 1], longest_ns = 0;
    int32_t count = shift->reach + 1, v = shift->node;

    for (int32_t k = 0; k < shift->reach; k++) {
        v = shift->forward ? nodes[v].behind : nodes[v].before;
        changed[shift->forward ? k : shift->reach - k] = &nodes[v];
    }
    changed[shift->forward ? shift->reach : 0] = &nodes[shift->node];
    int64_t now_ns = finish_ns(&nodes[shift->forward ? nodes[shift->node].before : nodes[v].before]);
    const struct node *behind = &nodes[shift->forward ? nodes[v].behind : nodes[shift->node].behind];
    int64_t tail_ns = behind->tail_ns + behind->duration_ns;
    for (int32_t k = 0; k < count; k++) {
        head_ns[k] = later(arrival_ns(tabu, changed[k]), now_ns);
        now_ns = head_ns[k] + changed[k]->duration_ns;
    }
    for (int32_t k = count - 1; k >= 0; k--) {
        tail_ns = later(output_tail_ns(tabu, changed[k]), tail_ns);
        longest_ns = later(longest_ns, head_ns[k] + changed[k]->duration_ns + tail_ns);
        tail_ns += changed[k]->duration_ns;
    }
    return longest_ns;
}

/*
 * Takes the move over if it is better than the best so far. It is possible if no path leads from those that
 * are passed to x by way of its message, or from x to them; heads and tails tell.
 */
static void consider(struct tabu *tabu, const int32_t *passed, struct shift shift, struct shift *best)
{
    const struct node *nodes = tabu->nodes, *x = &nodes[shift.node];
    bool forbidden = false;

    for (int32_t k = 0; k < shift.reach; k++) {
        if (are_tied(tabu, shift.node, passed[k]))
            return;
        forbidden = forbidden || (shift.forward ? is_forbidden(tabu, passed[k], shift.node)
                                                : is_forbidden(tabu, shift.node, passed[k]));
    }
    const struct node *last = &nodes[shift.forward ? passed[0] : passed[shift.reach - 1]];
    if (shift.forward ? x->output && nodes[x->output].tail_ns >= last->tail_ns + last->duration_ns
                      : x->input && nodes[x->input].head_ns >= finish_ns(last))
        return;
    if (tabu->p->limited && !memory_allows(tabu, &shift))
        return;
    shift.estimate_ns = estimate_ns(tabu, &shift);
    if (shift.estimate_ns < best->estimate_ns && (!forbidden || shift.estimate_ns < tabu->best_finish_ns))
        *best = shift;
}

/* Moves within a block, path[0..count), which is listed from its end. */
static void consider_block(struct tabu *tabu, const int32_t *block, int32_t count, bool first, bool last,
                           struct shift *best)
{
    int32_t reach_max = count - 1 < REACH_MAX ? count - 1 : REACH_MAX;

    for (int32_t reach = 1; reach <= reach_max; reach++) {
        if (!last)
            consider(tabu, block, (struct shift){block[reach], reach, true, 0}, best);
        if (!first && (last || count > 2 || reach > 1))
            consider(tabu, block + count - reach, (struct shift){block[count - 1 - reach], reach, false, 0},
                     best);
    }
}

static struct shift find_shift(struct tabu *tabu)
{
    const struct node *nodes = tabu->nodes;
    struct shift best = {.estimate_ns = INT64_MAX};
    int32_t count = find_path(tabu);

    for (int32_t begin = 0, end; begin < count; begin = end) {
        const int32_t *block = &tabu->path[begin];
        for (end = begin + 1; end < count && tabu->path[end] == nodes[tabu->path[end - 1]].before; end++)
            ;
        if (nodes[*block].kind != MESSAGE && end - begin > 1)
            consider_block(tabu, block, end - begin, end == count, begin == 0, &best);
    }
    return best;
}

/* ---- making a move ------------------------------------------------------------------------------------ */

static void link(struct tabu *tabu, int32_t first, int32_t second)
{
    tabu->nodes[first].behind = first ? second : 0;
    tabu->nodes[second].before = second ? first : 0;
}

/* Brings memory up to date for `count` operations from v on. */
static void hold(struct tabu *tabu, int32_t v, int32_t count, int64_t bytes, int32_t inflight, int32_t stage)
{
    for (; count > 0; count--, v = tabu->nodes[v].behind) {
        const struct node *node = &tabu->nodes[v];
        tabu->held[v].bytes = bytes;
        bytes += net_bytes(tabu->p, node);
        if (node->stage == stage) {
            tabu->held[v].inflight = inflight;
            inflight += dt_memory_inflight_change(tabu->p, node->kind);
        }
    }
}

/*
 * Puts x behind all that must be ahead of it in the order (or the other way round), within the window between
 * its place and that of the operation furthest away that it has passed.
 */
static void reorder(struct tabu *tabu, int32_t x, int32_t far, bool forward)
{
    struct node *nodes = tabu->nodes;
    int32_t *order = tabu->order, count = 0;
    int32_t from = nodes[forward ? x : far].place, to = nodes[forward ? far : x].place, at;

    nodes[x].marked = true;
    if (forward) {
        for (int32_t k = from + 1; k <= to; k++) {
            struct node *node = &nodes[order[k]];
            node->marked = nodes[node->before].marked || nodes[node->input].marked;
        }
    } else {
        for (int32_t k = to - 1; k >= from; k--) {
            struct node *node = &nodes[order[k]];
            node->marked = nodes[node->behind].marked || nodes[node->output].marked;
        }
    }
    at = from;
    if (forward) { /* what is not marked, x, what is */
        for (int32_t k = from; k <= to; k++) {
            if (nodes[order[k]].marked)
                tabu->window[count++] = order[k];
            else
                order[at++] = order[k];
        }
        memcpy(&order[at], tabu->window, (size_t)count * sizeof(*order));
    } else { /* what is marked, x as the last of it, what is not */
        for (int32_t k = from; k <= to; k++) {
            if (!nodes[order[k]].marked)
                tabu->window[count++] = order[k];
            else
                order[at++] = order[k];
        }
        memcpy(&order[at], tabu->window, (size_t)count * sizeof(*order));
    }
    for (int32_t k = from; k <= to; k++) {
        nodes[order[k]].place = k;
        nodes[order[k]].marked = false;
    }
    measure(tabu, from, to);
}

static void make_shift(struct tabu *tabu, const struct shift *shift)
{
    struct node *nodes = tabu->nodes;
    int32_t x = shift->node, v = x, stage = nodes[x].stage;
    uint64_t until = tabu->step + TENURE + dt_prng_below(&tabu->prng, TENURE);
    int64_t bytes;
    int32_t inflight;

    for (int32_t k = 0; k < shift->reach; k++) {
        v = shift->forward ? nodes[v].behind : nodes[v].before;
        uint64_t arc = shift->forward ? arc_of(x, v) : arc_of(v, x);
        *slot_of(tabu, arc) = (struct tabu_slot){arc, until};
    }
    /* What is held ahead of the first that moves, for its device and for the stage of x. */
    bytes = tabu->held[shift->forward ? x : v].bytes;
    inflight = tabu->held[x].inflight;
    if (!shift->forward)
        for (int32_t u = nodes[x].before;; u = nodes[u].before) {
            if (nodes[u].stage == stage)
                inflight -= dt_memory_inflight_change(tabu->p, nodes[u].kind);
            if (u == v)
                break;
        }
    int32_t first = shift->forward ? nodes[x].behind : x;
    link(tabu, nodes[x].before, nodes[x].behind);
    if (shift->forward) {
        int32_t behind = nodes[v].behind;
        link(tabu, v, x);
        link(tabu, x, behind);
    } else {
        int32_t before = nodes[v].before;
        link(tabu, before, x);
        link(tabu, x, v);
    }
    hold(tabu, first, shift->reach + 1, bytes, inflight, stage);
    reorder(tabu, x, v, shift->forward);
}

/* ---- the search --------------------------------------------------------------------------------------- */

static void copy_solution(const struct tabu *tabu, struct node *nodes, struct held *held, int32_t *order,
                          const struct node *from_nodes, const struct held *from_held,
                          const int32_t *from_order)
{
    size_t count = (size_t)tabu->node_count;

    memcpy(nodes, from_nodes, count * sizeof(*nodes));
    memcpy(held, from_held, count * sizeof(*held));
    memcpy(order, from_order, count * sizeof(*order));
}

static void keep_best(struct tabu *tabu)
{
    tabu->best_finish_ns = tabu->finish_ns;
    tabu->best_step = tabu->step;
    copy_solution(tabu, tabu->best_nodes, tabu->best_held, tabu->best_order, tabu->nodes, tabu->held,
                  tabu->order);
}

static void go_back(struct tabu *tabu)
{
    tabu->finish_ns = tabu->best_finish_ns;
    tabu->best_step = tabu->step;
    copy_solution(tabu, tabu->nodes, tabu->held, tabu->order, tabu->best_nodes, tabu->best_held,
                  tabu->best_order);
}

static void offer_best(struct tabu *tabu, struct dt_shop_move *moves)
{
    int32_t count = 0;

    for (int32_t k = 1; k < tabu->node_count; k++) {
        const struct node *node = &tabu->best_nodes[tabu->best_order[k]];
        if (node->kind != MESSAGE)
            moves[count++] = (struct dt_shop_move){
                .start_ns = node->head_ns, .stage = node->stage, .kind = (uint8_t)node->kind};
    }
    dt_search_offer(tabu->search, tabu->best_finish_ns - tabu->search->shop->origin_ns, moves, count);
}

static bool allocate(struct tabu *tabu)
{
    struct detour_arena *arena = tabu->search->call->arena;
    size_t room = 2 * (size_t)tabu->search->best_count + 1;

    return dt_arena_new(arena, tabu->nodes, room) && dt_arena_new(arena, tabu->held, room) &&
           dt_arena_new(arena, tabu->order, room) && dt_arena_new(arena, tabu->window, room) &&
           dt_arena_new(arena, tabu->path, room) && dt_arena_new(arena, tabu->best_nodes, room) &&
           dt_arena_new(arena, tabu->best_held, room) && dt_arena_new(arena, tabu->best_order, room) &&
           dt_arena_new(arena, tabu->slots, TABU_SLOTS) && make_graph(tabu);
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
    if (!allocate(&tabu) || !dt_arena_new(call->arena, moves, search->best_count))
        return dt_fail_memory(call->error);
    measure(&tabu, 1, tabu.node_count - 1);
    keep_best(&tabu);
    while (tabu.best_finish_ns > floor_ns && call->node_count + NODES_PER_STEP <= node_limit &&
           dt_search_nodes_left(search) >= NODES_PER_STEP) {
        struct shift shift = find_shift(&tabu);
        tabu.step++;
        for (int k = 0; k < NODES_PER_STEP; k++)
            dt_call_node(call);
        if (shift.estimate_ns < INT64_MAX)
            make_shift(&tabu, &shift);
        if (tabu.finish_ns < tabu.best_finish_ns)
            keep_best(&tabu);
        else if (tabu.step - tabu.best_step >= PATIENCE)
            go_back(&tabu);
    }
    offer_best(&tabu, moves);
    dt_arena_rewind(call->arena, mark);
    return DETOUR_OK;
}
