/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/search/order_graph.h"

#include <string.h>

enum { F = DETOUR_OP_F, B = DETOUR_OP_B, W = DETOUR_OP_W, BW = DETOUR_OP_BW };

/* ---- longest paths ------------------------------------------------------------------------------------ */

/* Heads from a place in the order on, tails from a place back to the beginning. */
static void measure(struct dt_order_graph *g, int32_t heads_from, int32_t tails_from)
{
    struct dt_order_node *nodes = g->nodes;

    for (int32_t k = heads_from; k < g->node_count; k++) {
        struct dt_order_node *node = &nodes[g->order[k]];
        node->head_ns = dt_later_ns(dt_order_arrival_ns(g, node), dt_order_finish_ns(&nodes[node->before]));
    }
    for (int32_t k = tails_from; k > 0; k--) {
        struct dt_order_node *node = &nodes[g->order[k]];
        const struct dt_order_node *behind = &nodes[node->behind];
        node->tail_ns = dt_later_ns(dt_order_output_tail_ns(g, node), behind->tail_ns + behind->duration_ns);
    }
    g->finish_ns = g->least_finish_ns;
    for (int32_t k = g->node_count - 1; k > 0; k--)
        g->finish_ns = dt_later_ns(g->finish_ns, dt_order_finish_ns(&nodes[g->order[k]]));
}

/* ---- making the graph --------------------------------------------------------------------------------- */

/* What making the graph needs to know of each device, stage and link: the last node, 0 if none. */
struct maker {
    struct dt_order_graph *graph;
    const struct dt_search *search;
    struct dt_memory memory;
    int32_t *last;       /* [device] */
    int32_t *last_f;     /* [stage]: message on the link after */
    int32_t *last_b;     /* [stage]: message on the link before */
    int32_t *producer_f; /* [cell]: whose message an F waits for */
    int32_t *producer_b; /* [cell] */
    int32_t *next[3];    /* [kind][stage]: microbatch */
    bool *fused;         /* [cell]: has no W of its own */
};

static int32_t add_node(struct dt_order_graph *g, const struct dt_order_node *node)
{
    int32_t v = g->node_count++;

    g->nodes[v] = *node;
    g->nodes[v].place = v;
    g->order[v] = v;
    if (node->before)
        g->nodes[node->before].behind = v;
    if (node->input)
        g->nodes[node->input].output = v;
    return v;
}

/* The node whose end is the arrival of a message less its latency: the sender, or the message itself. */
static int32_t add_message(struct maker *maker, int32_t sender, int32_t *last, int64_t busy_ns,
                           int64_t serial_ns)
{
    if (!serial_ns)
        return sender;
    const struct dt_order_node message = {.floor_ns = busy_ns,
                                          .duration_ns = serial_ns,
                                          .before = *last,
                                          .input = sender,
                                          .stage = -1,
                                          .kind = DT_ORDER_MESSAGE};
    return *last = add_node(maker->graph, &message);
}

/* The stage's next microbatch of a kind. */
static int32_t take_microbatch(struct maker *maker, int kind, int32_t stage)
{
    const struct dt_shop *shop = maker->search->shop;
    int32_t *next = &maker->next[kind == BW ? B : kind][stage];

    if (kind == BW)
        maker->fused[dt_shop_cell(shop, stage, *next)] = true;
    while (kind == W && maker->fused[dt_shop_cell(shop, stage, *next)])
        ++*next;
    return (*next)++;
}

