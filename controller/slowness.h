/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that is slow of a job, as the planner has it: findings of the judge as slow nodes and links.
 * Nodes are ranks.
 *
 * Pure. Whatever does not fit is left out.
 */
#ifndef DETOUR_CONTROLLER_SLOWNESS_H
#define DETOUR_CONTROLLER_SLOWNESS_H

#include "controller/judge.h"
#include "detour/mitigate.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_slowness {
    int32_t node_count, link_count;
    struct detour_slow_node nodes[DT_JUDGE_FINDINGS];
    struct detour_slow_link links[DT_JUDGE_FINDINGS];
};

/* A finding about ranks of the job: a device, an RNIC or a link; of several about one of them the slowest
 * node, the first link. */
void dt_slowness_add(struct dt_slowness *slowness, const struct detour_cluster *cluster,
                     const struct dt_finding *finding);

/* Adds the link unless it is in the list. */
void dt_slowness_add_link(struct dt_slowness *slowness, const struct detour_slow_link *link);

/* Nodes and links. */
int32_t dt_slowness_count(const struct dt_slowness *slowness);

/* Nothing has changed by more than a fifth. */
bool dt_slowness_is_same(const struct dt_slowness *a, const struct dt_slowness *b);

/* With these nodes, [position], messages or gradients take the link, or its path between two machines. */
bool dt_slowness_is_used(const struct detour_cluster *cluster, const int32_t *nodes,
                         const struct detour_slow_link *link);

#ifdef __cplusplus
}
#endif

#endif
