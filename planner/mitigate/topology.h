/* SPDX-License-Identifier: Apache-2.0 */
/* A lower bound over all assignments of nodes to positions. */
#ifndef DETOUR_PLANNER_MITIGATE_TOPOLOGY_H
#define DETOUR_PLANNER_MITIGATE_TOPOLOGY_H

#include "planner/mitigate/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * No assignment of the layout's nodes has an estimated iteration below *bound_ns. Of links only the
 * slowest network of a node counts, in the rings; stragglers count at the least:
 *
 *   even   of the j D + 1 slowest nodes, some replica has j + 1, in the stages with the least work
 *   else   the replica that is i-th in slowness has a node as slow as the (i P + 1)-th slowest, since those
 *          before it have only i P nodes; S2 on that
 */
enum detour_status dt_topology_bound(struct detour_arena *arena, const struct dt_layout *layout, bool even,
                                     int64_t *bound_ns, struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
