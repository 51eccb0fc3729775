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
    return find(layer, DT_DEVICE_PERSONALITY_IONIC) || find(layer, DT_DEVICE_PERSONALITY_BNXT);
}

bool dt_fault_personality_receives(struct dt_fault_layer *layer)
{
    return find(layer, DT_DEVICE_PERSONALITY_RXE);
}

bool dt_fault_personality_posts(struct dt_fault_layer *layer)
{
    return find(layer, DT_DEVICE_PERSONALITY_MANA);
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
    bool is_ionic = find(layer, DT_DEVICE_PERSONALITY_IONIC);

    if (!is_error) {
        qp->discards_sends = qp->discards_receives = false;
        qp->ends_sends = qp->ends_receives = false;
        return;
    }
    qp->discards_sends |= is_ionic || find(layer, DT_DEVICE_PERSONALITY_BNXT);
    qp->discards_receives |= is_ionic;
}

/* Detour posts no receives to a queue pair with one completion queue for both. */
static bool is_of_receives(const struct dt_fault_qp *qp, const struct ibv_cq *cq)
{
    return qp->ibv->recv_cq == cq && qp->ibv->send_cq != cq;
}

static void flush(struct dt_fault_state *state, struct ibv_wc *wc)
{
    wc->status = IBV_WC_WR_FLUSH_ERR;
    wc->vendor_err = 0;
    dt_fault_acts(state);
}

/* The failed send wcs[last] covers the successful ones before it: the oldest of them reports its error. */
static void cover(struct dt_fault_state *state, struct ibv_wc *wcs, int last)
{
    const struct ibv_wc failed = wcs[last];
    int oldest = last;

    for (int i = last; i-- > 0;) {
        if (wcs[i].qp_num != failed.qp_num || wcs[i].status != IBV_WC_SUCCESS)
            continue;
        flush(state, &wcs[i]);
        oldest = i;
    }
    if (oldest == last)
        return;
    wcs[last].status = IBV_WC_WR_FLUSH_ERR;
    wcs[last].vendor_err = 0;
    wcs[oldest].status = failed.status;
    wcs[oldest].vendor_err = failed.vendor_err;
}

static void end_other_queue(struct dt_fault_layer *layer, struct dt_fault_qp *qp, bool is_receive)
{
    qp->ends_sends |= is_receive;
    qp->ends_receives |= !is_receive;
    layer->has_ended = true;
}

void dt_fault_personality_turn(struct dt_fault_layer *layer, struct dt_fault_qp *qp, const struct ibv_cq *cq,
                               struct ibv_wc *wcs, int last)
{
    struct dt_fault_state *state = dt_fault_find(layer, DT_DEVICE_FAULT_PERSONALITY);
    bool is_receive = is_of_receives(qp, cq);

    if (!state)
        return;
    if (wcs[last].status == IBV_WC_SUCCESS) {
        if (is_receive ? qp->discards_receives : qp->discards_sends)
            flush(state, &wcs[last]);
    } else if (state->fault.personality == DT_DEVICE_PERSONALITY_BNXT) {
        end_other_queue(layer, qp, is_receive);
        if (!is_receive)
            cover(state, wcs, last);
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

/* The device's state; false where it does not answer. */
static bool is_in_error(const struct dt_fault_layer *layer, const struct dt_fault_qp *qp)
{
    struct ibv_qp_attr attr = {0};
    struct ibv_qp_init_attr init;

    return qp && !layer->below->query_qp(qp->ibv, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_ERR;
}

static bool acts_in_error(struct dt_fault_layer *layer, const struct dt_fault_qp *qp,
                          enum dt_device_personality personality)
{
    struct dt_fault_state *state = find(layer, personality);

    if (!state || !is_in_error(layer, qp))
        return false;
    dt_fault_acts(state);
    return true;
}

bool dt_fault_personality_refuses(struct dt_fault_layer *layer, const struct dt_fault_qp *qp)
{
    return acts_in_error(layer, qp, DT_DEVICE_PERSONALITY_MANA);
}

bool dt_fault_personality_loses_receive(struct dt_fault_layer *layer, const struct dt_fault_qp *qp)
{
    return acts_in_error(layer, qp, DT_DEVICE_PERSONALITY_RXE);
}
