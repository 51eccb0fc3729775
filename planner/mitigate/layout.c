/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/mitigate/layout.h"

#include "sched/arena.h"
#include "sched/call.h"

enum { PERMILLE = 1000, NS_PER_S = 1000000000 };

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t divide_up(__int128 value, int64_t divisor)
{
    /* A search of nodes divides millions of times; most values fit into 64 bits. */
    __int128 sum = value + divisor - 1;
    __int128 quotient = sum <= INT64_MAX ? (int64_t)sum / divisor : sum / divisor;

    return quotient < DETOUR_TIME_MAX_NS ? (int64_t)quotient : DETOUR_TIME_MAX_NS;
}

int64_t dt_slowed_ns(int64_t time_ns, int32_t factor_permille)
{
    if (factor_permille == PERMILLE)
        return smaller(time_ns, DETOUR_TIME_MAX_NS);
    return divide_up((__int128)time_ns * factor_permille, PERMILLE);
}

int64_t dt_transfer_ns(const struct detour_cluster *cluster, int64_t bytes, int32_t factor_permille)
{
    if (!cluster->bytes_per_s)
        return 0;
    return dt_slowed_ns(divide_up((__int128)bytes * NS_PER_S, cluster->bytes_per_s), factor_permille);
}

void dt_counts_even(const struct detour_cluster *cluster, int32_t *counts)
{
    for (int32_t r = 0; r < cluster->replica_count; r++)
        counts[r] = cluster->microbatch_count / cluster->replica_count +
                    (r < cluster->microbatch_count % cluster->replica_count);
}

/* The path of a link, without its slowness. */
static struct dt_slow_path path_between(const struct dt_layout *layout, int32_t a, int32_t b)
{
    bool is_between = layout->machine[a] != layout->machine[b];
    int32_t from = is_between ? layout->machine[a] : a, to = is_between ? layout->machine[b] : b;

    return (struct dt_slow_path){
        .is_between = is_between, .a = from < to ? from : to, .b = from < to ? to : from};
}

static bool is_same(const struct dt_slow_path *one, const struct dt_slow_path *other)
{
    return one->is_between == other->is_between && one->a == other->a && one->b == other->b;
}

int32_t dt_layout_path(const struct dt_layout *layout, int32_t a, int32_t b)
{
    int32_t machine = layout->machine[a];

    if (layout->first_path[machine] == layout->first_path[machine + 1])
        return -1;
    struct dt_slow_path wanted = path_between(layout, a, b);

    for (int32_t k = layout->first_path[machine]; k < layout->first_path[machine + 1]; k++)
        if (is_same(&layout->paths[layout->path[k]], &wanted))
            return layout->path[k];
    return -1;
}

bool dt_layout_has_path(const struct dt_layout *layout, int32_t node)
{
    int32_t machine = layout->machine[node];

    return layout->first_path[machine] < layout->first_path[machine + 1];
}

struct dt_layout_link dt_layout_link_of(const struct dt_layout *layout, int32_t a, int32_t b)
{
    struct dt_layout_link link = {.factor_permille = layout->network_permille[a]};
    int32_t path = dt_layout_path(layout, a, b);

    if (layout->network_permille[b] > link.factor_permille)
        link.factor_permille = layout->network_permille[b];
    if (path < 0)
        return link;
    if (layout->paths[path].factor_permille > link.factor_permille)
        link.factor_permille = layout->paths[path].factor_permille;
    link.delay_ns = layout->paths[path].delay_ns;
    return link;
}

/* A message between two nodes whose bytes take that long on a healthy link. */
static int64_t message_ns(const struct dt_layout *layout, int32_t a, int32_t b, int64_t bytes_ns)
{
    struct dt_layout_link link = dt_layout_link_of(layout, a, b);

    return smaller(dt_slowed_ns(bytes_ns, link.factor_permille) + link.delay_ns + layout->cluster->latency_ns,
                   DETOUR_TIME_MAX_NS);
}

