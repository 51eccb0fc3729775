/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/provider/queues.h"

#include <endian.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include <infiniband/mlx5dv.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/thread.h"
#include "base/util.h"
#include "softrnic/front.h"
#include "softrnic/wqe.h"
#include "tests/provider/events.h"

#define BATCH        16
#define SLEEP_NS     20000
#define RECORD_TAKEN 0  /* of the two records of a CQ: the consumer index */
#define EVENT_ROUNDS 64 /* asynchronous events are looked for once in so many rounds */

static pthread_t thread;
static uint32_t must_stop; /* atomic */

static struct dt_uverbs_qp *qp_of(struct dt_list *node)
{
    return (struct dt_uverbs_qp *)dt_container_of(node, struct dt_uverbs_object, node);
}

/* ------------------------------------------------------------------------------------------------------------
 * From the provider's queues to the engine
 */
/* Was a buffer of the register written since the last look? The word that a doorbell writes is never 0. */
static bool take_doorbell(uint64_t *at)
{
    bool is_rung = false;

    for (size_t buffer = 0; buffer < 2; buffer++) {
        uint64_t *word = at + buffer * (DT_UVERBS_REGISTER_BYTES / 2 / sizeof *at);

        is_rung |= dt_load_acquire(word) && dt_exchange_acq_rel(word, 0);
    }
    return is_rung;
}

/* The blocks that the record announces, into the engine's ring; it then reads them as its own. */
static bool take_sends(struct dt_uverbs_qp *qp)
{
    uint16_t end = (uint16_t)be32toh(dt_load_acquire(&qp->records[DT_DBREC_SEND]));
    uint32_t mask = qp->sq_blocks - 1;

    if (end == qp->sq_taken || !qp->is_active)
        return false;
    for (; qp->sq_taken != end; qp->sq_taken++)
        memcpy((uint8_t *)qp->engine.sq_buf + (size_t)(qp->sq_taken & mask) * DT_WQE_BLOCK_BYTES,
               qp->sq + (size_t)(qp->sq_taken & mask) * DT_WQE_BLOCK_BYTES, DT_WQE_BLOCK_BYTES);
    dt_store_release(&qp->engine.dbrec[DT_DBREC_SEND], htobe32(end));
    qp->engine.ring(qp->engine.ring_arg);
    return true;
}

/* A receive element is data segments; one with the invalid key ends it early. */
static int post_one(struct dt_uverbs_qp *qp, uint16_t index)
{
    const uint8_t *element = qp->rq + (size_t)(index & (qp->rq_count - 1)) * qp->rq_stride;
    struct ibv_sge sges[DT_RNIC_SGE_MAX];
    struct ibv_recv_wr wr = {.wr_id = index, .sg_list = sges}, *bad;
    struct mlx5_wqe_data_seg segment;

    for (uint32_t at = 0; at + sizeof segment <= qp->rq_stride && wr.num_sge < (int)DT_RNIC_SGE_MAX;
         at += sizeof segment) {
        memcpy(&segment, element + at, sizeof segment);
        if (segment.lkey == htobe32(MLX5_INVALID_LKEY))
            break;
        sges[wr.num_sge++] =
            (struct ibv_sge){be64toh(segment.addr), be32toh(segment.byte_count), be32toh(segment.lkey)};
    }
    return ibv_post_recv(qp->object.soft.qp, &wr, &bad);
}

static bool take_receives(struct dt_uverbs_qp *qp)
{
    uint16_t end =
        qp->is_active ? (uint16_t)be32toh(dt_load_acquire(&qp->records[DT_DBREC_RECV])) : qp->rq_taken;
    bool any = end != qp->rq_taken;

    for (; qp->rq_taken != end; qp->rq_taken++) {
        int error = post_one(qp, qp->rq_taken);

        if (error) {
            dt_uverbs_refuse("a receive of queue pair %u, and those behind it: %s",
                             qp->object.soft.qp->qp_num, strerror(error));
            qp->rq_taken = end;
            break;
        }
    }
    return any;
}

/* Queue pairs may share a register, so all that have one which was written are looked at. */
static bool take_all(struct dt_uverbs_context *context)
{
    struct dt_list *list = &context->objects[DT_UVERBS_QP];
    bool any = false;

    dt_list_for_each(node, list)
    {
        struct dt_uverbs_qp *qp = qp_of(node);

        any |= take_receives(qp);
        if (!take_doorbell(qp->register_at))
            continue;
        dt_list_for_each(other, list)
        {
            if (qp_of(other)->register_at == qp->register_at)
                any |= take_sends(qp_of(other));
        }
    }
    return any;
}

/* ------------------------------------------------------------------------------------------------------------
 * From the engine to the provider's CQ
 */
/* mlx5_cqe_syndrome of the status, as libmlx5 maps it back. */
static uint8_t syndrome_of(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_LOC_LEN_ERR:
        return MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR;
    case IBV_WC_LOC_QP_OP_ERR:
        return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
    case IBV_WC_LOC_PROT_ERR:
        return MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
    case IBV_WC_WR_FLUSH_ERR:
        return MLX5_CQE_SYNDROME_WR_FLUSH_ERR;
    case IBV_WC_BAD_RESP_ERR:
        return MLX5_CQE_SYNDROME_BAD_RESP_ERR;
    case IBV_WC_LOC_ACCESS_ERR:
        return MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR;
    case IBV_WC_REM_INV_REQ_ERR:
        return MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR;
    case IBV_WC_REM_ACCESS_ERR:
        return MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR;
    case IBV_WC_REM_OP_ERR:
        return MLX5_CQE_SYNDROME_REMOTE_OP_ERR;
    case IBV_WC_RETRY_EXC_ERR:
        return MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR;
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR;
    default:
        return MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR;
    }
}

