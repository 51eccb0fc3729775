/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state table of an RC or UC queue pair: the transitions, and the attributes that each requires and
 * allows. The table is ibv_modify_qp(3)'s, completed by the optional attributes of the InfiniBand
 * specification (volume 1, table "QP state transition properties"), as Linux' verbs core has them.
 *
 *   from \ to  RESET  INIT  RTR  RTS  SQD  ERR
 *   RESET       x      r
 *   INIT        x      o     r              x      x no attributes   o optional ones
 *   RTR         x            -   r          x      r required ones too
 *   RTS         x                o    o     x      - not a transition
 *   SQD         x                o    o     x
 *   ERR         x                           x
 *
 * SQE is never reached: a send error of a UC queue pair enters ERR here.
 */
#ifndef DETOUR_SOFTRNIC_QP_STATE_H
#define DETOUR_SOFTRNIC_QP_STATE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dt_qp_transition {
    bool is_valid;
    int required; /* enum ibv_qp_attr_mask, without IBV_QP_STATE */
    int optional;
};

/* NULL for states outside the enumeration. */
const struct dt_qp_transition *dt_qp_find_transition(enum ibv_qp_state from, enum ibv_qp_state to);

/* May a queue pair go from `from` to `to` with exactly the attributes of `attr_mask`? */
bool dt_qp_transition_is_allowed(enum ibv_qp_state from, enum ibv_qp_state to, int attr_mask);

/* The same for a UC queue pair, which has no attributes of retries, timers and READs. */
bool dt_qp_transition_is_allowed_uc(enum ibv_qp_state from, enum ibv_qp_state to, int attr_mask);

#ifdef __cplusplus
}
#endif

#endif
