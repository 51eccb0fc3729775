/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes at positions, with the times that follow, kept up to date as nodes are exchanged: an exchange changes
 * at most two replicas' pipelines and two stages' rings.
 */
#ifndef DETOUR_PLANNER_MITIGATE_LAYOUT_H
#define DETOUR_PLANNER_MITIGATE_LAYOUT_H

#include "detour/mitigate.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline int32_t dt_cluster_nodes(const struct detour_cluster *cluster)
{
    return cluster->replica_count * cluster->stage_count;
}

/* Of a checked cluster: nodes is an assignment, counts adds up; each may be NULL. */
enum detour_status dt_nodes_check(const struct detour_cluster *cluster, const int32_t *nodes,
                                  const int32_t *counts, struct detour_error *error);

/* A slow link between two nodes of a machine, or all links between two machines. */
struct dt_slow_path {
    bool is_between;
    int32_t a, b; /* nodes, or machines; a <= b */
    int32_t factor_permille;
    int64_t delay_ns;
};

struct dt_layout {
    const struct detour_cluster *cluster;
    const struct detour_slowness *slowness;
    int32_t *nodes;             /* [position] */
    int32_t *position;          /* [node] */
    int32_t *compute_permille;  /* [node] */
    int32_t *network_permille;  /* [node] */
    int32_t *machine;           /* [node] */
    struct dt_slow_path *paths; /* that slow links name, each once */
    int32_t path_count;
    int32_t *first_path;             /* [machine + 1]: into `path` */
    int32_t *path;                   /* the paths of each machine's nodes */
    struct detour_replica *replicas; /* [replica] */
    int64_t *ring_ns;                /* [stage] */
    int64_t *edge_ns;                /* [stage * replicas + replica]: of a ring, to the next replica */
    int64_t message_ns;              /* on a healthy link, without latency */
    int64_t gradient_ns;             /* of one part of a ring, likewise */
};

/* At the assignment `nodes`; NULL: the cluster's. All arrays are in the arena. */
enum detour_status dt_layout_create(struct detour_arena *arena, const struct detour_cluster *cluster,
                                    const struct detour_slowness *slowness, const int32_t *nodes,
                                    struct dt_layout *layout, struct detour_error *error);

/* Exchanges the nodes of two positions. */
void dt_layout_swap(struct dt_layout *layout, int32_t a, int32_t b);

/* Sets all nodes. */
void dt_layout_set(struct dt_layout *layout, const int32_t *nodes);

/* The longest ring. */
int64_t dt_layout_gradients_ns(const struct dt_layout *layout);

/* Of the replicas with these numbers of microbatches. */
int64_t dt_layout_pipeline_ns(const struct dt_layout *layout, const int32_t *counts);

/* Equal numbers of microbatches, the first ones one larger where they are not divisible. */
void dt_counts_even(const struct detour_cluster *cluster, int32_t *counts);

/* The slow path between two nodes: into `paths`; -1: none. */
int32_t dt_layout_path(const struct dt_layout *layout, int32_t a, int32_t b);

/* Some link of the node, or of another node of its machine, is on a slow path. */
bool dt_layout_has_path(const struct dt_layout *layout, int32_t node);

/* A link between two nodes, as what is slow makes it. */
struct dt_layout_link {
    int32_t factor_permille;
    int64_t delay_ns; /* of a message, without the cluster's latency */
};
struct dt_layout_link dt_layout_link_of(const struct dt_layout *layout, int32_t a, int32_t b);

/* time_ns * factor_permille / 1000, rounded up; at most DETOUR_TIME_MAX_NS. */
int64_t dt_slowed_ns(int64_t time_ns, int32_t factor_permille);

/* The time that bytes occupy a link of that factor. */
int64_t dt_transfer_ns(const struct detour_cluster *cluster, int64_t bytes, int32_t factor_permille);

#ifdef __cplusplus
}
#endif

#endif
