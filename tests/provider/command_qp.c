/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/mlx5dv.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include "base/util.h"
#include "softrnic/wqe.h"
#include "tests/provider/command.h"
#include "tests/provider/events.h"

/* What the kernel sets up otherwise, or not at all. SCATTER_CQE is a permission, which is not used. */
#define FLAGS_ANSWERED (MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_BFREG_INDEX)

/* ------------------------------------------------------------------------------------------------------------
 * Creation
 */
static const char *wrong_qp(const struct ib_uverbs_create_qp *core, const struct mlx5_ib_create_qp *mlx5)
{
    if (core->qp_type != IBV_QPT_RC)
        return "a queue pair that is not RC";
    if (core->is_srq)
        return "a queue pair with a shared receive queue";
    if (mlx5->flags & ~(uint32_t)FLAGS_ANSWERED)
        return "a queue pair with signatures, or other flags";
    if (!dt_is_power_of_two(mlx5->sq_wqe_count) ||
        (mlx5->rq_wqe_count && !dt_is_power_of_two(mlx5->rq_wqe_count)))
        return "a queue pair whose queues are no powers of two, or without a send queue";
    if (mlx5->flags & MLX5_QP_FLAG_BFREG_INDEX && mlx5->bfreg_index >= DT_UVERBS_DYNAMIC_MAX)
        return "a queue pair with a doorbell register beyond the last";
    return NULL;
}

/* The engine's queue pair with a send queue of as many blocks, which it hands out. */
static int create_soft(struct dt_uverbs_qp *qp, struct dt_uverbs_call *call,
                       const struct ib_uverbs_create_qp *core)
{
    struct dt_uverbs_object *pd = dt_uverbs_find(call->context, DT_UVERBS_PD, core->pd_handle);
    struct dt_uverbs_object *send_cq = dt_uverbs_find(call->context, DT_UVERBS_CQ, core->send_cq_handle);
    struct dt_uverbs_object *recv_cq = dt_uverbs_find(call->context, DT_UVERBS_CQ, core->recv_cq_handle);

    if (!pd || !send_cq || !recv_cq)
        return EINVAL;
    struct ibv_qp_init_attr attr = {
        .send_cq = send_cq->soft.cq,
        .recv_cq = recv_cq->soft.cq,
        .qp_type = IBV_QPT_RC,
        /* One block each: the provider's elements have any length, and the engine counts blocks. */
        .cap = {.max_send_wr = qp->sq_blocks,
                .max_send_sge = 1,
                .max_recv_wr = qp->rq_count,
                .max_recv_sge = qp->rq_stride / (uint32_t)sizeof(struct mlx5_wqe_data_seg)}};
    qp->object.soft.qp = dt_soft_create_qp(pd->soft.pd, &attr);
    if (!qp->object.soft.qp)
        return errno;
    int error = dt_soft_query_qp_dv(qp->object.soft.qp, &qp->engine);
    if (!error && qp->engine.sq_wqe_count != qp->sq_blocks)
        error = EINVAL;
    if (error)
        dt_soft_destroy_qp(qp->object.soft.qp);
    return error;
}

/*
 * A doorbell register: one that the provider mapped for a thread domain, or in turn one of the static ones
 * that the provider locks. Their indices count four in a page, of which the first two exist (libmlx5's
 * NUM_BFREGS_PER_UAR and MLX5_NUM_NON_FP_BFREGS_PER_UAR). Register 0 has no second buffer and no lock.
 */
static uint32_t assign_register(struct dt_uverbs_context *context, struct dt_uverbs_qp *qp,
                                const struct mlx5_ib_create_qp *mlx5)
{
    uint32_t medium = context->register_count - context->low_latency;
    uint32_t number = mlx5->bfreg_index, page = DT_UVERBS_DYNAMIC_PAGE;

    if (!(mlx5->flags & MLX5_QP_FLAG_BFREG_INDEX)) {
        number = medium > 1 ? 1 + context->register_next++ % (medium - 1) : 0;
        page = 0;
    }
    qp->register_at =
        (uint64_t *)(void *)(context->pages + (size_t)(page + number / 2) * DT_UVERBS_PAGE_BYTES +
                             DT_UVERBS_REGISTER_START + (number % 2) * DT_UVERBS_REGISTER_BYTES);
    return number / 2 * 4 + number % 2;
}

