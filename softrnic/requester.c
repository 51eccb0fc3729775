/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requester's transmit side: elements of the send queue become packets.
 *
 *   tail            cursor            decoded        doorbell
 *    |-- sent, not --|-- decoded, to --|-- announced --|
 *    |   complete    |   be sent       |               |
 *
 * A retransmission moves the cursor back to the tail; it needs no other state.
 */
#include <endian.h>
#include <string.h>

#include "softrnic/engine_state.h"

/* Requests an acknowledgement at the end of each message and after this many bytes of a long one. */
#define UNASKED_BYTES_MAX 65536u

void dt_requester_reset(struct dt_rnic_qp *qp)
{
    struct dt_requester *req = &qp->req;

    req->tail = req->cursor = req->decoded = 0;
    dt_store_release(&req->doorbell[DT_DBREC_SEND], 0);
    dt_store_release(&req->doorbell[DT_DBREC_RECV], 0);
    req->timer_ns = DT_RNIC_NEVER;
    req->drain_event = false;
    dt_requester_start(qp, 0);
}

void dt_requester_start(struct dt_rnic_qp *qp, uint32_t psn)
{
    struct dt_requester *req = &qp->req;

    DT_CHECK(req->timer_ns == DT_RNIC_NEVER && req->tail == req->decoded);
    req->psn_una = req->psn_next = req->psn_top = req->psn_new = psn;
    req->reads_outstanding = 0;
    req->bytes_unasked = 0;
    req->retries_left = qp->attr.retry_cnt;
    req->patience_end_ns = 0;
    req->rnr_left = qp->attr.rnr_retry;
    req->rnr_waiting = req->went_back = req->nak_was_last = false;
}

uint16_t dt_requester_posted(const struct dt_rnic_qp *qp)
{
    return (uint16_t)(be32toh(dt_load_acquire(&qp->req.doorbell[DT_DBREC_SEND])) - qp->req.tail);
}

void dt_requester_wake(struct dt_rnic_qp *qp)
{
    if (dt_list_is_empty(&qp->send_node))
        dt_list_push_back(&qp->rnic->send_list, &qp->send_node);
}

void dt_requester_go_back(struct dt_rnic_qp *qp)
{
    struct dt_requester *req = &qp->req;

    DT_CHECK(req->psn_una != req->psn_top); /* something was sent and is not acknowledged */
    qp->rnic->counters.retransmissions++;
    req->cursor = req->tail;
    req->psn_next = req->psn_una;
    req->reads_outstanding = 0;
    req->bytes_unasked = 0;
    dt_requester_wake(qp);
    DT_CHECK(dt_requester_indices_are_ordered(req) && dt_requester_psns_are_ordered(req));
}

/* Has the element at the cursor been sent in part? */
static bool is_inside_element(const struct dt_requester *req)
{
    return req->cursor != req->decoded && req->psn_next != dt_requester_entry(req, req->cursor)->psn;
}

bool dt_requester_is_drained(const struct dt_rnic_qp *qp)
{
    const struct dt_requester *req = &qp->req;

    return req->psn_una == req->psn_top && !is_inside_element(req);
}

/* ---- decoding an element ---- */

static void refuse(struct dt_sq_entry *entry, uint8_t status, uint8_t vendor_err)
{
    DT_CHECK(entry->status == IBV_WC_SUCCESS && status != IBV_WC_SUCCESS); /* the first reason stands */
    entry->status = status;
    entry->vendor_err = vendor_err;
}

static void check_element(const struct dt_rnic_qp *qp, struct dt_sq_entry *entry, uint16_t index,
                          uint16_t blocks_posted)
{
    const struct dt_wqe *wqe = &entry->wqe;
    uint32_t segments = wqe->is_inline || wqe->opcode == DT_WQE_NOP ? 0 : wqe->units - wqe->first_data;

    if (wqe->is_malformed || wqe->blocks > blocks_posted || segments > DT_PACKET_IOV_MAX)
        refuse(entry, IBV_WC_LOC_QP_OP_ERR, DT_VENDOR_BAD_ELEMENT);
    else if (wqe->index != index || wqe->qpn != qp->number)
        refuse(entry, IBV_WC_LOC_QP_OP_ERR, DT_VENDOR_BAD_INDEX);
    else if (wqe->payload_bytes > DT_RNIC_MESSAGE_BYTES_MAX)
        refuse(entry, IBV_WC_LOC_LEN_ERR, DT_VENDOR_LENGTH);
    else if (wqe->opcode == DT_WQE_READ && !qp->attr.max_rd_atomic)
        refuse(entry, IBV_WC_LOC_QP_OP_ERR, DT_VENDOR_BAD_OPCODE);
    else if (qp->is_unreliable && wqe->payload_bytes) /* the wire may still read it after the completion */
        refuse(entry, IBV_WC_LOC_QP_OP_ERR, DT_VENDOR_LENGTH);
}

