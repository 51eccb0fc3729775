/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ibv_wr_*: work requests built in steps. An operation is noted; the call that sets its data writes the
 * element, because inline data is valid only during that call; the next operation, or ibv_wr_complete, writes
 * an element without data. The first error is kept and makes ibv_wr_complete discard all elements since
 * ibv_wr_start.
 */
#include <errno.h>

#include "softrnic/front.h"

static void keep_error(struct dt_front_qp *qp, int error)
{
    if (!qp->builder.error)
        qp->builder.error = error;
}

static void finish(struct dt_front_qp *qp, const struct dt_wqe_sge *sges, uint32_t sge_count, bool is_inline)
{
    if (!qp->builder.is_open && !qp->builder.error)
        keep_error(qp, EINVAL); /* data without an operation */
    qp->builder.is_open = false;
    if (!qp->builder.error)
        keep_error(qp, dt_front_write_element(qp, qp->builder.wr_id, &qp->builder.header, sges, sge_count,
                                              is_inline));
}

static void begin(struct ibv_qp_ex *ex, uint8_t opcode, uint64_t needs, uint32_t rkey, uint64_t remote_addr,
                  uint32_t imm)
{
    struct dt_front_qp *qp = dt_front_qp_of_ex(ex);

    if (qp->builder.is_open)
        finish(qp, NULL, 0, false);
    if (!(qp->send_ops & needs))
        keep_error(qp, EINVAL); /* not asked for when the QP was created */
    qp->builder.wr_id = ex->wr_id;
    qp->builder.header = (struct dt_wqe_header){.qpn = ex->qp_base.qp_num,
                                                .opcode = opcode,
                                                .flags = dt_front_wqe_flags(qp, ex->wr_flags),
                                                .imm = imm,
                                                .remote_addr = remote_addr,
                                                .rkey = rkey};
    qp->builder.is_open = true;
}

/* ---- operations -----------------------------------------------------------------------------------------
 */

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
    begin(ex, DT_WQE_READ, IBV_QP_EX_WITH_RDMA_READ, rkey, remote_addr, 0);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
    begin(ex, DT_WQE_WRITE, IBV_QP_EX_WITH_RDMA_WRITE, rkey, remote_addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, __be32 imm_data)
{
    begin(ex, DT_WQE_WRITE_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, rkey, remote_addr, imm_data);
}

static void wr_send(struct ibv_qp_ex *ex)
{
    begin(ex, DT_WQE_SEND, IBV_QP_EX_WITH_SEND, 0, 0, 0);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
    begin(ex, DT_WQE_SEND_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM, 0, 0, imm_data);
}

/* ---- data -----------------------------------------------------------------------------------------------
 */

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
    struct dt_front_qp *qp = dt_front_qp_of_ex(ex);
    struct dt_wqe_sge sge = {.addr = addr, .bytes = length, .lkey = lkey};

    if (length & DT_WQE_INLINE)
        keep_error(qp, EINVAL);
    finish(qp, &sge, 1, false);
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t num_sge, const struct ibv_sge *sg_list)
{
    struct dt_front_qp *qp = dt_front_qp_of_ex(ex);
    struct dt_wqe_sge sges[DT_RNIC_SGE_MAX];

    if (num_sge > DT_RNIC_SGE_MAX) {
        keep_error(qp, EINVAL);
        num_sge = 0;
    }
    for (size_t i = 0; i < num_sge; i++) {
        if (sg_list[i].length & DT_WQE_INLINE)
            keep_error(qp, EINVAL);
        sges[i] = (struct dt_wqe_sge){sg_list[i].addr, sg_list[i].length, sg_list[i].lkey};
    }
    finish(qp, sges, (uint32_t)num_sge, false);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t num_buf, const struct ibv_data_buf *buf_list)
{
    struct dt_front_qp *qp = dt_front_qp_of_ex(ex);
    struct dt_wqe_sge sges[DT_RNIC_SGE_MAX];

    if (num_buf > DT_RNIC_SGE_MAX || qp->builder.header.opcode == DT_WQE_READ) {
        keep_error(qp, EINVAL);
        num_buf = 0;
    }
    for (size_t i = 0; i < num_buf; i++) {
        if (buf_list[i].length > DT_RNIC_INLINE_BYTES_MAX) {
            keep_error(qp, EINVAL);
            num_buf = 0;
            break;
        }
        sges[i] = (struct dt_wqe_sge){(uintptr_t)buf_list[i].addr, (uint32_t)buf_list[i].length, 0};
    }
    finish(qp, sges, (uint32_t)num_buf, true);
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
    struct ibv_data_buf buffer = {.addr = addr, .length = length};

    wr_set_inline_data_list(ex, 1, &buffer);
}

