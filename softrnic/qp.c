/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "softrnic/qp_state.h"
#include "softrnic/rnic.h"

#define GENERATION_SHIFT 14u
#define GENERATION_MASK  (DT_PSN_MASK >> GENERATION_SHIFT)
DT_STATIC_CHECK(DT_RNIC_QP_MAX == 1u << GENERATION_SHIFT, "a number is a slot and how often it was used");

#define MTU_SHIFT_BASE 7 /* IBV_MTU_256 is 1 */

/* ---- numbers ---- */

struct dt_rnic_qp *dt_qp_find(const struct dt_rnic *rnic, uint32_t number)
{
    struct dt_rnic_qp *qp = rnic->qps[number & (DT_RNIC_QP_MAX - 1)];

    return qp && qp->number == number ? qp : NULL;
}

/*
 * Slots are taken in turn and a number carries how often its slot was used, so that a number comes back only
 * after all others of its slot; or, on request, as early as can be. 0 and 1 are special queue pairs in the
 * specification and never given out.
 */
static void take_number(struct dt_rnic *rnic, struct dt_rnic_qp *qp)
{
    bool reuses = rnic->options.reuses_numbers;
    uint32_t slot = reuses ? 0 : rnic->qp_slot_next;

    while (rnic->qps[slot])
        slot = (slot + 1) % DT_RNIC_QP_MAX;
    rnic->qp_slot_next = (slot + 1) % DT_RNIC_QP_MAX;
    do {
        if (!reuses || rnic->qp_generation[slot] == 0)
            rnic->qp_generation[slot] = (rnic->qp_generation[slot] + 1) & GENERATION_MASK;
        qp->number = (uint32_t)rnic->qp_generation[slot] << GENERATION_SHIFT | slot;
    } while (qp->number <= 1);
    rnic->qps[slot] = qp;
    rnic->qp_count++;
}

/* ---- create and destroy ---- */

static int check_options(const struct dt_rnic *rnic, const struct dt_rnic_qp_options *options)
{
    if (rnic->is_fatal)
        return EIO;
    if (!options->send_cq || !options->recv_cq || options->send_cq->rnic != rnic ||
        options->recv_cq->rnic != rnic)
        return EINVAL;
    if (options->sq_blocks > DT_RNIC_SQ_BLOCKS_MAX || options->rq_entries > DT_RNIC_RQ_ENTRIES_MAX ||
        options->recv_sge_max > DT_RNIC_SGE_MAX)
        return EINVAL;
    return rnic->qp_count < DT_RNIC_QP_MAX ? 0 : ENOMEM;
}

