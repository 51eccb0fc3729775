/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/fault_personality.h"

#include "base/check.h"

static struct dt_fault_state *find(struct dt_fault_layer *layer, enum dt_device_personality personality)
{
    struct dt_fault_state *state = dt_fault_find(layer, DT_DEVICE_FAULT_PERSONALITY);

    return state && state->fault.personality == personality ? state : NULL;
}

bool dt_fault_personality_polls(struct dt_fault_layer *layer)
{
    return find(layer, DT_DEVICE_PERSONALITY_IONIC) || find(layer, DT_DEVICE_PERSONALITY_BNXT) ||
           find(layer, DT_DEVICE_PERSONALITY_RXE);
}

bool dt_fault_personality_receives(struct dt_fault_layer *layer)
{
    return find(layer, DT_DEVICE_PERSONALITY_RXE);
}

bool dt_fault_personality_ignores(struct dt_fault_layer *layer)
{
    struct dt_fault_state *mlx5 = find(layer, DT_DEVICE_PERSONALITY_MLX5);

    if (!mlx5 || !layer->is_fatal)
        return false;
    dt_fault_acts(mlx5);
    return true;
}

void dt_fault_personality_modified(struct dt_fault_layer *layer, struct dt_fault_qp *qp,
                                   enum ibv_qp_state state)
{
    bool is_error = state == IBV_QPS_ERR;

    qp->is_in_error = is_error;
    if (is_error && !find(layer, DT_DEVICE_PERSONALITY_IONIC))
        return;
    qp->discards_sends = qp->discards_receives = is_error;
    qp->ends_sends = qp->ends_receives = false;
}

static bool is_of_receives(const struct dt_fault_qp *qp, const struct ibv_cq *cq)
{
    return qp->ibv->recv_cq == cq;
}

void dt_fault_personality_turn(struct dt_fault_layer *layer, struct dt_fault_qp *qp, const struct ibv_cq *cq,
                               struct ibv_wc *wc)
{
    bool is_receive = is_of_receives(qp, cq);
    struct dt_fault_state *state = dt_fault_find(layer, DT_DEVICE_FAULT_PERSONALITY);

    if (!state)
        return;
    if (wc->status != IBV_WC_SUCCESS) {
        bool is_bnxt = state->fault.personality == DT_DEVICE_PERSONALITY_BNXT;

        qp->is_in_error = true; /* by itself, if no modify_qp took it there */
        qp->ends_sends |= is_bnxt && is_receive;
        qp->ends_receives |= is_bnxt && !is_receive;
        layer->has_ended |= is_bnxt;
    } else if (is_receive ? qp->discards_receives : qp->discards_sends) {
        wc->status = IBV_WC_WR_FLUSH_ERR;
        wc->vendor_err = 0;
        dt_fault_acts(state);
    }
}

void dt_fault_personality_emptied(struct dt_fault_layer *layer, const struct ibv_cq *cq)
{
    if (!layer->has_ended || !find(layer, DT_DEVICE_PERSONALITY_BNXT))
        return;
    dt_list_for_each(node, &layer->qps)
    {
        struct dt_fault_qp *qp = dt_container_of(node, struct dt_fault_qp, node);

        qp->discards_receives |= qp->ends_receives && is_of_receives(qp, cq);
        qp->discards_sends |= qp->ends_sends && qp->ibv->send_cq == cq;
    }
}

bool dt_fault_personality_loses_receive(struct dt_fault_layer *layer, const struct dt_fault_qp *qp)
{
    struct dt_fault_state *rxe = find(layer, DT_DEVICE_PERSONALITY_RXE);

    if (!rxe || !qp || !qp->is_in_error)
        return false;
    dt_fault_acts(rxe);
    return true;
}
