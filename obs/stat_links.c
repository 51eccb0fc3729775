/* SPDX-License-Identifier: Apache-2.0 */
/* Links of detour/stat.h: pairs of ranks, each with the worst of its connections. */
#include <stdlib.h>

#include "detour/stat.h"

static int link_order(const void *a, const void *b)
{
    const struct detour_stat_link *x = a, *y = b;

    if (x->from_rank != y->from_rank)
        return x->from_rank < y->from_rank ? -1 : 1;
    return x->to_rank < y->to_rank ? -1 : x->to_rank > y->to_rank;
}

/* Time spent waiting for the peer is not network time: such a link is healthy. */
static struct detour_stat_link link_of(const struct detour_stat_connection *c)
{
    bool is_slow = c->verdict == DETOUR_STAT_SLOW;

    return (struct detour_stat_link){
        .from_rank = c->from_rank,
        .to_rank = c->to_rank,
        .is_slow = is_slow,
        .cause = c->cause,
        .delay_ns = is_slow ? c->delay_ns : 0,
        .factor = is_slow ? c->factor : 1,
        .connection = c,
    };
}

/* Slow before healthy, then by the extra time of a transfer. */
static bool is_worse(const struct detour_stat_connection *a, const struct detour_stat_connection *b)
{
    bool a_slow = a->verdict == DETOUR_STAT_SLOW, b_slow = b->verdict == DETOUR_STAT_SLOW;

    return a_slow != b_slow ? a_slow : a->delay_ns > b->delay_ns;
}

/* A connection without a verdict gives no information about its link. */
static bool has_link(const struct detour_stat_connection *c)
{
    return c->is_send && c->from_rank >= 0 && c->to_rank >= 0 && c->verdict != DETOUR_STAT_LEARNING;
}

static void add(struct detour_stat_link *links, size_t *count, const struct detour_stat_connection *c)
{
    for (size_t i = 0; i < *count; i++) {
        if (links[i].from_rank != c->from_rank || links[i].to_rank != c->to_rank)
            continue;
        if (is_worse(c, links[i].connection))
            links[i] = link_of(c);
        return;
    }
    links[(*count)++] = link_of(c);
}

struct detour_stat_link *detour_stat_links(const struct detour_stat_snapshot *snapshot, size_t *count)
{
    struct detour_stat_link *links;
    size_t most = 1;

    for (size_t i = 0; i < detour_stat_process_count(snapshot); i++)
        most += detour_stat_get_process(snapshot, i)->connection_count;
    links = calloc(most, sizeof *links);
    *count = 0;
    for (size_t i = 0; links && i < detour_stat_process_count(snapshot); i++) {
        const struct detour_stat_process *process = detour_stat_get_process(snapshot, i);

        for (size_t j = 0; j < process->connection_count; j++) {
            const struct detour_stat_connection *c = detour_stat_get_connection(process, j);

            if (has_link(c))
                add(links, count, c);
        }
    }
    if (links)
        qsort(links, *count, sizeof *links, link_order);
    return links;
}