static void add_operation(struct maker *maker, const struct dt_shop_move *move)
{
    struct dt_order_graph *g = maker->graph;
    const struct dt_problem *p = g->p;
    const struct dt_timeline *start = maker->search->start;
    int32_t i = move->stage, kind = move->kind, device = p->device[i];
    int32_t j = take_microbatch(maker, kind, i);
    size_t cell = dt_shop_cell(maker->search->shop, i, j), cells = (size_t)p->microbatch_count;
    struct dt_order_node node = {.floor_ns = dt_later_ns(start->now_ns, start->free_ns[device]),
                                 .duration_ns = p->duration_ns[kind][i],
                                 .before = maker->last[device],
                                 .stage = (int16_t)i,
                                 .kind = (int8_t)kind};

    if (kind != W) {
        const int32_t *producer = kind == F ? maker->producer_f : maker->producer_b;
        int64_t there_ns = start->input_ns[dt_op_index(p, (enum detour_op_kind)kind, i, j)];
        node.input = producer[cell];
        if (!node.input)
            node.floor_ns = dt_later_ns(node.floor_ns, there_ns);
        else if (kind == F)
            node.lag_ns = p->forward_ns[i - 1];
        else if (i + 1 < p->stage_count)
            node.lag_ns = p->backward_ns[i];
    }
    int32_t v = add_node(g, &node);
    maker->last[device] = v;
    g->held[v] = (struct dt_order_held){maker->memory.bytes[device], maker->memory.inflight[i], j};
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

static bool allocate(struct dt_order_graph *g, const struct dt_search *search)
{
    struct detour_arena *arena = search->call->arena;
    size_t room = dt_order_room(search);

    return dt_arena_new(arena, g->nodes, room) && dt_arena_new(arena, g->held, room) &&
           dt_arena_new(arena, g->order, room) && dt_arena_new(arena, g->window, room);
}

bool dt_order_make(struct dt_order_graph *g, const struct dt_search *search)
{
    struct dt_call *call = search->call;
    struct detour_arena *arena = call->arena;
    const struct dt_timeline *start = search->start;
    const struct dt_problem *p = search->shop->p;
    size_t stages = (size_t)p->stage_count, cells = dt_cell_count(p);
    struct maker maker = {.graph = g, .search = search};

    *g = (struct dt_order_graph){.p = p, .node_count = 1};
    if (!allocate(g, search) || dt_memory_init(call, p, &maker.memory) ||
        !dt_arena_new(arena, maker.last, p->device_count) || !dt_arena_new(arena, maker.last_f, stages) ||
        !dt_arena_new(arena, maker.last_b, stages) || !dt_arena_new(arena, maker.producer_f, cells) ||
        !dt_arena_new(arena, maker.producer_b, cells) || !dt_arena_new(arena, maker.fused, cells))
        return false;
    memcpy(maker.fused, start->fused, cells * sizeof(*maker.fused));
    memcpy(maker.memory.bytes, start->memory.bytes, (size_t)p->device_count * sizeof(*maker.memory.bytes));
    memcpy(maker.memory.inflight, start->memory.inflight, stages * sizeof(*maker.memory.inflight));
    for (int kind = F; kind <= W; kind++) {
        if (!dt_arena_new(arena, maker.next[kind], stages))
            return false;
        memcpy(maker.next[kind], start->done[kind], stages * sizeof(*maker.next[kind]));
    }
    for (int32_t d = 0; d < p->device_count; d++)
        g->least_finish_ns = dt_later_ns(g->least_finish_ns, start->free_ns[d]);
    for (int32_t k = 0; k < search->best_count; k++)
        add_operation(&maker, &search->best[k]);
    measure(g, 1, g->node_count - 1);
    return true;
}

/* ---- making a move ------------------------------------------------------------------------------------ */

/* Makes them neighbors on their device. */
static void join(struct dt_order_graph *g, int32_t first, int32_t second)
{
    g->nodes[first].behind = first ? second : 0;
    g->nodes[second].before = second ? first : 0;
}

/* Brings memory up to date for `count` operations from v on. */
static void hold(struct dt_order_graph *g, int32_t v, int32_t count, int64_t bytes, int32_t inflight,
                 int32_t stage)
{
    for (; count > 0; count--, v = g->nodes[v].behind) {
        const struct dt_order_node *node = &g->nodes[v];
        g->held[v].bytes = bytes;
        bytes += dt_order_net_bytes(g->p, node);
        if (node->stage == stage) {
            g->held[v].inflight = inflight;
            inflight += dt_memory_inflight_change(g->p, node->kind);
        }
    }
}

/*
 * Towards the end x goes, with all that must come behind it, behind the rest of the window between its place
 * and that of the operation furthest away that it passes; towards the beginning x goes, with all that must
 * come before it, before the rest.
 */
static void reorder(struct dt_order_graph *g, int32_t x, int32_t far, bool forward)
{
    struct dt_order_node *nodes = g->nodes;
    int32_t *order = g->order, count = 0;
    int32_t from = nodes[forward ? x : far].place, to = nodes[forward ? far : x].place, at = from;

    nodes[x].marked = true; /* what goes with x */
    for (int32_t k = from + 1; forward && k <= to; k++) {
        struct dt_order_node *node = &nodes[order[k]];
        node->marked = nodes[node->before].marked || nodes[node->input].marked;
    }
    for (int32_t k = to - 1; !forward && k >= from; k--) {
        struct dt_order_node *node = &nodes[order[k]];
        node->marked = nodes[node->behind].marked || nodes[node->output].marked;
    }
    for (int32_t k = from; k <= to; k++) {
        if (nodes[order[k]].marked == forward)
            g->window[count++] = order[k];
        else
            order[at++] = order[k];
    }
    memcpy(&order[at], g->window, (size_t)count * sizeof(*order));
    for (int32_t k = from; k <= to; k++) {
        nodes[order[k]].place = k;
        nodes[order[k]].marked = false;
    }
    measure(g, from, to);
}

/* What is held of x's stage before v, from which on x passes all. */
static int32_t inflight_ahead(const struct dt_order_graph *g, int32_t x, int32_t v)
{
    int32_t inflight = g->held[x].inflight;

    for (int32_t u = x; u != v;) {
        u = g->nodes[u].before;
        if (g->nodes[u].stage == g->nodes[x].stage)
            inflight -= dt_memory_inflight_change(g->p, g->nodes[u].kind);
    }
    return inflight;
}

void dt_order_apply(struct dt_order_graph *g, const struct dt_order_shift *shift)
{
    const struct dt_order_node *nodes = g->nodes;
    int32_t x = shift->node, v = x;

    for (int32_t k = 0; k < shift->reach; k++)
        v = dt_order_next(g, shift, v);
    /* The first that moves, and what is held before it. */
    int32_t first = shift->forward ? nodes[x].behind : x;
    int64_t bytes = g->held[shift->forward ? x : v].bytes;
    int32_t inflight = inflight_ahead(g, x, shift->forward ? x : v);
    join(g, nodes[x].before, nodes[x].behind);
    if (shift->forward) {
        int32_t behind = nodes[v].behind;
        join(g, v, x);
        join(g, x, behind);
    } else {
        int32_t before = nodes[v].before;
        join(g, before, x);
        join(g, x, v);
    }
    hold(g, first, shift->reach + 1, bytes, inflight, nodes[x].stage);
    reorder(g, x, v, shift->forward);
}
