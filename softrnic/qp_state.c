/* SPDX-License-Identifier: Apache-2.0 */
#include "softrnic/qp_state.h"

#include <stddef.h>

#define STATES (IBV_QPS_ERR + 1)

#define INIT_ATTRS (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_ATTRS                                                                                \
    (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | \
     IBV_QP_MIN_RNR_TIMER)
#define RTS_ATTRS \
    (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)
/* Attributes that a UC queue pair does not have. */
#define RELIABLE_ATTRS                                                                      \
    (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | \
     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)
/* Attributes that may change while data flows. */
#define LIVE_ATTRS \
    (IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE)
/* Attributes that may change while the send queue is drained. */
#define DRAINED_ATTRS                                                                              \
    (IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |              \
     IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | \
     IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE)

/* The first index is the state left, the second the state entered. */
static const struct dt_qp_transition transitions[STATES][STATES] =
    {
        [IBV_QPS_RESET] =
            {
                [IBV_QPS_RESET] = {true, 0, 0},
                [IBV_QPS_INIT] = {true, INIT_ATTRS, 0},
            },
        [IBV_QPS_INIT] =
            {
                [IBV_QPS_RESET] = {true, 0, 0},
                [IBV_QPS_ERR] = {true, 0, 0},
                [IBV_QPS_INIT] = {true, 0, INIT_ATTRS},
                [IBV_QPS_RTR] = {true, RTR_ATTRS, IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
            },
        [IBV_QPS_RTR] =
            {
                [IBV_QPS_RESET] = {true, 0, 0},
                [IBV_QPS_ERR] = {true, 0, 0},
                [IBV_QPS_RTS] = {true, RTS_ATTRS, LIVE_ATTRS},
            },
        [IBV_QPS_RTS] =
            {
                [IBV_QPS_RESET] = {true, 0, 0},
                [IBV_QPS_ERR] = {true, 0, 0},
                [IBV_QPS_RTS] = {true, 0, LIVE_ATTRS},
                [IBV_QPS_SQD] = {true, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
            },
        [IBV_QPS_SQD] =
            {
                [IBV_QPS_RESET] = {true, 0, 0},
                [IBV_QPS_ERR] = {true, 0, 0},
                [IBV_QPS_RTS] = {true, 0, LIVE_ATTRS},
                [IBV_QPS_SQD] = {true, 0, DRAINED_ATTRS},
            },
        [IBV_QPS_ERR] =
            {
                [IBV_QPS_RESET] = {true, 0, 0},
                [IBV_QPS_ERR] = {true, 0, 0},
            },
};

const struct dt_qp_transition *dt_qp_find_transition(enum ibv_qp_state from, enum ibv_qp_state to)
{
    if ((unsigned)from >= STATES || (unsigned)to >= STATES)
        return NULL;
    return &transitions[from][to];
}

bool dt_qp_transition_is_allowed(enum ibv_qp_state from, enum ibv_qp_state to, int attr_mask)
{
    const struct dt_qp_transition *transition = dt_qp_find_transition(from, to);

    if (!transition || !transition->is_valid)
        return false;
    attr_mask &= ~IBV_QP_STATE;
    if ((attr_mask & transition->required) != transition->required)
        return false;
    return !(attr_mask & ~(transition->required | transition->optional));
}

bool dt_qp_transition_is_allowed_uc(enum ibv_qp_state from, enum ibv_qp_state to, int attr_mask)
{
    const struct dt_qp_transition *transition = dt_qp_find_transition(from, to);

    if (!transition || attr_mask & RELIABLE_ATTRS)
        return false;
    return dt_qp_transition_is_allowed(from, to, attr_mask | (transition->required & RELIABLE_ATTRS));
}