static void refresh_replica(struct dt_layout *layout, int32_t replica)
{
    const struct detour_cluster *cluster = layout->cluster;
    const int32_t *nodes = &layout->nodes[(size_t)replica * (size_t)cluster->stage_count];
    int64_t period_ns = 0, sum_ns = 0, before_ns = 0;

    for (int32_t s = 0; s < cluster->stage_count; s++) {
        int64_t stage_ns = dt_slowed_ns(cluster->stage_ns[s], layout->compute_permille[nodes[s]]);
        period_ns = larger(period_ns, stage_ns);
        sum_ns += stage_ns;
        if (s > 0) {
            int64_t link_ns = message_ns(layout, nodes[s - 1], nodes[s], layout->message_ns);
            period_ns = larger(period_ns, (before_ns + stage_ns + 1) / 2 + link_ns);
            sum_ns += 2 * link_ns;
        }
        before_ns = stage_ns;
    }
    period_ns = smaller(period_ns, DETOUR_TIME_MAX_NS);
    layout->replicas[replica] = (struct detour_replica){
        period_ns, smaller(sum_ns - period_ns, DETOUR_TIME_MAX_NS * DETOUR_STAGES_MAX)};
}

/* The part of a ring from a position to the next replica's. */
static void refresh_edge(struct dt_layout *layout, int32_t replica, int32_t stage)
{
    int32_t stages = layout->cluster->stage_count, count = layout->cluster->replica_count;
    int32_t from = layout->nodes[replica * stages + stage];
    int32_t to = layout->nodes[(replica + 1) % count * stages + stage];

    if (count > 1)
        layout->edge_ns[stage * count + replica] = message_ns(layout, from, to, layout->gradient_ns);
}

static void refresh_ring(struct dt_layout *layout, int32_t stage)
{
    int32_t count = layout->cluster->replica_count;
    const int64_t *edge_ns = &layout->edge_ns[stage * count];
    int64_t longest_ns = 0;

    for (int32_t r = 0; count > 1 && r < count; r++)
        longest_ns = larger(longest_ns, edge_ns[r]);
    layout->ring_ns[stage] = 2 * (count - 1) * longest_ns;
}

/* Of a position whose node has changed. */
static void refresh_edges(struct dt_layout *layout, int32_t position)
{
    int32_t stages = layout->cluster->stage_count, count = layout->cluster->replica_count;

    refresh_edge(layout, position / stages, position % stages);
    refresh_edge(layout, (position / stages + count - 1) % count, position % stages);
    refresh_ring(layout, position % stages);
}

static void place(struct dt_layout *layout, int32_t position, int32_t node)
{
    layout->nodes[position] = node;
    layout->position[node] = position;
}

void dt_layout_set(struct dt_layout *layout, const int32_t *nodes)
{
    for (int32_t p = 0; p < dt_cluster_nodes(layout->cluster); p++)
        place(layout, p, nodes ? nodes[p] : p);
    for (int32_t r = 0; r < layout->cluster->replica_count; r++)
        refresh_replica(layout, r);
    for (int32_t s = 0; s < layout->cluster->stage_count; s++) {
        for (int32_t r = 0; r < layout->cluster->replica_count; r++)
            refresh_edge(layout, r, s);
        refresh_ring(layout, s);
    }
}

void dt_layout_swap(struct dt_layout *layout, int32_t a, int32_t b)
{
    int32_t stages = layout->cluster->stage_count, node = layout->nodes[a];

    place(layout, a, layout->nodes[b]);
    place(layout, b, node);
    refresh_replica(layout, a / stages);
    if (b / stages != a / stages)
        refresh_replica(layout, b / stages);
    refresh_edges(layout, a);
    refresh_edges(layout, b);
}

static void add_path(struct dt_layout *layout, const struct detour_slow_link *link)
{
    struct dt_slow_path path = path_between(layout, link->a, link->b), *same = layout->paths;

    while (same < layout->paths + layout->path_count && !is_same(same, &path))
        same++;
    if (same == layout->paths + layout->path_count) {
        *same = path;
        layout->path_count++;
    }
    if (link->factor_permille > same->factor_permille)
        same->factor_permille = link->factor_permille;
    same->delay_ns = larger(same->delay_ns, link->delay_ns);
}

/* The paths of each machine, one behind the other. */
static void list_paths(struct dt_layout *layout)
{
    int32_t count = dt_cluster_nodes(layout->cluster), next = 0;

    for (int32_t node = 0; node < count; node++)
        layout->machine[node] = layout->cluster->machines ? layout->cluster->machines[node] : node;
    for (int32_t k = 0; k < layout->slowness->link_count; k++)
        add_path(layout, &layout->slowness->links[k]);
    for (int32_t machine = 0; machine < count; machine++) {
        layout->first_path[machine] = next;
        for (int32_t k = 0; k < layout->path_count; k++) {
            const struct dt_slow_path *path = &layout->paths[k];
            if (path->is_between ? path->a == machine || path->b == machine
                                 : layout->machine[path->a] == machine)
                layout->path[next++] = k;
        }
    }
    layout->first_path[count] = next;
}

