/* SPDX-License-Identifier: Apache-2.0 */
/* ibv_modify_qp and ibv_query_qp of an RC or UC queue pair. */
#include <errno.h>
#include <string.h>

#include "softrnic/engine_state.h"
#include "softrnic/qp_state.h"

#define MTU_SHIFT_BASE 7 /* IBV_MTU_256 is 1 */

static void enter_reset(struct dt_rnic_qp *qp)
{
    dt_qp_set_state(qp, IBV_QPS_RESET);
    dt_qp_revoke(qp);
    dt_list_remove(&qp->send_node);
    dt_requester_disarm_timer(qp);
    dt_responder_drop_answers(qp);
    dt_requester_reset(qp);
    dt_responder_reset(qp);
    qp->established = false;
    qp->link = NULL;
    memset(&qp->attr, 0, sizeof qp->attr);
    DT_CHECK(dt_list_is_empty(&qp->send_node) && dt_list_is_empty(&qp->reply_node));
    DT_CHECK(dt_list_is_empty(&qp->timer_node) && !dt_ring_used(&qp->resp.ring));
}

/* ---- modify ---- */

static bool ah_is_valid(const struct ibv_ah_attr *ah)
{
    /* As on every RoCE port, the address is a GID. */
    return ah->is_global && ah->port_num <= 1;
}

/* Checks the values that the mask selects. */
static bool values_are_valid(const struct ibv_qp_attr *attr, int mask, enum ibv_qp_state state)
{
    const unsigned access =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    const struct {
        int bit;
        bool is_valid;
    } checks[] = {
        {IBV_QP_CUR_STATE, attr->cur_qp_state == state},
        {IBV_QP_PKEY_INDEX, attr->pkey_index == 0},
        {IBV_QP_PORT, attr->port_num == 1},
        {IBV_QP_ACCESS_FLAGS, !(attr->qp_access_flags & ~access)},
        {IBV_QP_AV, ah_is_valid(&attr->ah_attr)},
        {IBV_QP_PATH_MTU, attr->path_mtu >= IBV_MTU_256 && attr->path_mtu <= IBV_MTU_4096},
        {IBV_QP_TIMEOUT, attr->timeout <= 31},
        {IBV_QP_RETRY_CNT, attr->retry_cnt <= 7},
        {IBV_QP_RNR_RETRY, attr->rnr_retry <= 7},
        {IBV_QP_MIN_RNR_TIMER, attr->min_rnr_timer <= 31},
        {IBV_QP_MAX_QP_RD_ATOMIC, attr->max_rd_atomic <= DT_RNIC_RD_ATOMIC_MAX},
        {IBV_QP_MAX_DEST_RD_ATOMIC, attr->max_dest_rd_atomic <= DT_RNIC_RD_ATOMIC_MAX},
        {IBV_QP_DEST_QPN, attr->dest_qp_num <= DT_PSN_MASK},
        {IBV_QP_ALT_PATH, false}, /* no path migration: the only path is always the migrated one */
        {IBV_QP_PATH_MIG_STATE, attr->path_mig_state == IBV_MIG_MIGRATED},
    };

    for (size_t i = 0; i < DT_COUNT_OF(checks); i++) {
        if (mask & checks[i].bit && !checks[i].is_valid)
            return false;
    }
    return true;
}

static void copy_values(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
#define COPY(bit, field) \
    if (mask & (bit))    \
    to->field = from->field
    COPY(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
    COPY(IBV_QP_PKEY_INDEX, pkey_index);
    COPY(IBV_QP_PORT, port_num);
    COPY(IBV_QP_ACCESS_FLAGS, qp_access_flags);
    COPY(IBV_QP_AV, ah_attr);
    COPY(IBV_QP_PATH_MTU, path_mtu);
    COPY(IBV_QP_TIMEOUT, timeout);
    COPY(IBV_QP_RETRY_CNT, retry_cnt);
    COPY(IBV_QP_RNR_RETRY, rnr_retry);
    COPY(IBV_QP_RQ_PSN, rq_psn);
    COPY(IBV_QP_SQ_PSN, sq_psn);
    COPY(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
    COPY(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
    COPY(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
    COPY(IBV_QP_DEST_QPN, dest_qp_num);
#undef COPY
    to->rq_psn &= DT_PSN_MASK;
    to->sq_psn &= DT_PSN_MASK;
}

static void enter(struct dt_rnic_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to)
{
    DT_CHECK(to != IBV_QPS_RESET && to != IBV_QPS_ERR); /* these have functions of their own */
    DT_CHECK(qp->link || to == IBV_QPS_INIT);
    if (to == IBV_QPS_RTR && from != IBV_QPS_RTR)
        qp->resp.psn = qp->attr.rq_psn;
    if (to == IBV_QPS_RTS && from == IBV_QPS_RTR) {
        dt_requester_start(qp, qp->attr.sq_psn);
        qp->established = true;
    }
    if (to == IBV_QPS_SQD && from != IBV_QPS_SQD)
        qp->req.drain_event = qp->attr.en_sqd_async_notify;
    dt_qp_set_state(qp, to);
}

int dt_rnic_qp_modify(struct dt_rnic_qp *qp, const struct ibv_qp_attr *attr, int attr_mask, uint64_t now_ns)
{
    enum ibv_qp_state from = dt_qp_state(qp);
    enum ibv_qp_state to = attr_mask & IBV_QP_STATE ? attr->qp_state : from;
    struct dt_wire *wire = qp->rnic->options.wire;
    struct dt_wire_link *link = qp->link;

    if (qp->rnic->is_fatal)
        return EIO;
    if (!(qp->is_unreliable ? dt_qp_transition_is_allowed_uc : dt_qp_transition_is_allowed)(from, to,
                                                                                            attr_mask) ||
        !values_are_valid(attr, attr_mask, from))
        return EINVAL;
    if (attr_mask & IBV_QP_AV)
        link = wire->ops->link(wire, attr->ah_attr.grh.dgid.raw);
    if (attr_mask & IBV_QP_AV && !link)
        return ENOMEM;
    if (to == IBV_QPS_ERR) {
        dt_qp_enter_error(qp, false);
        return 0;
    }
    if (to == IBV_QPS_RESET) {
        enter_reset(qp);
        return 0;
    }
    qp->link = link;
    copy_values(&qp->attr, attr, attr_mask);
    if (attr_mask & IBV_QP_PATH_MTU)
        qp->mtu_shift = (uint8_t)(MTU_SHIFT_BASE + attr->path_mtu);
    enter(qp, from, to);
    if (to == IBV_QPS_RTS || to == IBV_QPS_SQD) {
        dt_requester_wake(qp);
        dt_requester_retire(qp, now_ns);
        dt_rnic_progress(qp->rnic, now_ns);
    }
    DT_CHECK(dt_requester_indices_are_ordered(&qp->req) && dt_requester_timer_is_listed(qp));
    return 0;
}

void dt_rnic_qp_query(const struct dt_rnic_qp *qp, struct ibv_qp_attr *attr)
{
    *attr = qp->attr;
    attr->qp_state = dt_qp_state(qp);
    attr->cur_qp_state = attr->qp_state;
    attr->path_mig_state = IBV_MIG_MIGRATED;
    attr->rq_psn = qp->resp.psn;
    attr->sq_psn = qp->req.psn_new;
    attr->sq_draining = attr->qp_state == IBV_QPS_SQD && !dt_requester_is_drained(qp);
}
