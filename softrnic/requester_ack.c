/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requester's receive side: acknowledgements, READ responses and timers complete elements, retransmit, or
 * fail the queue pair.
 */
#include <errno.h>
#include <endian.h>

#include "softrnic/engine_state.h"

/* RNR NAK timer codes of the specification (volume 1, 9.7.5.2.8), in units of 10 us. */
static const uint32_t rnr_wait_10us[32] = {
    65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

#define RNR_RETRY_FOREVER 7

/* ---- timer ---- */

void dt_requester_arm_timer(struct dt_rnic_qp *qp, uint64_t deadline_ns)
{
    struct dt_rnic *rnic = qp->rnic;

    DT_CHECK_HOT(deadline_ns != DT_RNIC_NEVER && dt_requester_timer_is_listed(qp));
    qp->req.timer_ns = deadline_ns;
    if (deadline_ns < rnic->timer_next_ns)
        rnic->timer_next_ns = deadline_ns;
    if (dt_list_is_empty(&qp->timer_node))
        dt_list_push_back(&rnic->timer_list, &qp->timer_node);
}

void dt_requester_disarm_timer(struct dt_rnic_qp *qp)
{
    qp->req.timer_ns = DT_RNIC_NEVER;
    dt_list_remove(&qp->timer_node);
}

/* The retry timer runs from now on while something is unacknowledged, unless the queue pair has none (timeout
 * 0). */
static void restart_timer(struct dt_rnic_qp *qp, uint64_t now_ns)
{
    if (qp->req.psn_top == qp->req.psn_una || !qp->attr.timeout)
        dt_requester_disarm_timer(qp);
    else
        dt_requester_arm_timer(qp, now_ns + (4096ull << qp->attr.timeout));
}

/* ---- completion ---- */

static uint8_t cqe_op(uint8_t opcode)
{
    switch (opcode) {
    case DT_WQE_WRITE:
    case DT_WQE_WRITE_IMM:
        return DT_CQE_WRITE;
    case DT_WQE_READ:
        return DT_CQE_READ;
    case DT_WQE_NOP:
        return DT_CQE_NOP;
    default:
        return DT_CQE_SEND;
    }
}

static bool push_cqe(struct dt_rnic_qp *qp, uint16_t index, const struct dt_wqe *wqe, uint8_t status,
                     uint8_t vendor_err)
{
    struct dt_cqe cqe = {.qp_context = qp->context,
                         .qpn = qp->number,
                         .wqe_counter = index,
                         .status = status,
                         .vendor_err = vendor_err,
                         .op = cqe_op(wqe->opcode)};

    if (status != IBV_WC_SUCCESS)
        cqe.flags = DT_CQE_SOLICITED;
    else if (wqe->opcode == DT_WQE_READ)
        cqe.byte_len = (uint32_t)wqe->payload_bytes;
    return dt_cq_push(qp->send_cq, &cqe);
}

/* The oldest element fails, the rest is flushed. */
static void fail_oldest(struct dt_rnic_qp *qp, uint8_t status, uint8_t vendor_err)
{
    struct dt_requester *req = &qp->req;
    struct dt_sq_entry *entry = dt_requester_entry(req, req->tail);
    uint16_t posted = dt_requester_posted(qp);
    uint16_t index = req->tail;

    DT_CHECK(dt_qp_state(qp) == IBV_QPS_RTS || dt_qp_state(qp) == IBV_QPS_SQD);
    DT_CHECK(req->tail != req->decoded && status != IBV_WC_SUCCESS);
    req->tail = (uint16_t)(req->tail + dt_min_u64(entry->wqe.blocks, posted));
    dt_qp_revoke(qp);
    if (!push_cqe(qp, index, &entry->wqe, status, vendor_err))
        dt_qp_break(qp);
    else
        dt_qp_enter_error(qp, false);
    DT_CHECK(dt_qp_state(qp) == IBV_QPS_ERR);
}

void dt_requester_flush(struct dt_rnic_qp *qp)
{
    struct dt_requester *req = &qp->req;
    uint16_t posted = dt_requester_posted(qp);
    uint16_t end = (uint16_t)(req->tail + posted);

    DT_CHECK(dt_qp_state(qp) == IBV_QPS_ERR && req->timer_ns == DT_RNIC_NEVER);
    /* After an overrun it is unknown which elements are intact: none is reported. */
    while (posted && posted <= req->ring.blocks) {
        struct dt_wqe wqe;
        uint16_t index = req->tail;
        uint16_t blocks;

        dt_wqe_decode(&req->ring, index, &wqe);
        blocks = (uint16_t)dt_min_u64(wqe.blocks, posted);
        req->tail = (uint16_t)(req->tail + blocks);
        posted = (uint16_t)(posted - blocks);
        push_cqe(qp, index, &wqe, IBV_WC_WR_FLUSH_ERR, DT_VENDOR_FLUSHED);
    }
    req->tail = req->cursor = req->decoded = end;
}

/* Completes the oldest element. False when the completion broke the queue pair. */
static bool complete_oldest(struct dt_rnic_qp *qp, const struct dt_sq_entry *entry)
{
    struct dt_requester *req = &qp->req;
    uint16_t index = req->tail;
    bool is_before_cursor = req->tail != req->cursor;

    if (is_before_cursor && entry->wqe.opcode == DT_WQE_READ) {
        DT_CHECK_HOT(req->reads_outstanding > 0);
        req->reads_outstanding--;
    }
    req->tail = (uint16_t)(req->tail + entry->wqe.blocks);
    if (!is_before_cursor)
        req->cursor = req->tail;
    DT_CHECK_HOT(dt_requester_indices_are_ordered(req));
    if (!(entry->wqe.flags & DT_WQE_SIGNALED))
        return true;
    if (push_cqe(qp, index, &entry->wqe, IBV_WC_SUCCESS, DT_VENDOR_NONE))
        return true;
    dt_qp_break(qp);
    return false;
}

/* psn_una has moved. */
static void note_progress(struct dt_rnic_qp *qp, uint64_t now_ns)
{
    struct dt_requester *req = &qp->req;
    bool was_waiting = req->rnr_waiting;

    if (dt_psn_diff(req->psn_next, req->psn_una) < 0)
        req->psn_next = req->psn_una;
    req->retries_left = qp->attr.retry_cnt;
    req->patience_end_ns = 0;
    req->rnr_left = qp->attr.rnr_retry;
    req->rnr_waiting = false;
    req->went_back = false;
    restart_timer(qp, now_ns);
    /* The responder dropped every packet after the refused one. */
    if (was_waiting && req->psn_una != req->psn_top)
        dt_requester_go_back(qp);
    dt_requester_wake(qp);
    DT_CHECK_HOT(dt_requester_psns_are_ordered(req) && dt_requester_timer_is_listed(qp));
}

static void check_drained(struct dt_rnic_qp *qp)
{
    if (!qp->req.drain_event || dt_qp_state(qp) != IBV_QPS_SQD || !dt_requester_is_drained(qp))
        return;
    qp->req.drain_event = false;
    dt_rnic_raise(qp->rnic, IBV_EVENT_SQ_DRAINED, qp, NULL);
}

enum advance {
    ADVANCE_DONE,
    ADVANCE_READ_MISSING, /* stopped at a READ whose response must have been lost */
    ADVANCE_DEAD          /* the queue pair went to ERR on the way */
};

/* All PSNs before `limit` are acknowledged, except those of READs, which only their responses complete. */
static enum advance advance(struct dt_rnic_qp *qp, uint32_t limit, uint64_t now_ns)
{
    struct dt_requester *req = &qp->req;
    enum advance result = ADVANCE_DONE;
    uint32_t una = req->psn_una;

    while (req->tail != req->decoded) {
        struct dt_sq_entry *entry = dt_requester_entry(req, req->tail);
        uint32_t end = dt_psn_add(entry->psn, entry->psn_count);

        DT_CHECK_HOT((uint32_t)dt_psn_diff(req->psn_una, entry->psn) <= entry->psn_count);
        if (entry->status != IBV_WC_SUCCESS) {
            fail_oldest(qp, entry->status, entry->vendor_err);
            return ADVANCE_DEAD;
        }
        if (entry->wqe.opcode == DT_WQE_READ && dt_psn_diff(end, req->psn_una) > 0) {
            if (dt_psn_diff(limit, req->psn_una) > 0)
                result = ADVANCE_READ_MISSING;
            break;
        }
        if (dt_psn_diff(limit, end) < 0) {
            if (dt_psn_diff(limit, req->psn_una) > 0)
                req->psn_una = limit;
            break;
        }
        req->psn_una = end;
        if (!complete_oldest(qp, entry))
            return ADVANCE_DEAD;
    }
    if (req->psn_una != una)
        note_progress(qp, now_ns);
    check_drained(qp);
    return result;
}

void dt_requester_retire(struct dt_rnic_qp *qp, uint64_t now_ns)
{
    advance(qp, qp->req.psn_una, now_ns);
}

void dt_requester_complete_sent(struct dt_rnic_qp *qp, uint64_t now_ns)
{
    DT_CHECK(qp->is_unreliable && qp->req.timer_ns == DT_RNIC_NEVER);
    advance(qp, qp->req.psn_next, now_ns);
}

/* ---- retries ---- */

/* Retransmits from psn_una on, because an answer reports or implies a missing packet. */
static void repeat(struct dt_rnic_qp *qp, uint64_t now_ns)
{
    struct dt_requester *req = &qp->req;

    if (req->went_back || req->rnr_waiting)
        return;
    if (!req->retries_left) {
        fail_oldest(qp, IBV_WC_RETRY_EXC_ERR, DT_VENDOR_NAK_RETRIES);
        return;
    }
    DT_CHECK(req->tail != req->decoded);
    req->retries_left--;
    req->went_back = true;
    dt_requester_go_back(qp);
    restart_timer(qp, now_ns);
}

static void wait_for_receiver(struct dt_rnic_qp *qp, uint8_t syndrome, uint64_t now_ns)
{
    struct dt_requester *req = &qp->req;

    if (req->rnr_waiting)
        return;
    if (qp->attr.rnr_retry != RNR_RETRY_FOREVER) {
        if (!req->rnr_left) {
            fail_oldest(qp, IBV_WC_RNR_RETRY_EXC_ERR, DT_VENDOR_RNR_RETRIES);
            return;
        }
        req->rnr_left--;
    }
    DT_CHECK(req->psn_una != req->psn_top);
    req->rnr_waiting = true;
    dt_list_remove(&qp->send_node);
    dt_requester_arm_timer(qp, now_ns + rnr_wait_10us[syndrome & 31] * 10000ull);
}

/* Is the last packet still unread by the peer? A peer without a CPU gets more time, up to
 * DT_RNIC_PATIENCE_NS. */
static bool is_only_late(struct dt_rnic_qp *qp, uint64_t now_ns)
{
    const struct dt_wire_ops *wire = qp->rnic->options.wire->ops;
    struct dt_requester *req = &qp->req;

    if (!wire->is_unread || !wire->is_unread(qp->link, req->mark))
        return false;
    if (!req->patience_end_ns)
        req->patience_end_ns = now_ns + DT_RNIC_PATIENCE_NS;
    return now_ns < req->patience_end_ns;
}

void dt_requester_fire_timer(struct dt_rnic_qp *qp, uint64_t now_ns)
{
    struct dt_requester *req = &qp->req;

    /* A timer runs only while something is sent and not acknowledged. */
    DT_CHECK(req->psn_una != req->psn_top && req->tail != req->decoded);
    dt_requester_disarm_timer(qp);
    if (req->rnr_waiting) {
        req->rnr_waiting = false;
        dt_requester_go_back(qp);
        return;
    }
    if (is_only_late(qp, now_ns)) {
        restart_timer(qp, now_ns);
        return;
    }
    qp->rnic->counters.timeouts++;
    if (!req->retries_left) {
        fail_oldest(qp, IBV_WC_RETRY_EXC_ERR, DT_VENDOR_ACK_TIMEOUT);
        return;
    }
    req->retries_left--;
    req->went_back = false;
    dt_requester_go_back(qp);
    restart_timer(qp, now_ns);
}

/* ---- answers ---- */

static void receive_ack(struct dt_rnic_qp *qp, const struct dt_packet *packet, uint64_t now_ns)
{
    bool is_nak = packet->syndrome & 0xe0;
    enum advance result;

    if (is_nak && dt_psn_diff(packet->psn, qp->req.psn_una) < 0)
        return; /* about a packet that has been acknowledged since */
    result = advance(qp, is_nak ? packet->psn : dt_psn_add(packet->psn, 1), now_ns);
    if (result == ADVANCE_DEAD)
        return;
    if (result == ADVANCE_READ_MISSING) {
        repeat(qp, now_ns);
        return;
    }
    if (!is_nak)
        return;
    if ((packet->syndrome & 0xe0) == DT_SYNDROME_RNR) {
        wait_for_receiver(qp, packet->syndrome, now_ns);
        return;
    }
    switch (packet->syndrome) {
    case DT_SYNDROME_NAK_SEQUENCE:
        repeat(qp, now_ns);
        break;
    case DT_SYNDROME_NAK_INVALID:
        fail_oldest(qp, IBV_WC_REM_INV_REQ_ERR, DT_VENDOR_REMOTE_INVALID);
        break;
    case DT_SYNDROME_NAK_ACCESS:
        fail_oldest(qp, IBV_WC_REM_ACCESS_ERR, DT_VENDOR_REMOTE_ACCESS);
        break;
    case DT_SYNDROME_NAK_OPERATION:
        fail_oldest(qp, IBV_WC_REM_OP_ERR, DT_VENDOR_REMOTE_OP);
        break;
    default:
        qp->rnic->counters.dropped++;
    }
}

/* Lands `packet` from `skip` bytes on in the memory of the READ at the tail. */
static void land_response(struct dt_rnic_qp *qp, const struct dt_packet *packet, struct dt_received *received,
                          uint64_t skip, uint64_t now_ns)
{
    struct dt_requester *req = &qp->req;
    struct dt_sq_entry *entry = dt_requester_entry(req, req->tail);
    struct dt_wqe_sge sges[DT_PACKET_IOV_MAX];
    uint64_t offset = (uint64_t)dt_psn_diff(req->psn_una, entry->psn) << qp->mtu_shift;
    uint64_t bytes = packet->payload_bytes - skip;
    uint32_t end = dt_psn_add(packet->psn, packet->psn_count);
    uint8_t vendor_err = DT_VENDOR_NONE;
    uint32_t n = 0;
    int error;

    DT_CHECK_HOT(entry->wqe.opcode == DT_WQE_READ && skip <= packet->payload_bytes);
    DT_CHECK_HOT((uint32_t)dt_psn_diff(req->psn_una, entry->psn) < entry->psn_count);
    while (n < DT_PACKET_IOV_MAX && dt_wqe_segment(&req->ring, entry->wqe.index, &entry->wqe, n, &sges[n]))
        n++;
    error = dt_qp_scatter(qp, sges, n, offset, received, skip, bytes, &vendor_err);
    if (error == EINVAL) {
        fail_oldest(qp, IBV_WC_LOC_PROT_ERR, vendor_err);
        return;
    }
    if (error) {
        qp->rnic->counters.dropped++;
        return;
    }
    req->psn_una = end;
    note_progress(qp, now_ns);
    /* Completes the READ if this was its last response. */
    advance(qp, end, now_ns);
}

static bool response_fits(const struct dt_rnic_qp *qp, const struct dt_sq_entry *entry,
                          const struct dt_packet *packet)
{
    uint64_t start = (uint64_t)(uint32_t)dt_psn_diff(packet->psn, entry->psn) << qp->mtu_shift;
    uint64_t whole = (uint64_t)packet->psn_count << qp->mtu_shift;

    if (packet->psn_count != dt_psn_count(packet->payload_bytes, packet->mtu_shift) ||
        packet->mtu_shift != qp->mtu_shift || start > entry->wqe.payload_bytes)
        return false;
    return packet->payload_bytes == dt_min_u64(whole, entry->wqe.payload_bytes - start);
}

static void receive_response(struct dt_rnic_qp *qp, const struct dt_packet *packet,
                             struct dt_received *received, uint64_t now_ns)
{
    struct dt_requester *req = &qp->req;
    struct dt_sq_entry *entry;
    uint32_t end = dt_psn_add(packet->psn, packet->psn_count);
    int32_t behind;

    /* A response acknowledges all requests before its own. */
    if (dt_psn_diff(packet->psn, req->psn_una) > 0) {
        enum advance result = advance(qp, packet->psn, now_ns);

        if (result == ADVANCE_READ_MISSING)
            repeat(qp, now_ns);
        if (result != ADVANCE_DONE)
            return;
    }
    behind = dt_psn_diff(req->psn_una, packet->psn);
    entry = dt_requester_entry(req, req->tail);
    if (req->tail == req->decoded || entry->wqe.opcode != DT_WQE_READ ||
        dt_psn_diff(packet->psn, entry->psn) < 0 || dt_psn_diff(end, req->psn_una) <= 0 ||
        !response_fits(qp, entry, packet)) {
        qp->rnic->counters.dropped++;
        return;
    }
    land_response(qp, packet, received, (uint64_t)behind << qp->mtu_shift, now_ns);
}

void dt_requester_receive(struct dt_rnic_qp *qp, const struct dt_packet *packet, struct dt_received *received,
                          uint64_t now_ns)
{
    struct dt_requester *req = &qp->req;
    uint32_t end = dt_psn_add(packet->psn, packet->psn_count);

    /* Drops answers to packets that were never sent or are long complete. */
    if (qp->is_unreliable || !packet->psn_count || packet->psn_count >= DT_PSN_WINDOW ||
        dt_psn_diff(req->psn_top, end) < 0 || dt_psn_diff(end, req->psn_una) < 0)
        return;
    if (packet->op == DT_PACKET_READ_RESPONSE)
        receive_response(qp, packet, received, now_ns);
    else
        receive_ack(qp, packet, now_ns);
}
