/* SPDX-License-Identifier: Apache-2.0 */
/* How long an S3 stops the job: detour_exchange_pause() has the model. */
#include "planner/mitigate/layout.h"
#include "sched/arena.h"
#include "sched/call.h"

enum { PERMILLE = 1000, NS_PER_S = 1000000000 };

/* Factors and sizes are far from what 128 bits hold: 2^40 bytes, 1,000 times. */
typedef __int128 wide;

static wide larger(wide a, wide b)
{
    return a > b ? a : b;
}

static wide bytes_ns(wide bytes, int64_t bytes_per_s, int32_t factor_permille)
{
    wide divisor = (wide)bytes_per_s * PERMILLE;

    return divisor ? (bytes * NS_PER_S * factor_permille + divisor - 1) / divisor : 0;
}

/* The state goes back over the same link, too. */
static bool is_mutual(const struct dt_layout *before, const int32_t *nodes, int32_t p)
{
    return nodes[before->position[nodes[p]]] == before->nodes[p];
}

/* To the node at position p from the one there before. */
static wide move_ns(const struct dt_layout *before, const int32_t *nodes, int32_t p)
{
    const struct detour_cluster *cluster = before->cluster;
    struct dt_layout_link link = dt_layout_link_of(before, before->nodes[p], nodes[p]);
    int64_t round_bytes = (int64_t)DETOUR_MOVE_SLOTS * DETOUR_MOVE_SLICE_BYTES;
    int64_t rounds = (cluster->state_bytes - 1) / round_bytes; /* before the last one */
    wide slice_ns = bytes_ns(DETOUR_MOVE_SLICE_BYTES, cluster->bytes_per_s, link.factor_permille);
    wide full_ns = bytes_ns(round_bytes, cluster->bytes_per_s, link.factor_permille);
    wide last_ns =
        bytes_ns(cluster->state_bytes - rounds * round_bytes, cluster->bytes_per_s, link.factor_permille);
    wide latency_ns = cluster->latency_ns;
    wide round_ns = is_mutual(before, nodes, p)
                        ? link.delay_ns + latency_ns + larger(full_ns, slice_ns + latency_ns)
                        : larger(full_ns, slice_ns + 2 * latency_ns + link.delay_ns);

    return 3 * latency_ns + link.delay_ns + rounds * round_ns + last_ns;
}

/* Copies, and the move over the slowest of the links that states take; 0: no node moves. */
static wide exchange_ns(const struct dt_layout *before, const int32_t *nodes)
{
    const struct detour_cluster *cluster = before->cluster;
    wide copies_ns = 2 * bytes_ns(cluster->state_bytes, cluster->copy_bytes_per_s, PERMILLE);
    wide longest_ns = 0;

    for (int32_t p = 0; p < dt_cluster_nodes(cluster); p++) {
        if (nodes[p] != before->nodes[p])
            longest_ns = larger(longest_ns, copies_ns + move_ns(before, nodes, p));
    }
    return longest_ns;
}

static int64_t pause_of(const struct dt_layout *before, const int32_t *nodes)
{
    wide ns = before->cluster->cost_ns[DETOUR_STEP_S3];

    if (before->cluster->state_bytes)
        ns += exchange_ns(before, nodes);
    return ns < DETOUR_STEP_COST_MAX_NS ? (int64_t)ns : DETOUR_STEP_COST_MAX_NS;
}

enum detour_status detour_exchange_pause(struct detour_arena *arena, const struct detour_cluster *cluster,
                                         const struct detour_slowness *slowness, const int32_t *nodes,
                                         int64_t *pause_ns, struct detour_error *error)
{
    enum detour_status status = detour_cluster_check(cluster, error);
    struct dt_arena_mark mark = dt_arena_save(arena);
    struct dt_layout before;

    if (!status)
        status = detour_slowness_check(cluster, slowness, error);
    if (!status)
        status = dt_nodes_check(cluster, nodes, NULL, error);
    if (!status)
        status = dt_layout_create(arena, cluster, slowness, NULL, &before, error);
    if (!status)
        *pause_ns = pause_of(&before, nodes);
    dt_arena_rewind(arena, mark);
    return status;
}