/* Decodes the next announced element and assigns its PSNs; false when there is none. */
static bool decode_next(struct dt_rnic_qp *qp)
{
    struct dt_requester *req = &qp->req;
    uint16_t posted = dt_requester_posted(qp);
    uint16_t looked_at = (uint16_t)(req->decoded - req->tail);
    struct dt_sq_entry *entry;

    if (posted > req->ring.blocks || posted < looked_at) {
        dt_qp_break(qp); /* the producer index overran the oldest element, or moved backwards */
        return false;
    }
    if (posted == looked_at)
        return false;
    entry = dt_requester_entry(req, req->decoded);
    dt_wqe_decode(&req->ring, req->decoded, &entry->wqe);
    entry->status = IBV_WC_SUCCESS;
    entry->vendor_err = DT_VENDOR_NONE;
    check_element(qp, entry, req->decoded, (uint16_t)(posted - looked_at));
    entry->psn = req->psn_new;
    entry->psn_count = 0;
    if (entry->status == IBV_WC_SUCCESS && entry->wqe.opcode != DT_WQE_NOP)
        entry->psn_count = dt_psn_count(entry->wqe.payload_bytes, qp->mtu_shift);
    req->psn_new = dt_psn_add(req->psn_new, entry->psn_count);
    req->decoded = (uint16_t)(req->decoded + dt_min_u64(entry->wqe.blocks, posted - looked_at));
    DT_CHECK_HOT(dt_requester_indices_are_ordered(req) && dt_requester_psns_are_ordered(req));
    return true;
}

/* ---- packets ---- */

/* Checks and adds one piece of local memory; false with the entry refused. */
static bool add_piece(const struct dt_rnic_qp *qp, struct dt_sq_entry *entry, struct dt_packet *packet,
                      const struct dt_wqe_sge *sge, uint64_t skip, uint64_t bytes)
{
    uint8_t vendor_err = DT_VENDOR_NONE;
    void *from = dt_mr_translate(qp->rnic, sge->lkey, qp->pd, sge->addr + skip, bytes, 0, &vendor_err);

    if (!from) {
        refuse(entry, IBV_WC_LOC_PROT_ERR, vendor_err);
        return false;
    }
    DT_CHECK_HOT(packet->iov_count < DT_PACKET_IOV_MAX);
    packet->iov[packet->iov_count++] = (struct iovec){from, bytes};
    return true;
}

/* Points the packet at [offset, offset + packet->payload_bytes) of the element's payload. */
static bool gather(const struct dt_rnic_qp *qp, struct dt_sq_entry *entry, uint64_t offset,
                   struct dt_packet *packet)
{
    const struct dt_wqe_ring *ring = &qp->req.ring;
    uint16_t index = entry->wqe.index;
    uint64_t left = packet->payload_bytes;
    struct dt_wqe_sge sge;

    if (entry->wqe.is_inline) {
        if (left)
            packet->iov_count = dt_wqe_inline_iov(ring, index, &entry->wqe, offset, left, packet->iov);
        return true;
    }
    for (uint32_t n = 0; left && dt_wqe_segment(ring, index, &entry->wqe, n, &sge); n++) {
        uint64_t bytes;

        if (offset >= sge.bytes) {
            offset -= sge.bytes;
            continue;
        }
        bytes = dt_min_u64(sge.bytes - offset, left);
        if (!add_piece(qp, entry, packet, &sge, offset, bytes))
            return false;
        offset = 0;
        left -= bytes;
    }
    if (left) /* the application changed the element after it was posted */
        refuse(entry, IBV_WC_LOC_QP_OP_ERR, DT_VENDOR_BAD_ELEMENT);
    return !left;
}