/* At least one page of whole pages, zeroed. */
static void *alloc_pages(uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    void *memory;

    bytes = dt_align_up(bytes ? bytes : 1, page);
    memory = aligned_alloc(page, bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

static void free_queues(struct dt_rnic_qp *qp)
{
    free(qp->req.ring.buffer);
    free(qp->req.entries);
    free(qp->req.doorbell);
    free(qp->resp.recvs);
}

static int alloc_queues(struct dt_rnic_qp *qp, const struct dt_rnic_qp_options *options)
{
    uint32_t blocks = (uint32_t)dt_round_up_power_of_two(options->sq_blocks);
    uint32_t recvs = (uint32_t)dt_round_up_power_of_two(options->rq_entries);

    qp->req.ring.blocks = blocks;
    qp->req.ring.buffer = alloc_pages((uint64_t)blocks * DT_WQE_BLOCK_BYTES);
    qp->req.entries = calloc(blocks, sizeof *qp->req.entries);
    qp->req.doorbell = alloc_pages(2 * sizeof *qp->req.doorbell);
    qp->resp.recv_sge_max = options->recv_sge_max;
    qp->resp.recv_stride_bytes =
        (uint32_t)(sizeof(struct dt_recv) + options->recv_sge_max * sizeof(struct dt_wqe_sge));
    qp->resp.recvs = calloc(recvs, qp->resp.recv_stride_bytes);
    dt_ring_init(&qp->resp.ring, recvs);
    return qp->req.ring.buffer && qp->req.entries && qp->req.doorbell && qp->resp.recvs ? 0 : ENOMEM;
}

struct dt_rnic_qp *dt_rnic_qp_create(struct dt_rnic *rnic, const struct dt_rnic_qp_options *options)
{
    struct dt_rnic_qp *qp = NULL;
    int error = check_options(rnic, options);

    if (!error)
        qp = calloc(1, sizeof *qp);
    if (!qp) {
        errno = error ? error : ENOMEM;
        return NULL;
    }
    if (alloc_queues(qp, options)) {
        free_queues(qp);
        free(qp);
        errno = ENOMEM;
        return NULL;
    }
    qp->rnic = rnic;
    qp->context = options->context;
    qp->pd = options->pd;
    qp->send_cq = options->send_cq;
    qp->recv_cq = options->recv_cq;
    qp->send_cq->users++;
    qp->recv_cq->users++;
    dt_list_init(&qp->send_node);
    dt_list_init(&qp->reply_node);
    dt_list_init(&qp->timer_node);
    take_number(rnic, qp);
    dt_requester_reset(qp);
    dt_responder_reset(qp);
    return qp;
}

void dt_rnic_qp_destroy(struct dt_rnic_qp *qp)
{
    struct dt_rnic *rnic = qp->rnic;

    dt_qp_revoke(qp);
    rnic->qps[qp->number & (DT_RNIC_QP_MAX - 1)] = NULL;
    rnic->qp_count--;
    qp->send_cq->users--;
    qp->recv_cq->users--;
    dt_list_remove(&qp->send_node);
    dt_list_remove(&qp->reply_node);
    dt_list_remove(&qp->timer_node);
    free_queues(qp);
    free(qp);
}

uint32_t dt_rnic_qp_number(const struct dt_rnic_qp *qp)
{
    return qp->number;
}

void *dt_rnic_qp_context(const struct dt_rnic_qp *qp)
{
    return qp->context;
}

enum ibv_qp_state dt_rnic_qp_state(const struct dt_rnic_qp *qp)
{
    return dt_qp_state(qp);
}

void dt_rnic_qp_sq(const struct dt_rnic_qp *qp, struct dt_rnic_sq *sq)
{
    sq->buffer = qp->req.ring.buffer;
    sq->blocks = qp->req.ring.blocks;
    sq->doorbell = qp->req.doorbell;
}

/* ---- states ---- */

/*
 * An exchange, as post_recv adds 0 to it: one of the two comes second and sees what the other did before. So
 * either the flush that follows a move to ERR sees the receive, or post_recv sees ERR.
 */
static void set_state(struct dt_rnic_qp *qp, enum ibv_qp_state state)
{
    dt_exchange_acq_rel(&qp->state, (uint32_t)state);
}

void dt_qp_revoke(struct dt_rnic_qp *qp)
{
    const struct dt_wire_ops *ops = qp->rnic->options.wire->ops;

    if (qp->link && ops->revoke_qp)
        ops->revoke_qp(qp->link, qp->number);
}

void dt_qp_enter_error(struct dt_rnic_qp *qp, bool keep_answers)
{
    if (dt_qp_state(qp) == IBV_QPS_ERR) {
        if (!keep_answers)
            dt_responder_drop_answers(qp);
        return;
    }
    set_state(qp, IBV_QPS_ERR);
    dt_qp_revoke(qp); /* before any completion says that buffers are free */
    dt_requester_disarm_timer(qp);
    dt_list_remove(&qp->send_node);
    if (!keep_answers)
        dt_responder_drop_answers(qp);
    dt_requester_flush(qp);
    dt_responder_flush(qp);
}

void dt_qp_break(struct dt_rnic_qp *qp)
{
    if (dt_qp_state(qp) == IBV_QPS_ERR)
        return;
    dt_qp_enter_error(qp, false);
    dt_rnic_raise(qp->rnic, IBV_EVENT_QP_FATAL, qp, NULL);
}

static void enter_reset(struct dt_rnic_qp *qp)
{
    set_state(qp, IBV_QPS_RESET);
    dt_qp_revoke(qp);
    dt_list_remove(&qp->send_node);
    dt_requester_disarm_timer(qp);
    dt_responder_drop_answers(qp);
    dt_requester_reset(qp);
    dt_responder_reset(qp);
    qp->established = false;
    qp->link = NULL;
    memset(&qp->attr, 0, sizeof qp->attr);
}

/* ---- modify ---- */

static bool ah_is_valid(const struct ibv_ah_attr *ah)
{
    /* Like every RoCE port, this one is reached by GID only. */
    return ah->is_global && ah->port_num <= 1;
}

/* Every value that comes with the mask; what the mask lacks is not looked at. */
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
    if (to == IBV_QPS_RTR && from != IBV_QPS_RTR)
        qp->resp.psn = qp->attr.rq_psn;
    if (to == IBV_QPS_RTS && from == IBV_QPS_RTR) {
        dt_requester_start(qp, qp->attr.sq_psn);
        qp->established = true;
    }
    if (to == IBV_QPS_SQD && from != IBV_QPS_SQD)
        qp->req.drain_event = qp->attr.en_sqd_async_notify;
    set_state(qp, to);
}

int dt_rnic_qp_modify(struct dt_rnic_qp *qp, const struct ibv_qp_attr *attr, int attr_mask, uint64_t now_ns)
{
    enum ibv_qp_state from = dt_qp_state(qp);
    enum ibv_qp_state to = attr_mask & IBV_QP_STATE ? attr->qp_state : from;
    struct dt_wire *wire = qp->rnic->options.wire;
    struct dt_wire_link *link = qp->link;

    if (qp->rnic->is_fatal)
        return EIO;
    if (!dt_qp_transition_is_allowed(from, to, attr_mask) || !values_are_valid(attr, attr_mask, from))
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

/* ---- receives ---- */

int dt_rnic_qp_post_recv(struct dt_rnic_qp *qp, uint64_t wr_id, const struct ibv_sge *sg_list, int num_sge,
                         bool *must_kick)
{
    struct dt_responder *resp = &qp->resp;
    struct dt_recv *recv;

    *must_kick = false;
    if (dt_qp_state(qp) == IBV_QPS_RESET || num_sge < 0 || (uint32_t)num_sge > resp->recv_sge_max)
        return EINVAL;
    if (!dt_ring_room(&resp->ring))
        return ENOMEM;
    recv =
        (struct dt_recv *)(void *)(resp->recvs + (size_t)dt_ring_back(&resp->ring) * resp->recv_stride_bytes);
    recv->wr_id = wr_id;
    recv->num_sge = (uint32_t)num_sge;
    for (int i = 0; i < num_sge; i++)
        recv->sges[i] = (struct dt_wqe_sge){sg_list[i].addr, sg_list[i].length, sg_list[i].lkey};
    dt_ring_push(&resp->ring);
    *must_kick = dt_fetch_add_acq_rel(&qp->state, 0) == IBV_QPS_ERR;
    return 0;
}