/* ---- start and end --------------------------------------------------------------------------------------
 */

static void wr_start(struct ibv_qp_ex *ex)
{
    struct dt_front_qp *qp = dt_front_qp_of_ex(ex);

    pthread_mutex_lock(&qp->send_lock);
    qp->builder.head = qp->head;
    qp->builder.wr_head = qp->wr_head;
    qp->builder.is_open = false;
    qp->builder.error = dt_front_may_send(qp);
}

static void take_back(struct dt_front_qp *qp)
{
    qp->head = qp->builder.head;
    qp->wr_head = qp->builder.wr_head;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
    struct dt_front_qp *qp = dt_front_qp_of_ex(ex);

    if (qp->builder.is_open)
        finish(qp, NULL, 0, false);
    int error = qp->builder.error;
    bool any = !error && qp->head != qp->builder.head;

    DT_CHECK_HOT((uint16_t)(qp->head - qp->builder.head) <= qp->ring.blocks);
    if (error)
        take_back(qp);
    if (any)
        dt_front_announce(qp);
    pthread_mutex_unlock(&qp->send_lock);
    if (any)
        dt_driver_ring(qp->device, qp->engine);
    return error;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
    struct dt_front_qp *qp = dt_front_qp_of_ex(ex);

    take_back(qp);
    pthread_mutex_unlock(&qp->send_lock);
}

/* ---- unsupported operations -----------------------------------------------------------------------------
 */

static void refuse(struct ibv_qp_ex *ex)
{
    keep_error(dt_front_qp_of_ex(ex), EOPNOTSUPP);
}

#define UNUSED __attribute__((unused))

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey UNUSED, uint64_t remote_addr UNUSED,
                              uint64_t compare UNUSED, uint64_t swap UNUSED)
{
    refuse(ex);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey UNUSED, uint64_t remote_addr UNUSED,
                                uint64_t add UNUSED)
{
    refuse(ex);
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw UNUSED, uint32_t rkey UNUSED,
                       const struct ibv_mw_bind_info *info UNUSED)
{
    refuse(ex);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey UNUSED)
{
    refuse(ex);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey UNUSED)
{
    refuse(ex);
}

static void wr_send_tso(struct ibv_qp_ex *ex, void *hdr UNUSED, uint16_t hdr_bytes UNUSED,
                        uint16_t mss UNUSED)
{
    refuse(ex);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah UNUSED, uint32_t qpn UNUSED,
                           uint32_t qkey UNUSED)
{
    refuse(ex);
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn UNUSED)
{
    refuse(ex);
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey UNUSED, uint64_t remote_addr UNUSED,
                            const void *data UNUSED)
{
    refuse(ex);
}

void dt_front_fill_wr_ops(struct dt_front_qp *qp)
{
    struct ibv_qp_ex *ex = &qp->ex;

    ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
    ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
    ex->wr_bind_mw = wr_bind_mw;
    ex->wr_local_inv = wr_local_inv;
    ex->wr_rdma_read = wr_rdma_read;
    ex->wr_rdma_write = wr_rdma_write;
    ex->wr_rdma_write_imm = wr_rdma_write_imm;
    ex->wr_send = wr_send;
    ex->wr_send_imm = wr_send_imm;
    ex->wr_send_inv = wr_send_inv;
    ex->wr_send_tso = wr_send_tso;
    ex->wr_set_ud_addr = wr_set_ud_addr;
    ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
    ex->wr_set_inline_data = wr_set_inline_data;
    ex->wr_set_inline_data_list = wr_set_inline_data_list;
    ex->wr_set_sge = wr_set_sge;
    ex->wr_set_sge_list = wr_set_sge_list;
    ex->wr_start = wr_start;
    ex->wr_complete = wr_complete;
    ex->wr_abort = wr_abort;
    ex->wr_atomic_write = wr_atomic_write;
}
