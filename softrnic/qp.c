/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/node_memory.h"
#include "softrnic/qp_state.h"
#include "softrnic/engine_state.h"

#define GENERATION_SHIFT 14u
#define GENERATION_MASK  (DT_PSN_MASK >> GENERATION_SHIFT)
DT_STATIC_CHECK(DT_RNIC_QP_MAX == 1u << GENERATION_SHIFT, "a number is a slot and how often it was used");

/* ---- numbers ---- */

/*
 * Slots are taken in turn and a number includes the generation of its slot, so that a number is reused only
 * after all others of its slot; or, on request, as early as possible. 0 and 1 are special queue pairs in the
 * specification and never used.
 */
static void take_number(struct dt_rnic *rnic, struct dt_rnic_qp *qp)
{
    bool reuses = rnic->options.reuses_numbers;
    uint32_t slot = reuses ? 0 : rnic->qp_slot_next;

    DT_CHECK(rnic->qp_count < DT_RNIC_QP_MAX); /* else the search has no end */
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
    DT_CHECK(dt_qp_find(rnic, qp->number) == qp);
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

/*
 * The queues of a queue pair, in one mapping: the ring, its doorbell records on a page of their own, the
 * decoded elements and the receives. The kernel gives zeroed pages when they are first used, so a queue pair
 * of a backup path costs no more than its deepest use.
 */
static int alloc_queues(struct dt_rnic_qp *qp, const struct dt_rnic_qp_options *options)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint32_t blocks = (uint32_t)dt_round_up_power_of_two(options->sq_blocks);
    uint32_t recvs = (uint32_t)dt_round_up_power_of_two(options->rq_entries);
    uint32_t stride_bytes =
        (uint32_t)(sizeof(struct dt_recv) + options->recv_sge_max * sizeof(struct dt_wqe_sge));
    uint64_t doorbell = dt_align_up((uint64_t)blocks * DT_WQE_BLOCK_BYTES, page);
    uint64_t entries = doorbell + page;
    uint64_t receives = dt_align_up(entries + (uint64_t)blocks * sizeof *qp->req.entries, 64);

    qp->memory_bytes = receives + (uint64_t)recvs * stride_bytes;
    qp->memory = dt_node_memory_alloc(qp->memory_bytes, -1);
    if (!qp->memory)
        return ENOMEM;
    qp->req.ring.blocks = blocks;
    qp->req.ring.buffer = qp->memory;
    qp->req.doorbell = (void *)(qp->memory + doorbell);
    qp->req.entries = (void *)(qp->memory + entries);
    qp->resp.recvs = (void *)(qp->memory + receives);
    qp->resp.recv_sge_max = options->recv_sge_max;
    qp->resp.recv_stride_bytes = stride_bytes;
    dt_ring_init(&qp->resp.ring, recvs);
    return 0;
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
        free(qp);
        errno = ENOMEM;
        return NULL;
    }
    qp->rnic = rnic;
    qp->context = options->context;
    qp->pd = options->pd;
    qp->is_unreliable = options->is_unreliable;
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
    DT_CHECK(dt_qp_state(qp) == IBV_QPS_RESET);
    DT_CHECK(!dt_requester_posted(qp) && !dt_ring_used(&qp->resp.ring));
    return qp;
}

void dt_rnic_qp_destroy(struct dt_rnic_qp *qp)
{
    struct dt_rnic *rnic = qp->rnic;

    DT_CHECK(dt_qp_find(rnic, qp->number) == qp);
    DT_CHECK(rnic->qp_count > 0 && qp->send_cq->users > 0 && qp->recv_cq->users > 0);
    dt_qp_revoke(qp);
    rnic->qps[qp->number & (DT_RNIC_QP_MAX - 1)] = NULL;
    rnic->qp_count--;
    qp->send_cq->users--;
    qp->recv_cq->users--;
    dt_list_remove(&qp->send_node);
    dt_list_remove(&qp->reply_node);
    dt_list_remove(&qp->timer_node);
    dt_node_memory_free(qp->memory, qp->memory_bytes);
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
 * An exchange, because post_recv adds 0 to the state: the second of the two sees the first. Either the flush
 * that follows a move to ERR sees the receive, or post_recv sees ERR.
 */
void dt_qp_set_state(struct dt_rnic_qp *qp, enum ibv_qp_state state)
{
    DT_CHECK(dt_qp_find_transition(dt_qp_state(qp), state)->is_valid);
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
    dt_qp_set_state(qp, IBV_QPS_ERR);
    dt_qp_revoke(qp); /* before any completion releases a buffer */
    dt_requester_disarm_timer(qp);
    dt_list_remove(&qp->send_node);
    if (!keep_answers)
        dt_responder_drop_answers(qp);
    dt_requester_flush(qp);
    dt_responder_flush(qp);
    DT_CHECK(dt_list_is_empty(&qp->send_node) && dt_list_is_empty(&qp->timer_node));
    DT_CHECK(keep_answers || dt_list_is_empty(&qp->reply_node));
}

void dt_qp_break(struct dt_rnic_qp *qp)
{
    if (dt_qp_state(qp) == IBV_QPS_ERR)
        return;
    DT_CHECK(dt_qp_state(qp) != IBV_QPS_RESET); /* nothing is posted or received there */
    dt_qp_enter_error(qp, false);
    dt_rnic_raise(qp->rnic, IBV_EVENT_QP_FATAL, qp, NULL);
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
    DT_CHECK_HOT(dt_ring_room(&resp->ring) < resp->ring.count);
    *must_kick = dt_fetch_add_acq_rel(&qp->state, 0) == IBV_QPS_ERR;
    return 0;
}
