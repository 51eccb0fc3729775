/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lower bounds over all partitions, placements and schedules of a model, each of them valid for itself. With
 * s the fastest speed, F, B, W the times of layer l at nominal speed, N microbatches, P devices; all sums
 * over layers:
 *
 *   chain     one microbatch there and back: sum of (F + B) / s, the W of layer 0, and P - 1 messages each
 * way over the fastest links, because every device has a stage. layer     the device of layer l is busy with
 * N (F + B + W) / s, after the F's of the layers before; and with N (F + B) / s between those and the B's on
 * the way back. work      N sum(F + B + W) by all devices together, each from the time at which a stage of
 * its own can begin: in the order of their first stages, device k has at least k layers before it. packing of
 * the m P + 1 heaviest layers one device has m + 1. memory    each activation is held from its F to its B, at
 * least the time of all layers behind; all together not more than the devices have beside parameters,
 * gradients and optimizer state (Little's law).
 */
#ifndef DETOUR_PLANNER_BOUND_H
#define DETOUR_PLANNER_BOUND_H

#include "detour/optimize.h"
#include "planner/pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills *bound; scratch memory is given back. DETOUR_NO_MEMORY. */
enum detour_status dt_model_bound(struct detour_arena *arena, const struct dt_space *space,
                                  struct detour_model_bound *bound, struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
