/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/slowness.h"

#include <stdlib.h>

#include "base/util.h"

#define PERMILLE        1000
#define CHANGE_PERMILLE 200 /* of a slowness: a smaller change is none */

static int32_t permille_of(double factor)
{
    double permille = factor * PERMILLE;

    if (!(permille > PERMILLE))
        return PERMILLE;
    return permille < DETOUR_SLOW_PERMILLE_MAX ? (int32_t)permille : DETOUR_SLOW_PERMILLE_MAX;
}

static void add_node(struct dt_slowness *slowness, uint32_t rank, int32_t compute_permille,
                     int32_t network_permille)
{
    struct detour_slow_node *node = slowness->nodes;

    while (node < slowness->nodes + slowness->node_count && node->node != (int32_t)rank)
        node++;
    if (node == slowness->nodes + DT_JUDGE_FINDINGS)
        return;
    if (node == slowness->nodes + slowness->node_count) {
        *node = (struct detour_slow_node){(int32_t)rank, PERMILLE, PERMILLE};
        slowness->node_count++;
    }
    if (compute_permille > node->compute_permille)
        node->compute_permille = compute_permille;
    if (network_permille > node->network_permille)
        node->network_permille = network_permille;
}

static bool has_link(const struct dt_slowness *slowness, const struct detour_slow_link *link)
{
    for (int32_t i = 0; i < slowness->link_count; i++) {
        if (slowness->links[i].a == link->a && slowness->links[i].b == link->b)
            return true;
    }
    return false;
}

void dt_slowness_add_link(struct dt_slowness *slowness, const struct detour_slow_link *link)
{
    if (slowness->link_count < DT_JUDGE_FINDINGS && !has_link(slowness, link))
        slowness->links[slowness->link_count++] = *link;
}

void dt_slowness_add(struct dt_slowness *slowness, const struct detour_cluster *cluster,
                     const struct dt_finding *finding)
{
    if (finding->kind == DT_FINDING_DEVICE)
        add_node(slowness, finding->rank, permille_of(finding->factor), PERMILLE);
    else if (finding->kind == DT_FINDING_NIC)
        add_node(slowness, finding->rank, PERMILLE, permille_of(finding->factor));
    if (finding->kind != DT_FINDING_LINK)
        return;
    struct detour_slow_link link = {.a = (int32_t)dt_min_u64(finding->rank, finding->peer_rank),
                                    .b = (int32_t)dt_max_u64(finding->rank, finding->peer_rank),
                                    .factor_permille = PERMILLE};
    if (cluster->bytes_per_s)
        link.factor_permille = permille_of(finding->factor);
    else
        link.delay_ns = (int64_t)dt_min_u64(finding->delay_ns, DETOUR_TIME_MAX_NS);
    dt_slowness_add_link(slowness, &link);
}

int32_t dt_slowness_count(const struct dt_slowness *slowness)
{
    return slowness->node_count + slowness->link_count;
}

static bool is_near(int64_t a, int64_t b)
{
    int64_t larger = a > b ? a : b;

    return llabs(a - b) <= larger / PERMILLE * CHANGE_PERMILLE;
}

bool dt_slowness_is_same(const struct dt_slowness *a, const struct dt_slowness *b)
{
    bool same = a->node_count == b->node_count && a->link_count == b->link_count;

    for (int32_t i = 0; same && i < a->node_count; i++)
        same = a->nodes[i].node == b->nodes[i].node &&
               is_near(a->nodes[i].compute_permille, b->nodes[i].compute_permille) &&
               is_near(a->nodes[i].network_permille, b->nodes[i].network_permille);
    for (int32_t i = 0; same && i < a->link_count; i++)
        same = a->links[i].a == b->links[i].a && a->links[i].b == b->links[i].b &&
               is_near(a->links[i].factor_permille, b->links[i].factor_permille) &&
               is_near(a->links[i].delay_ns, b->links[i].delay_ns);
    return same;
}

static int32_t machine_of(const struct detour_cluster *cluster, int32_t node)
{
    return cluster->machines ? cluster->machines[node] : node;
}

/* The slow link is between these nodes, or between their machines. */
static bool is_on(const struct detour_cluster *cluster, const struct detour_slow_link *link, int32_t a,
                  int32_t b)
{
    const int32_t from = machine_of(cluster, a), to = machine_of(cluster, b);
    const int32_t slow_from = machine_of(cluster, link->a), slow_to = machine_of(cluster, link->b);

    if (slow_from == slow_to)
        return (a == link->a && b == link->b) || (a == link->b && b == link->a);
    return (from == slow_from && to == slow_to) || (from == slow_to && to == slow_from);
}

bool dt_slowness_is_used(const struct detour_cluster *cluster, const int32_t *nodes,
                         const struct detour_slow_link *link)
{
    const int32_t stages = cluster->stage_count, count = cluster->replica_count * stages;

    if (link->a < 0 || link->a >= count || link->b < 0 || link->b >= count)
        return false;
    for (int32_t p = 0; p < count; p++) {
        const int32_t next = nodes[(p + stages) % count]; /* in the ring of the stage, if that is one */

        if (is_on(cluster, link, nodes[p], next) ||
            ((p + 1) % stages && is_on(cluster, link, nodes[p], nodes[p + 1])))
            return true;
    }
    return false;
}
