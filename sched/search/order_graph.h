/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of the operations of a schedule, as a graph that a local search changes step by step: an arc
 * leads from an operation to the next one of its device, and to the receiver of its message. The makespan
 * is the longest path.
 *
 * Every node has a head, the longest path from the beginning to its start, and a tail, the longest path
 * from its finish to the end. A move takes one operation past neighbors on its device and updates heads and
 * tails. Operations before the moment of search->start are no part of the graph.
 */
#ifndef DETOUR_SCHED_SEARCH_ORDER_GRAPH_H
#define DETOUR_SCHED_SEARCH_ORDER_GRAPH_H

#include "sched/search/search.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kind of a node that is no operation but a message on a link with a serialization time. */
#define DT_ORDER_MESSAGE (-1)

/* An operation or message. Node 0 stands for none: it takes no time and is nowhere. */
struct dt_order_node {
    int64_t floor_ns; /* not before, whatever the order */
    int64_t duration_ns;
    int64_t lag_ns; /* from the finish of `input` to the arrival of its message */
    int64_t head_ns;
    int64_t tail_ns;
    int32_t before; /* on the device or link */
    int32_t behind;
    int32_t input; /* whose message it waits for */
    int32_t output;
    int32_t place; /* in order */
    int16_t stage;
    int8_t kind;
    bool marked;
};

/* What is held before an operation. */
struct dt_order_held {
    int64_t bytes;    /* on the device */
    int32_t inflight; /* of the stage */
    int32_t microbatch;
};

struct dt_order_graph {
    const struct dt_problem *p;
    struct dt_order_node *nodes; /* [node_count], 0 is none */
    struct dt_order_held *held;  /* [node_count] */
    int32_t *order;              /* [node_count]: every node behind those it waits for; order[0] is 0 */
    int32_t *window;             /* scratch */
    int32_t node_count;
    int64_t least_finish_ns; /* of what has been done already */
    int64_t finish_ns;       /* of all */
};

/* An operation passes `reach` neighbors on its device. */
struct dt_order_shift {
    int32_t node;
    int32_t reach;
    bool forward;        /* towards the end */
    int64_t estimate_ns; /* the makespan that it promises */
};

/* The most nodes that the graph of search->best can have. */
static inline size_t dt_order_room(const struct dt_search *search)
{
    return 2 * (size_t)search->best_count + 1;
}

/* Makes the graph of search->best, measured. False: out of memory. */
bool dt_order_make(struct dt_order_graph *graph, const struct dt_search *search);

/* Makes a move, which must lead to no cycle (tabu.c). */
void dt_order_apply(struct dt_order_graph *graph, const struct dt_order_shift *shift);

/* The next operation that the move passes, behind v or the one that moves. */
static inline int32_t dt_order_next(const struct dt_order_graph *graph, const struct dt_order_shift *shift,
                                    int32_t v)
{
    return shift->forward ? graph->nodes[v].behind : graph->nodes[v].before;
}

static inline int64_t dt_later_ns(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

static inline int64_t dt_order_arrival_ns(const struct dt_order_graph *graph,
                                          const struct dt_order_node *node)
{
    const struct dt_order_node *input = &graph->nodes[node->input];

    return dt_later_ns(node->floor_ns, input->head_ns + input->duration_ns + node->lag_ns);
}

/* From the finish of a node to the end, by way of its message. */
static inline int64_t dt_order_output_tail_ns(const struct dt_order_graph *graph,
                                              const struct dt_order_node *node)
{
    const struct dt_order_node *output = &graph->nodes[node->output];

    return output->tail_ns + output->duration_ns + output->lag_ns;
}

static inline int64_t dt_order_finish_ns(const struct dt_order_node *node)
{
    return node->head_ns + node->duration_ns;
}

/* What an operation leaves held on its device. */
static inline int64_t dt_order_net_bytes(const struct dt_problem *p, const struct dt_order_node *node)
{
    return dt_memory_taken(p, node->kind, node->stage) - dt_memory_freed(p, node->kind, node->stage);
}

#ifdef __cplusplus
}
#endif

#endif