static void after_transmit(struct dt_rnic_qp *qp, const struct dt_sq_entry *entry, uint32_t psn_count,
                           uint64_t now_ns)
{
    struct dt_requester *req = &qp->req;

    req->psn_next = dt_psn_add(req->psn_next, psn_count);
    if (dt_psn_diff(req->psn_next, req->psn_top) > 0)
        req->psn_top = req->psn_next;
    if (req->psn_next == dt_psn_add(entry->psn, entry->psn_count)) {
        req->cursor = (uint16_t)(req->cursor + entry->wqe.blocks);
        req->reads_outstanding += entry->wqe.opcode == DT_WQE_READ;
        DT_CHECK_HOT(req->reads_outstanding <= DT_RNIC_RD_ATOMIC_MAX);
    }
    DT_CHECK_HOT(dt_requester_indices_are_ordered(req) && dt_requester_psns_are_ordered(req));
    DT_CHECK_HOT((uint32_t)dt_psn_diff(req->psn_top, req->psn_una) < DT_PSN_WINDOW);
    if (qp->rnic->options.wire->ops->mark)
        req->mark = qp->rnic->options.wire->ops->mark(qp->link);
    if (req->timer_ns == DT_RNIC_NEVER && qp->attr.timeout)
        dt_requester_arm_timer(qp, now_ns + (4096ull << qp->attr.timeout));
}

static void transmit_read(struct dt_rnic_qp *qp, const struct dt_sq_entry *entry, uint64_t now_ns)
{
    struct dt_packet packet;
    uint32_t done = (uint32_t)dt_psn_diff(qp->req.psn_next, entry->psn);
    uint64_t offset = (uint64_t)done << qp->mtu_shift;

    DT_CHECK_HOT(done < entry->psn_count);
    dt_qp_init_packet(qp, &packet, DT_PACKET_READ_REQUEST, qp->req.psn_next, entry->psn_count - done);
    packet.flags = DT_PACKET_FIRST | DT_PACKET_LAST | DT_PACKET_ACK_REQUEST;
    packet.rkey = entry->wqe.rkey;
    packet.remote_addr = entry->wqe.remote_addr + offset;
    packet.message_bytes = entry->wqe.payload_bytes - offset;
    dt_qp_transmit(qp, &packet, now_ns);
    after_transmit(qp, entry, packet.psn_count, now_ns);
}

static uint8_t segment_flags(struct dt_requester *req, const struct dt_sq_entry *entry, uint64_t offset,
                             uint64_t bytes)
{
    uint8_t flags = offset ? 0 : DT_PACKET_FIRST;
    bool is_last = offset + bytes == entry->wqe.payload_bytes;

    req->bytes_unasked += bytes;
    if (is_last) {
        flags |= DT_PACKET_LAST;
        if (entry->wqe.opcode == DT_WQE_WRITE_IMM || entry->wqe.opcode == DT_WQE_SEND_IMM)
            flags |= DT_PACKET_HAS_IMM;
        if (entry->wqe.flags & DT_WQE_SOLICITED)
            flags |= DT_PACKET_SOLICITED;
    }
    if (is_last || req->bytes_unasked >= UNASKED_BYTES_MAX) {
        flags |= DT_PACKET_ACK_REQUEST;
        req->bytes_unasked = 0;
    }
    return flags;
}

