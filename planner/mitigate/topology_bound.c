/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "planner/mitigate/topology.h"
#include "sched/arena.h"
#include "sched/call.h"

enum { PERMILLE = 1000 };

struct bound {
    const struct detour_cluster *cluster;
    int32_t *factors;   /* [node]: computing, descending */
    int64_t *stages_ns; /* [stage]: ascending */
    int64_t sum_ns;     /* of a healthy replica: one microbatch there and back */
    int64_t period_ns;  /* of a healthy replica */
    int64_t ring_ns;
};

static int compare_factors(const void *left, const void *right)
{
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;

    return (a < b) - (a > b);
}

static int compare_times(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Every node is in the ring of some stage, so that the slowest network bounds it. */
static int64_t ring_message_ns(const struct dt_layout *layout)
{
    const struct detour_cluster *cluster = layout->cluster;
    int32_t slowest_permille = PERMILLE;

    for (int32_t node = 0; node < dt_cluster_nodes(cluster); node++)
        if (layout->network_permille[node] > slowest_permille)
            slowest_permille = layout->network_permille[node];
    return smaller(dt_slowed_ns(layout->gradient_ns, slowest_permille) + cluster->latency_ns,
                   DETOUR_TIME_MAX_NS);
}

static enum detour_status prepare(struct detour_arena *arena, const struct dt_layout *layout, struct bound *b,
                                  struct detour_error *error)
{
    const struct detour_cluster *cluster = layout->cluster;
    int32_t node_count = dt_cluster_nodes(cluster), replicas = cluster->replica_count;
    int64_t link_ns = smaller(layout->message_ns + cluster->latency_ns, DETOUR_TIME_MAX_NS);

    *b = (struct bound){.cluster = cluster};
    if (!dt_arena_new(arena, b->factors, node_count) ||
        !dt_arena_new(arena, b->stages_ns, cluster->stage_count))
        return dt_fail_memory(error);
    for (int32_t node = 0; node < node_count; node++)
        b->factors[node] = layout->compute_permille[node];
    for (int32_t s = 0; s < cluster->stage_count; s++) {
        b->stages_ns[s] = cluster->stage_ns[s];
        b->sum_ns += cluster->stage_ns[s] + (s ? 2 * link_ns : 0);
        b->period_ns = larger(b->period_ns, cluster->stage_ns[s]);
        if (s)
            b->period_ns =
                larger(b->period_ns, (cluster->stage_ns[s - 1] + cluster->stage_ns[s] + 1) / 2 + link_ns);
    }
    b->period_ns = smaller(b->period_ns, DETOUR_TIME_MAX_NS);
    qsort(b->factors, (size_t)node_count, sizeof(*b->factors), compare_factors);
    qsort(b->stages_ns, (size_t)cluster->stage_count, sizeof(*b->stages_ns), compare_times);
    if (replicas > 1)
        b->ring_ns = 2 * (int64_t)(replicas - 1) * ring_message_ns(layout);
    return DETOUR_OK;
}

/* A replica whose `count` stages with the least work have nodes of that factor. */
static struct detour_replica slow_replica(const struct bound *b, int32_t factor_permille, int32_t count)
{
    int64_t sum_ns = b->sum_ns, period_ns = b->period_ns;

    for (int32_t k = 0; k < count; k++) {
        int64_t slowed_ns = dt_slowed_ns(b->stages_ns[k], factor_permille);
        sum_ns += slowed_ns - b->stages_ns[k];
        period_ns = larger(period_ns, slowed_ns);
    }
    return (struct detour_replica){period_ns,
                                   smaller(sum_ns - period_ns, DETOUR_TIME_MAX_NS * DETOUR_STAGES_MAX)};
}

static int64_t even_bound_ns(const struct bound *b)
{
    int32_t replicas = b->cluster->replica_count, count = b->cluster->microbatch_count / replicas;
    int64_t longest_ns = 0;

    for (int32_t j = 0; j < b->cluster->stage_count; j++) {
        struct detour_replica replica = slow_replica(b, b->factors[j * replicas], j + 1);
        longest_ns = larger(longest_ns, replica.fixed_ns + count * replica.microbatch_ns);
    }
    return longest_ns;
}

static enum detour_status shared_bound(struct detour_arena *arena, const struct bound *b,
                                       int64_t *pipeline_ns, struct detour_error *error)
{
    struct detour_microbatches assigned;
    struct detour_replica *replicas;

    if (!dt_arena_new(arena, replicas, b->cluster->replica_count))
        return dt_fail_memory(error);
    for (int32_t r = 0; r < b->cluster->replica_count; r++)
        replicas[r] = slow_replica(b, b->factors[r * b->cluster->stage_count], 1);
    enum detour_status status = detour_microbatches_assign(arena, replicas, b->cluster->replica_count,
                                                           b->cluster->microbatch_count, &assigned, error);

    if (!status)
        *pipeline_ns = assigned.time_ns;
    return status;
}

enum detour_status dt_topology_bound(struct detour_arena *arena, const struct dt_layout *layout, bool even,
                                     int64_t *bound_ns, struct detour_error *error)
{
    struct dt_arena_mark mark = dt_arena_save(arena);
    int64_t pipeline_ns = 0;
    struct bound b;
    enum detour_status status = prepare(arena, layout, &b, error);

    if (!status && even)
        pipeline_ns = even_bound_ns(&b);
    else if (!status)
        status = shared_bound(arena, &b, &pipeline_ns, error);
    dt_arena_rewind(arena, mark);
    if (!status)
        *bound_ns = pipeline_ns + b.ring_ns;
    return status;
}