static void answer_create(struct dt_uverbs_call *call, const struct ib_uverbs_create_qp *core,
                          const struct dt_uverbs_qp *qp, uint32_t bfreg_index)
{
    struct ib_uverbs_create_qp_resp out = {.qp_handle = qp->object.handle,
                                           .qpn = qp->object.soft.qp->qp_num,
                                           .max_send_wr = core->max_send_wr,
                                           .max_recv_wr = core->max_recv_wr,
                                           .max_send_sge = core->max_send_sge,
                                           .max_recv_sge = core->max_recv_sge,
                                           .max_inline_data = core->max_inline_data};
    struct mlx5_ib_create_qp_resp mlx5 = {.bfreg_index = bfreg_index};

    dt_uverbs_put(call, 0, &out, sizeof out);
    dt_uverbs_put(call, sizeof out, &mlx5, sizeof mlx5);
}

int dt_uverbs_create_qp(struct dt_uverbs_call *call)
{
    struct ib_uverbs_create_qp core;
    struct mlx5_ib_create_qp mlx5;

    dt_uverbs_get(call, 0, &core, sizeof core);
    dt_uverbs_get(call, sizeof core, &mlx5, sizeof mlx5);
    const char *wrong = wrong_qp(&core, &mlx5);
    if (wrong) {
        dt_uverbs_refuse("CREATE_QP: %s (flags %#x)", wrong, mlx5.flags);
        return EOPNOTSUPP;
    }
    struct dt_uverbs_qp *qp = calloc(1, sizeof *qp);
    if (!qp)
        return ENOMEM;
    qp->object.user_handle = core.user_handle;
    qp->rq = (const uint8_t *)(uintptr_t)mlx5.buf_addr;
    qp->rq_count = mlx5.rq_wqe_count;
    qp->rq_stride = 1u << mlx5.rq_wqe_shift;
    qp->sq = qp->rq + (size_t)qp->rq_count * qp->rq_stride;
    qp->sq_blocks = mlx5.sq_wqe_count;
    qp->records = (const uint32_t *)(uintptr_t)mlx5.db_addr;
    qp->user_index = mlx5.uidx;
    int error = create_soft(qp, call, &core);
    if (error) {
        free(qp);
        return error;
    }
    qp->object.soft.qp->qp_context = qp;
    dt_uverbs_add(call->context, DT_UVERBS_QP, &qp->object);
    answer_create(call, &core, qp, assign_register(call->context, qp, &mlx5));
    return 0;
}

int dt_uverbs_destroy_qp(struct dt_uverbs_call *call)
{
    struct ib_uverbs_destroy_qp request;
    struct ib_uverbs_destroy_qp_resp out = {0};

    dt_uverbs_get(call, 0, &request, sizeof request);
    struct dt_uverbs_qp *qp = dt_uverbs_find(call->context, DT_UVERBS_QP, request.qp_handle);
    if (!qp)
        return EINVAL;
    out.events_reported = dt_uverbs_events_forget(&qp->object);
    int error = dt_uverbs_destroy(DT_UVERBS_QP, &qp->object);
    dt_uverbs_put(call, 0, &out, error ? 0 : sizeof out);
    return error;
}

/* ------------------------------------------------------------------------------------------------------------
 * States
 */
static void read_path(const struct ib_uverbs_qp_dest *from, struct ibv_ah_attr *to)
{
    memset(to, 0, sizeof *to);
    memcpy(to->grh.dgid.raw, from->dgid, sizeof to->grh.dgid.raw);
    to->grh.flow_label = from->flow_label;
    to->grh.sgid_index = from->sgid_index;
    to->grh.hop_limit = from->hop_limit;
    to->grh.traffic_class = from->traffic_class;
    to->dlid = from->dlid;
    to->sl = from->sl;
    to->src_path_bits = from->src_path_bits;
    to->static_rate = from->static_rate;
    to->is_global = from->is_global;
    to->port_num = from->port_num;
}