/* One segment of a SEND or a WRITE; false when the element turned out to be bad. */
static bool transmit_segment(struct dt_rnic_qp *qp, struct dt_sq_entry *entry, uint64_t now_ns)
{
    struct dt_packet packet;
    uint32_t psn = qp->req.psn_next;
    uint64_t offset = (uint64_t)dt_psn_diff(psn, entry->psn) << qp->mtu_shift;
    uint64_t bytes = dt_min_u64(entry->wqe.payload_bytes - offset, dt_qp_segment_bytes(qp));
    bool is_write = dt_wqe_has_remote(entry->wqe.opcode);

    DT_CHECK_HOT((uint32_t)dt_psn_diff(psn, entry->psn) < entry->psn_count);
    dt_qp_init_packet(qp, &packet, is_write ? DT_PACKET_WRITE : DT_PACKET_SEND, psn,
                      dt_psn_count(bytes, qp->mtu_shift));
    packet.payload_bytes = bytes;
    if (!gather(qp, entry, offset, &packet))
        return false;
    packet.flags = segment_flags(&qp->req, entry, offset, bytes);
    if (packet.flags & DT_PACKET_HAS_IMM)
        packet.imm = entry->wqe.imm;
    packet.message_bytes = entry->wqe.payload_bytes;
    if (is_write) {
        packet.rkey = entry->wqe.rkey;
        packet.remote_addr = entry->wqe.remote_addr + offset;
    }
    dt_qp_transmit(qp, &packet, now_ns);
    after_transmit(qp, entry, packet.psn_count, now_ns);
    return true;
}

/* ---- choosing the next step ---- */

enum step {
    STEP_SENT,
    STEP_SKIPPED, /* nothing to transmit for this element */
    STEP_HELD,    /* by the wire or the pace: stays on the list */
    STEP_IDLE     /* nothing to do before an answer, a timer or the application comes */
};

/* Do the windows and the state of the queue pair allow the next packet of this element? */
static bool may_proceed(const struct dt_rnic_qp *qp, const struct dt_sq_entry *entry)
{
    const struct dt_requester *req = &qp->req;
    bool is_read = entry->wqe.opcode == DT_WQE_READ;
    uint32_t psn_count = is_read ? entry->psn_count : dt_psn_count(dt_qp_segment_bytes(qp), qp->mtu_shift);

    if ((uint32_t)dt_psn_diff(req->psn_next, req->psn_una) + psn_count >= DT_PSN_WINDOW)
        return false;
    if (req->psn_next != entry->psn)
        return true;
    if (dt_qp_state(qp) == IBV_QPS_SQD && req->psn_next == req->psn_top)
        return false;
    if (entry->wqe.flags & DT_WQE_FENCE && req->reads_outstanding)
        return false;
    return !is_read || req->reads_outstanding < qp->attr.max_rd_atomic;
}

static enum step send_one(struct dt_rnic_qp *qp, uint64_t now_ns)
{
    struct dt_requester *req = &qp->req;
    enum ibv_qp_state state = dt_qp_state(qp);
    struct dt_sq_entry *entry;

    if ((state != IBV_QPS_RTS && state != IBV_QPS_SQD) || req->rnr_waiting)
        return STEP_IDLE;
    if (req->cursor == req->decoded && ((state == IBV_QPS_SQD) || !decode_next(qp)))
        return STEP_IDLE;
    DT_CHECK_HOT(req->cursor != req->decoded);
    entry = dt_requester_entry(req, req->cursor);
    if (entry->status != IBV_WC_SUCCESS) {
        dt_requester_retire(qp, now_ns);
        return STEP_IDLE;
    }
    if (!may_proceed(qp, entry))
        return STEP_IDLE;
    if (entry->wqe.opcode == DT_WQE_NOP) {
        req->cursor = (uint16_t)(req->cursor + entry->wqe.blocks);
        dt_requester_retire(qp, now_ns);
        return STEP_SKIPPED;
    }
    if (!dt_qp_can_transmit(qp))
        return STEP_HELD;
    if (entry->wqe.opcode == DT_WQE_READ) {
        transmit_read(qp, entry, now_ns);
        return STEP_SENT;
    }
    if (entry->wqe.payload_bytes && dt_rnic_is_paced_out(qp->rnic, now_ns))
        return STEP_HELD;
    if (!transmit_segment(qp, entry, now_ns))
        return STEP_SKIPPED;
    if (qp->is_unreliable)
        dt_requester_complete_sent(qp, now_ns);
    return STEP_SENT;
}

bool dt_requester_send(struct dt_rnic_qp *qp, unsigned quantum, uint64_t now_ns)
{
    bool sent = false;

    while (quantum--) {
        enum step step = send_one(qp, now_ns);

        if (step == STEP_IDLE)
            dt_list_remove(&qp->send_node);
        if (step == STEP_IDLE || step == STEP_HELD)
            return sent;
        sent = true;
    }
    return sent;
}
