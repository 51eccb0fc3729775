/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <errno.h>

#include "base/atomics.h"
#include "softrnic/front.h"

/* ---- room -----------------------------------------------------------------------------------------------
 */

uint32_t dt_front_blocks_per_wr(const struct ibv_qp_cap *cap)
{
    uint32_t with_sges = dt_wqe_blocks(DT_WQE_WRITE, cap->max_send_sge);
    uint32_t with_inline = dt_wqe_blocks_inline(DT_WQE_WRITE, cap->max_inline_data);

    return with_sges > with_inline ? with_sges : with_inline;
}

static bool has_room(const struct dt_front_qp *qp, uint32_t blocks)
{
    uint16_t used = (uint16_t)(qp->head - dt_load_acquire(&qp->tail));

    DT_CHECK_HOT(used <= qp->ring.blocks);
    return used + blocks <= qp->ring.blocks &&
           qp->wr_head - dt_load_acquire(&qp->wr_tail) < qp->init.cap.max_send_wr;
}

static void remember(struct dt_front_qp *qp, uint64_t wr_id, uint32_t blocks)
{
    struct dt_front_sent *sent = &qp->sent[qp->head & (qp->ring.blocks - 1)];

    DT_CHECK_HOT(blocks > 0 && blocks <= qp->ring.blocks);
    sent->wr_id = wr_id;
    sent->wr_number = qp->wr_head++;
    sent->blocks = blocks;
    qp->head = (uint16_t)(qp->head + blocks);
}

uint64_t dt_front_retire(struct dt_front_qp *qp, uint16_t wqe_counter)
{
    const struct dt_front_sent *sent = &qp->sent[wqe_counter & (qp->ring.blocks - 1)];
    uint64_t wr_id = sent->wr_id;

    if (dt_load_acquire(&qp->is_dv))
        return wqe_counter;
    DT_CHECK_HOT((int32_t)(sent->wr_number - qp->wr_tail) >= 0); /* completions come in order */
    /* A signaled completion implies the completion of the unsignaled work requests before it. */
    dt_store_release(&qp->wr_tail, sent->wr_number + 1);
    dt_store_release(&qp->tail, (uint16_t)(wqe_counter + sent->blocks));
    return wr_id;
}

void dt_front_announce(struct dt_front_qp *qp)
{
    dt_store_release(&qp->doorbell[DT_DBREC_SEND], htobe32(qp->head));
}

int dt_front_may_send(const struct dt_front_qp *qp)
{
    enum ibv_qp_state state = dt_rnic_qp_state(qp->engine);

    if (dt_load_relaxed(&qp->is_dv))
        return EINVAL;
    return state == IBV_QPS_RESET || state == IBV_QPS_INIT || state == IBV_QPS_RTR ? EINVAL : 0;
}

/* ---- sending --------------------------------------------------------------------------------------------
 */

uint8_t dt_front_wqe_flags(const struct dt_front_qp *qp, unsigned send_flags)
{
    return (uint8_t)((send_flags & IBV_SEND_SIGNALED || qp->init.sq_sig_all ? DT_WQE_SIGNALED : 0) |
                     (send_flags & IBV_SEND_SOLICITED ? DT_WQE_SOLICITED : 0) |
                     (send_flags & IBV_SEND_FENCE ? DT_WQE_FENCE : 0));
}

/* 0, EOPNOTSUPP for an operation that the device does not support, EINVAL for an unknown operation. */
static int fill_header(const struct dt_front_qp *qp, const struct ibv_send_wr *wr,
                       struct dt_wqe_header *header)
{
    header->qpn = qp->ex.qp_base.qp_num;
    header->flags = dt_front_wqe_flags(qp, wr->send_flags);
    header->imm = wr->imm_data;
    header->remote_addr = wr->wr.rdma.remote_addr;
    header->rkey = wr->wr.rdma.rkey;
    switch (wr->opcode) {
    case IBV_WR_RDMA_WRITE:
        header->opcode = DT_WQE_WRITE;
        return 0;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        header->opcode = DT_WQE_WRITE_IMM;
        return 0;
    case IBV_WR_SEND:
        header->opcode = DT_WQE_SEND;
        return 0;
    case IBV_WR_SEND_WITH_IMM:
        header->opcode = DT_WQE_SEND_IMM;
        return 0;
    case IBV_WR_RDMA_READ:
        header->opcode = DT_WQE_READ;
        return wr->send_flags & IBV_SEND_INLINE ? EINVAL : 0;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
    case IBV_WR_LOCAL_INV:
    case IBV_WR_BIND_MW:
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_TSO:
    case IBV_WR_DRIVER1:
    case IBV_WR_ATOMIC_WRITE:
        return EOPNOTSUPP;
    }
    return EINVAL;
}