static uint8_t opcode_of(const struct ibv_wc *wc)
{
    bool is_receive = wc->opcode & IBV_WC_RECV;

    if (wc->status != IBV_WC_SUCCESS)
        return is_receive ? MLX5_CQE_RESP_ERR : MLX5_CQE_REQ_ERR;
    if (!is_receive)
        return MLX5_CQE_REQ;
    if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
        return MLX5_CQE_RESP_WR_IMM;
    return wc->wc_flags & IBV_WC_WITH_IMM ? MLX5_CQE_RESP_SEND_IMM : MLX5_CQE_RESP_SEND;
}

/* The opcode of the send queue element at `index`, from its control segment. */
static uint32_t element_opcode(const struct dt_uverbs_qp *qp, uint16_t index)
{
    struct dt_wqe_ctrl ctrl;

    memcpy(&ctrl, (uint8_t *)qp->engine.sq_buf + (size_t)(index & (qp->sq_blocks - 1)) * DT_WQE_BLOCK_BYTES,
           sizeof ctrl);
    return be32toh(ctrl.opmod_idx_opcode) & 0xff;
}

static void put_entry(struct dt_uverbs_cq *cq, const struct dt_uverbs_qp *qp, const struct ibv_wc *wc)
{
    uint8_t *at = cq->entries + (size_t)(cq->produced & (cq->count - 1)) * cq->entry_bytes + cq->entry_bytes -
                  sizeof(struct mlx5_cqe64);
    uint8_t opcode = opcode_of(wc);
    bool is_receive = wc->opcode & IBV_WC_RECV;
    uint8_t lap = (cq->produced & cq->count) != 0;
    uint32_t number = wc->qp_num | (is_receive ? 0 : element_opcode(qp, (uint16_t)wc->wr_id) << 24);
    union {
        struct mlx5_cqe64 good;
        struct mlx5_err_cqe bad;
        uint8_t bytes[sizeof(struct mlx5_cqe64)];
    } entry = {.good = {.srqn_uidx = htobe32(qp->user_index),
                        .sop_drop_qpn = htobe32(number),
                        .wqe_counter = htobe16((uint16_t)wc->wr_id)}};

    if (wc->status == IBV_WC_SUCCESS) {
        entry.good.byte_cnt = htobe32(wc->byte_len);
        entry.good.imm_inval_pkey = wc->imm_data;
    } else {
        entry.bad.syndrome = syndrome_of(wc->status);
        entry.bad.vendor_err_synd = (uint8_t)wc->vendor_err;
    }
    /* The last byte, which hands the entry over, comes last. */
    memcpy(at, entry.bytes, sizeof entry - 1);
    dt_store_release(&at[sizeof entry - 1], (uint8_t)(opcode << 4 | lap));
    cq->produced++;
}

static bool fill_cq(struct dt_uverbs_cq *cq)
{
    uint32_t taken = be32toh(dt_load_acquire(&cq->record[RECORD_TAKEN])) & 0xffffff;
    uint32_t used = (cq->produced - taken) & 0xffffff;
    struct ibv_wc wcs[BATCH];

    DT_CHECK(used <= cq->count);
    /* An empty poll would step the engine here and yield the CPU; the software RNIC's own thread does that.
     */
    if (!dt_rnic_cq_has_some(dt_front_cq_of(cq->object.soft.cq)->engine))
        return false;
    int count = ibv_poll_cq(cq->object.soft.cq, (int)dt_min_u64(BATCH, cq->count - used), wcs);
    for (int i = 0; i < count; i++) {
        struct dt_uverbs_qp *qp = dt_uverbs_qp_of_number(cq->object.context, wcs[i].qp_num);

        DT_CHECK(qp);
        put_entry(cq, qp, &wcs[i]);
    }
    return count > 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * The thread
 */
/* One look at everything; true if there was something to do. */
static bool look(uint64_t round)
{
    bool any = false;

    dt_list_for_each(node, &dt_uverbs_contexts)
    {
        struct dt_uverbs_context *context = dt_container_of(node, struct dt_uverbs_context, node);

        if (!context->soft)
            continue;
        any |= take_all(context);
        dt_list_for_each(cq, &context->objects[DT_UVERBS_CQ]) any |=
            fill_cq((struct dt_uverbs_cq *)dt_container_of(cq, struct dt_uverbs_object, node));
        if (round % EVENT_ROUNDS == 0)
            dt_uverbs_events_pass(context);
    }
    return any;
}

static void *run(void *arg)
{
    static const struct timespec pause = {0, SLEEP_NS};

    (void)arg;
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    for (uint64_t round = 0; !dt_load_acquire(&must_stop); round++) {
        pthread_mutex_lock(&dt_uverbs_lock);
        bool any = look(round);
        pthread_mutex_unlock(&dt_uverbs_lock);
        /* A thread that sleeps gets the CPU back sooner than one that yields it to a program that polls. */
        if (!any || dt_uverbs_is_wanted())
            nanosleep(&pause, NULL);
    }
    return NULL;
}

int dt_uverbs_thread_start(void)
{
    dt_store_release(&must_stop, 0);
    return dt_thread_start(&thread, "uverbs-device", run, NULL);
}

void dt_uverbs_thread_stop(void)
{
    dt_store_release(&must_stop, 1);
    pthread_join(thread, NULL);
}
