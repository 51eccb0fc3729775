/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of a job and of what is slow in it. */
#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "planner/mitigate/layout.h"
#include "sched/call.h"

enum { PERMILLE = 1000 };

const char *detour_step_name(enum detour_step step)
{
    static const char *const names[] = {"S1", "S2", "S3", "S4"};

    return (size_t)step < DT_COUNT_OF(names) ? names[step] : NULL;
}

const char *detour_group_name(enum detour_group group)
{
    static const char *const names[] = {"none", "data", "pipeline"};

    return (size_t)group < DT_COUNT_OF(names) ? names[group] : NULL;
}

static enum detour_status check_range(struct detour_error *error, const char *name, int64_t value,
                                      int64_t min, int64_t max)
{
    if (value >= min && value <= max)
        return DETOUR_OK;
    return dt_error_set(error, value < min ? DETOUR_INVALID : DETOUR_LIMIT,
                        "%s is %" PRId64 "; it must be from %" PRId64 " to %" PRId64, name, value, min, max);
}

static enum detour_status check_name(const char *name, struct detour_error *error)
{
    size_t bytes = name ? strnlen(name, DETOUR_CLUSTER_NAME_BYTES) : 0;

    for (size_t i = 0; i < bytes; i++)
        if (name[i] < ' ' || name[i] > '~')
            bytes = 0;
    if (bytes < 1 || bytes >= DETOUR_CLUSTER_NAME_BYTES)
        return dt_error_set(error, DETOUR_INVALID, "name must have 1 to %d printable ASCII characters",
                            DETOUR_CLUSTER_NAME_BYTES - 1);
    return DETOUR_OK;
}

/* Every node once. */
static enum detour_status check_nodes(const struct detour_cluster *cluster, const int32_t *nodes,
                                      struct detour_error *error)
{
    int32_t count = dt_cluster_nodes(cluster);
    bool seen[DETOUR_CLUSTER_NODES_MAX] = {false};

    for (int32_t p = 0; nodes && p < count; p++) {
        if (nodes[p] < 0 || nodes[p] >= count || seen[nodes[p]])
            return dt_error_set(error, DETOUR_INVALID,
                                "nodes[%" PRId32 "] is %" PRId32 "; each node from 0 to %" PRId32
                                " must have one position",
                                p, nodes[p], count - 1);
        seen[nodes[p]] = true;
    }
    return DETOUR_OK;
}

enum detour_status dt_nodes_check(const struct detour_cluster *cluster, const int32_t *nodes,
                                  const int32_t *counts, struct detour_error *error)
{
    enum detour_status status = check_nodes(cluster, nodes, error);
    int64_t sum = 0;

    for (int32_t r = 0; !status && counts && r < cluster->replica_count; r++) {
        status =
            check_range(error, "a replica's count of microbatches", counts[r], 1, cluster->microbatch_count);
        sum += counts[r];
    }
    if (!status && counts && sum != cluster->microbatch_count)
        return dt_error_set(error, DETOUR_INVALID,
                            "counts adds up to %" PRId64 " microbatches; the job has %" PRId32, sum,
                            cluster->microbatch_count);
    return status;
}

enum detour_status detour_cluster_check(const struct detour_cluster *cluster, struct detour_error *error)
{
    const struct {
        const char *name;
        int64_t value, min, max;
    } fields[] = {
        {"replica_count", cluster->replica_count, 1, DETOUR_CLUSTER_NODES_MAX},
        {"stage_count", cluster->stage_count, 1, DETOUR_CLUSTER_NODES_MAX},
        {"the number of nodes", (int64_t)cluster->replica_count * cluster->stage_count, 1,
         DETOUR_CLUSTER_NODES_MAX},
        {"microbatch_count", cluster->microbatch_count, cluster->replica_count, DETOUR_CELLS_MAX},
        {"message_bytes", cluster->message_bytes, 0, DETOUR_CLUSTER_BYTES_MAX},
        {"gradient_bytes", cluster->gradient_bytes, 0, DETOUR_CLUSTER_BYTES_MAX},
        {"bytes_per_s", cluster->bytes_per_s, 0, DETOUR_CLUSTER_BYTES_S_MAX},
        {"latency_ns", cluster->latency_ns, 0, DETOUR_TIME_MAX_NS},
        {"state_bytes", cluster->state_bytes, 0, DETOUR_CLUSTER_BYTES_MAX},
        {"copy_bytes_per_s", cluster->copy_bytes_per_s, 0, DETOUR_CLUSTER_BYTES_S_MAX},
    };
    enum detour_status status = check_name(cluster->name, error);

    for (size_t f = 0; !status && f < DT_COUNT_OF(fields); f++)
        status = check_range(error, fields[f].name, fields[f].value, fields[f].min, fields[f].max);
    for (int32_t s = 0; !status && s < cluster->stage_count; s++)
        status = check_range(error, "a stage's stage_ns", cluster->stage_ns[s], 1, DETOUR_TIME_MAX_NS);
    for (int step = 0; !status && step < DETOUR_STEP_COUNT; step++)
        status = check_range(error, "a step's cost_ns", cluster->cost_ns[step], 0, DETOUR_STEP_COST_MAX_NS);
    for (int32_t n = 0; !status && cluster->machines && n < dt_cluster_nodes(cluster); n++)
        status =
            check_range(error, "a node's machine", cluster->machines[n], 0, dt_cluster_nodes(cluster) - 1);
    return status ? status : check_nodes(cluster, cluster->nodes, error);
}

static enum detour_status check_slow_nodes(int32_t last, const struct detour_slowness *slowness,
                                           struct detour_error *error)
{
    enum detour_status status = DETOUR_OK;

    for (int32_t k = 0; !status && k < slowness->node_count; k++) {
        const struct detour_slow_node *slow = &slowness->nodes[k];
        status = check_range(error, "a slow node", slow->node, 0, last);
        if (!status)
            status = check_range(error, "a slow node's compute_permille", slow->compute_permille, PERMILLE,
                                 DETOUR_SLOW_PERMILLE_MAX);
        if (!status)
            status = check_range(error, "a slow node's network_permille", slow->network_permille, PERMILLE,
                                 DETOUR_SLOW_PERMILLE_MAX);
    }
    return status;
}

enum detour_status detour_slowness_check(const struct detour_cluster *cluster,
                                         const struct detour_slowness *slowness, struct detour_error *error)
{
    int32_t last = dt_cluster_nodes(cluster) - 1;
    enum detour_status status =
        check_range(error, "the number of slow nodes", slowness->node_count, 0, DETOUR_SLOW_MAX);

    if (!status)
        status = check_range(error, "the number of slow links", slowness->link_count, 0, DETOUR_SLOW_MAX);
    if (!status)
        status = check_slow_nodes(last, slowness, error);
    for (int32_t k = 0; !status && k < slowness->link_count; k++) {
        const struct detour_slow_link *slow = &slowness->links[k];
        status = check_range(error, "a slow link's end a", slow->a, 0, last);
        if (!status)
            status = check_range(error, "a slow link's end b", slow->b, 0, last);
        if (!status && slow->a == slow->b)
            status =
                dt_error_set(error, DETOUR_INVALID,
                             "a slow link joins node %" PRId32 " to itself; it must join two nodes", slow->a);
        if (!status)
            status = check_range(error, "a slow link's factor_permille", slow->factor_permille, PERMILLE,
                                 DETOUR_SLOW_PERMILLE_MAX);
        if (!status)
            status = check_range(error, "a slow link's delay_ns", slow->delay_ns, 0, DETOUR_TIME_MAX_NS);
    }
    return status;
}
