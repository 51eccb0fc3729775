/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs of ranks in passes: no rank twice in a pass. A coloring of the graph's edges, where a color is a
 * pass.
 */
#ifndef DETOUR_PLANNER_MITIGATE_PASSES_H
#define DETOUR_PLANNER_MITIGATE_PASSES_H

#include "detour/mitigate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* More passes than any graph of detour/mitigate.h needs. */
enum { DT_PASSES_MAX = 8 };

/*
 * The pairs, no two of the same ranks, in passes. An edge without a pass that is free at both ends gets one
 * by exchanging two passes along a path (Kempe's chain) that begins at its end; a further pass is opened
 * only where no such path helps. DETOUR_UNSUPPORTED beyond DT_PASSES_MAX.
 */
enum detour_status dt_passes_make(struct detour_arena *arena, int32_t rank_count,
                                  const struct detour_rank_pair *pairs, int32_t pair_count,
                                  int32_t pass_count, const struct detour_validation **validation,
                                  struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