int dt_front_write_element(struct dt_front_qp *qp, uint64_t wr_id, const struct dt_wqe_header *header,
                           const struct dt_wqe_sge *sges, uint32_t sge_count, bool is_inline)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < sge_count; i++)
        bytes += sges[i].bytes;
    if (is_inline ? bytes > qp->init.cap.max_inline_data : sge_count > qp->init.cap.max_send_sge)
        return EINVAL;
    uint32_t blocks = is_inline ? dt_wqe_blocks_inline(header->opcode, (uint32_t)bytes)
                                : dt_wqe_blocks(header->opcode, sge_count);
    if (!has_room(qp, blocks))
        return ENOMEM;
    blocks = is_inline ? dt_wqe_encode_inline(&qp->ring, qp->head, header, sges, sge_count)
                       : dt_wqe_encode(&qp->ring, qp->head, header, sges, sge_count);
    remember(qp, wr_id, blocks);
    return 0;
}

static int post_one(struct dt_front_qp *qp, const struct ibv_send_wr *wr)
{
    struct dt_wqe_sge sges[DT_RNIC_SGE_MAX];
    struct dt_wqe_header header;
    int error = fill_header(qp, wr, &header);

    if (error)
        return error;
    if (wr->num_sge < 0 || wr->num_sge > (int)DT_RNIC_SGE_MAX)
        return EINVAL;
    for (int i = 0; i < wr->num_sge; i++) {
        /* The element has 31 bits for the length. */
        if (wr->sg_list[i].length & DT_WQE_INLINE)
            return EINVAL;
        sges[i].addr = wr->sg_list[i].addr;
        sges[i].bytes = wr->sg_list[i].length;
        sges[i].lkey = wr->sg_list[i].lkey;
    }
    return dt_front_write_element(qp, wr->wr_id, &header, sges, (uint32_t)wr->num_sge,
                                  wr->send_flags & IBV_SEND_INLINE);
}

int dt_front_post_send(struct ibv_qp *public_qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
    struct dt_front_qp *qp = dt_front_qp_of(public_qp);
    bool any = false;

    pthread_mutex_lock(&qp->send_lock);
    int error = dt_front_may_send(qp);
    for (; !error && wr; any |= !error, wr = error ? wr : wr->next)
        error = post_one(qp, wr);
    if (error)
        *bad_wr = wr;
    if (any)
        dt_front_announce(qp);
    pthread_mutex_unlock(&qp->send_lock);
    if (any)
        dt_driver_ring(qp->device, qp->engine);
    return error;
}

/* ---- receiving ------------------------------------------------------------------------------------------
 */

int dt_front_post_recv(struct ibv_qp *public_qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    struct dt_front_qp *qp = dt_front_qp_of(public_qp);
    bool must_kick = false;
    int error = 0;

    pthread_mutex_lock(&qp->recv_lock);
    for (; wr; wr = wr->next) {
        bool kick_for_this = false;

        error = dt_rnic_qp_post_recv(qp->engine, wr->wr_id, wr->sg_list, wr->num_sge, &kick_for_this);
        must_kick |= kick_for_this;
        if (error)
            break;
    }
    if (error)
        *bad_wr = wr;
    pthread_mutex_unlock(&qp->recv_lock);
    if (must_kick)
        dt_driver_ring(qp->device, qp->engine);
    return error;
}
