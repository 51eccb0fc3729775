/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that behaves in the error state as with another provider of rdma-core (fault.h describes each).
 * Part of the layer of fault_layer.h, with its mutex held; for verbs/ only.
 */
#ifndef DETOUR_VERBS_FAULT_PERSONALITY_H
#define DETOUR_VERBS_FAULT_PERSONALITY_H

#include <stdbool.h>

#include "verbs/fault_layer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The layer has a personality that changes or reads completions, or loses receives. */
bool dt_fault_personality_polls(struct dt_fault_layer *layer);
bool dt_fault_personality_receives(struct dt_fault_layer *layer);

/* True: the device's state makes the call succeed without an effect. Counted. */
bool dt_fault_personality_ignores(struct dt_fault_layer *layer);

/* modify_qp() to this state has succeeded. */
void dt_fault_personality_modified(struct dt_fault_layer *layer, struct dt_fault_qp *qp,
                                   enum ibv_qp_state state);

/* wcs[last], of `qp`, was taken from `cq`, after wcs[0] to wcs[last - 1]: it may become one of flushed work,
 * and so may those before it. */
void dt_fault_personality_turn(struct dt_fault_layer *layer, struct dt_fault_qp *qp, const struct ibv_cq *cq,
                               struct ibv_wc *wcs, int last);

/* A poll has found `cq` empty. */
void dt_fault_personality_emptied(struct dt_fault_layer *layer, const struct ibv_cq *cq);

/* The layer has a personality that refuses posts. */
bool dt_fault_personality_posts(struct dt_fault_layer *layer);

/* True: a post to `qp`, of sends or receives, is refused now. Counted. */
bool dt_fault_personality_refuses(struct dt_fault_layer *layer, const struct dt_fault_qp *qp);

/* True: the device never looks at a receive that is posted to `qp` now. Counted. */
bool dt_fault_personality_loses_receive(struct dt_fault_layer *layer, const struct dt_fault_qp *qp);

#ifdef __cplusplus
}
#endif

#endif