static void list_factors(struct dt_layout *layout)
{
    for (int32_t node = 0; node < dt_cluster_nodes(layout->cluster); node++)
        layout->compute_permille[node] = layout->network_permille[node] = PERMILLE;
    for (int32_t k = 0; k < layout->slowness->node_count; k++) {
        const struct detour_slow_node *slow = &layout->slowness->nodes[k];
        int32_t *compute = &layout->compute_permille[slow->node],
                *network = &layout->network_permille[slow->node];
        *compute = slow->compute_permille > *compute ? slow->compute_permille : *compute;
        *network = slow->network_permille > *network ? slow->network_permille : *network;
    }
}

enum detour_status dt_layout_create(struct detour_arena *arena, const struct detour_cluster *cluster,
                                    const struct detour_slowness *slowness, const int32_t *nodes,
                                    struct dt_layout *layout, struct detour_error *error)
{
    int32_t replicas = cluster->replica_count;
    size_t count = (size_t)dt_cluster_nodes(cluster);

    *layout = (struct dt_layout){.cluster = cluster, .slowness = slowness};
    if (!dt_arena_new(arena, layout->nodes, count) || !dt_arena_new(arena, layout->position, count) ||
        !dt_arena_new(arena, layout->compute_permille, count) ||
        !dt_arena_new(arena, layout->network_permille, count) ||
        !dt_arena_new(arena, layout->machine, count) ||
        !dt_arena_new(arena, layout->paths, (size_t)slowness->link_count + 1) ||
        !dt_arena_new(arena, layout->first_path, count + 1) ||
        !dt_arena_new(arena, layout->path, 2 * (size_t)slowness->link_count + 1) ||
        !dt_arena_new(arena, layout->edge_ns, count) || !dt_arena_new(arena, layout->replicas, replicas) ||
        !dt_arena_new(arena, layout->ring_ns, cluster->stage_count))
        return dt_fail_memory(error);
    layout->message_ns = dt_transfer_ns(cluster, cluster->message_bytes, PERMILLE);
    layout->gradient_ns =
        dt_transfer_ns(cluster, (cluster->gradient_bytes + replicas - 1) / replicas, PERMILLE);
    list_factors(layout);
    list_paths(layout);
    dt_layout_set(layout, nodes ? nodes : cluster->nodes);
    return DETOUR_OK;
}

int64_t dt_layout_gradients_ns(const struct dt_layout *layout)
{
    int64_t longest_ns = 0;

    for (int32_t s = 0; s < layout->cluster->stage_count; s++)
        longest_ns = larger(longest_ns, layout->ring_ns[s]);
    return longest_ns;
}

int64_t dt_layout_pipeline_ns(const struct dt_layout *layout, const int32_t *counts)
{
    int64_t longest_ns = 0;

    for (int32_t r = 0; r < layout->cluster->replica_count; r++)
        longest_ns =
            larger(longest_ns, layout->replicas[r].fixed_ns + counts[r] * layout->replicas[r].microbatch_ns);
    return longest_ns;
}

enum detour_status detour_iteration_estimate(struct detour_arena *arena, const struct detour_cluster *cluster,
                                             const struct detour_slowness *slowness, const int32_t *nodes,
                                             const int32_t *counts, struct detour_iteration *iteration,
                                             struct detour_error *error)
{
    enum detour_status status = detour_cluster_check(cluster, error);
    struct dt_arena_mark mark = dt_arena_save(arena);
    struct dt_layout layout;
    int32_t *even;

    if (!status)
        status = detour_slowness_check(cluster, slowness, error);
    if (!status)
        status = dt_nodes_check(cluster, nodes, counts, error);
    if (!status)
        status = dt_layout_create(arena, cluster, slowness, nodes, &layout, error);
    if (!status && !dt_arena_new(arena, even, cluster->replica_count))
        status = dt_fail_memory(error);
    if (!status) {
        dt_counts_even(cluster, even);
        iteration->pipeline_ns = dt_layout_pipeline_ns(&layout, counts ? counts : even);
        iteration->gradients_ns = dt_layout_gradients_ns(&layout);
        iteration->iteration_ns = iteration->pipeline_ns + iteration->gradients_ns;
    }
    dt_arena_rewind(arena, mark);
    return status;
}