static void write_path(const struct ibv_ah_attr *from, struct ib_uverbs_qp_dest *to)
{
    memcpy(to->dgid, from->grh.dgid.raw, sizeof to->dgid);
    to->flow_label = from->grh.flow_label;
    to->sgid_index = from->grh.sgid_index;
    to->hop_limit = from->grh.hop_limit;
    to->traffic_class = from->grh.traffic_class;
    to->dlid = from->dlid;
    to->sl = from->sl;
    to->src_path_bits = from->src_path_bits;
    to->static_rate = from->static_rate;
    to->is_global = from->is_global;
    to->port_num = from->port_num;
}

/* The members that the two structs have in common, apart from the paths. */
#define SAME_MEMBERS(X)   \
    X(qkey)               \
    X(rq_psn)             \
    X(sq_psn)             \
    X(dest_qp_num)        \
    X(pkey_index)         \
    X(alt_pkey_index)     \
    X(max_rd_atomic)      \
    X(max_dest_rd_atomic) \
    X(min_rnr_timer)      \
    X(port_num)           \
    X(timeout)            \
    X(retry_cnt)          \
    X(rnr_retry)          \
    X(alt_port_num)       \
    X(alt_timeout)

int dt_uverbs_modify_qp(struct dt_uverbs_call *call)
{
    struct ib_uverbs_modify_qp request;
    struct ibv_qp_attr attr = {0};

    dt_uverbs_get(call, 0, &request, sizeof request);
    struct dt_uverbs_qp *qp = dt_uverbs_find(call->context, DT_UVERBS_QP, request.qp_handle);
    if (!qp)
        return EINVAL;
#define READ(member) attr.member = request.member;
    SAME_MEMBERS(READ)
#undef READ
    attr.qp_state = (enum ibv_qp_state)request.qp_state;
    attr.cur_qp_state = (enum ibv_qp_state)request.cur_qp_state;
    attr.path_mtu = (enum ibv_mtu)request.path_mtu;
    attr.path_mig_state = (enum ibv_mig_state)request.path_mig_state;
    attr.qp_access_flags = request.qp_access_flags;
    attr.en_sqd_async_notify = request.en_sqd_async_notify;
    read_path(&request.dest, &attr.ah_attr);
    read_path(&request.alt_dest, &attr.alt_ah_attr);
    int error = dt_soft_modify_qp(qp->object.soft.qp, &attr, (int)request.attr_mask);
    if (error || !(request.attr_mask & IBV_QP_STATE))
        return error;
    qp->is_active = attr.qp_state != IBV_QPS_RESET;
    if (!qp->is_active) {
        qp->rq_taken = 0;
        qp->sq_taken = 0;
    }
    return 0;
}

int dt_uverbs_query_qp(struct dt_uverbs_call *call)
{
    struct ib_uverbs_query_qp request;
    struct ibv_qp_attr attr;

    dt_uverbs_get(call, 0, &request, sizeof request);
    struct dt_uverbs_qp *qp = dt_uverbs_find(call->context, DT_UVERBS_QP, request.qp_handle);
    int error = qp ? dt_soft_query_qp(qp->object.soft.qp, &attr, (int)request.attr_mask, NULL) : EINVAL;
    if (error)
        return error;
    struct ib_uverbs_query_qp_resp out = {.max_recv_wr = attr.cap.max_recv_wr,
                                          .max_recv_sge = attr.cap.max_recv_sge,
                                          .max_send_wr = attr.cap.max_send_wr,
                                          .max_send_sge = attr.cap.max_send_sge,
                                          .qp_state = (uint8_t)attr.qp_state,
                                          .cur_qp_state = (uint8_t)attr.cur_qp_state,
                                          .path_mtu = (uint8_t)attr.path_mtu,
                                          .path_mig_state = (uint8_t)attr.path_mig_state,
                                          .sq_draining = attr.sq_draining,
                                          .qp_access_flags = (uint32_t)attr.qp_access_flags};
#define WRITE(member) out.member = attr.member;
    SAME_MEMBERS(WRITE)
#undef WRITE
    write_path(&attr.ah_attr, &out.dest);
    write_path(&attr.alt_ah_attr, &out.alt_dest);
    dt_uverbs_put(call, 0, &out, sizeof out);
    return 0;
}
