/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The responder's receive side: orders, checks and executes requests.
 *
 * A segment is treated as the packets it stands for: PSNs that were executed before are cut off its front,
 * and when the last PSN must wait for a receive, the ones before it are executed.
 */
#include <errno.h>
#include <string.h>

#include "softrnic/engine_state.h"

/* The part of a segment that is left to execute. */
struct request {
    const struct dt_packet *packet;
    struct dt_received *received;
    uint32_t psn;
    uint32_t psn_count;
    uint8_t flags;
    uint64_t remote_addr;
    uint64_t bytes;
    uint64_t land_offset; /* of these bytes in the segment */
};

void dt_responder_reset(struct dt_rnic_qp *qp)
{
    struct dt_responder *resp = &qp->resp;

    while (dt_ring_used(&resp->ring))
        dt_ring_pop(&resp->ring);
    resp->psn = resp->msn = 0;
    resp->in_message = resp->nak_sent = false;
    DT_CHECK(!resp->ack_pending && !resp->job_count); /* dropped before (dt_responder_drop_answers) */
}

/* ---- completions and errors ---- */

/* Consumes the oldest receive with a completion; false when the completion broke the queue pair. */
static bool complete_recv(struct dt_rnic_qp *qp, struct dt_cqe *cqe)
{
    cqe->wr_id = dt_responder_front(&qp->resp)->wr_id;
    cqe->qp_context = qp->context;
    cqe->qpn = qp->number;
    cqe->flags |= DT_CQE_IS_RECV;
    if (cqe->status != IBV_WC_SUCCESS)
        cqe->flags |= DT_CQE_SOLICITED;
    dt_ring_pop(&qp->resp.ring);
    if (dt_cq_push(qp->recv_cq, cqe))
        return true;
    dt_qp_break(qp);
    return false;
}

void dt_responder_flush(struct dt_rnic_qp *qp)
{
    DT_CHECK(dt_qp_state(qp) == IBV_QPS_ERR);
    qp->resp.in_message = false;
    while (dt_ring_used(&qp->resp.ring)) {
        struct dt_cqe cqe = {
            .op = DT_CQE_RECV, .status = IBV_WC_WR_FLUSH_ERR, .vendor_err = DT_VENDOR_FLUSHED};

        complete_recv(qp, &cqe);
    }
}

void dt_responder_fail(struct dt_rnic_qp *qp, uint8_t syndrome, uint32_t psn, int event)
{
    bool was_dead = dt_qp_state(qp) == IBV_QPS_ERR;

    DT_CHECK(syndrome & 0xe0); /* a NAK */
    dt_responder_note(qp, syndrome, psn);
    dt_qp_enter_error(qp, true);
    DT_CHECK(dt_responder_is_listed(qp)); /* the NAK is sent all the same */
    if (event >= 0 && !was_dead)
        dt_rnic_raise(qp->rnic, (enum ibv_event_type)event, qp, NULL);
}

static void fail_invalid(struct dt_rnic_qp *qp, const struct request *request)
{
    dt_responder_fail(qp, DT_SYNDROME_NAK_INVALID, request->psn, IBV_EVENT_QP_REQ_ERR);
}

static void fail_access(struct dt_rnic_qp *qp, const struct request *request)
{
    dt_responder_fail(qp, DT_SYNDROME_NAK_ACCESS, request->psn, IBV_EVENT_QP_ACCESS_ERR);
}

/* Fails the receive in use. */
static void fail_recv(struct dt_rnic_qp *qp, const struct request *request, uint8_t syndrome, uint8_t status,
                      uint8_t vendor_err)
{
    struct dt_cqe cqe = {.op = DT_CQE_RECV, .status = status, .vendor_err = vendor_err};

    if (complete_recv(qp, &cqe))
        dt_responder_fail(qp, syndrome, request->psn, -1);
}

/* Executed: the next PSN is expected, and an acknowledgement may be due. */
static void advance(struct dt_rnic_qp *qp, const struct request *request)
{
    struct dt_responder *resp = &qp->resp;

    DT_CHECK_HOT(request->psn == resp->psn && request->psn_count > 0);
    resp->psn = dt_psn_add(request->psn, request->psn_count);
    resp->nak_sent = false;
    if (resp->ack_pending && resp->ack_syndrome != DT_SYNDROME_ACK)
        resp->ack_pending = false; /* the packet that the NAK asked for has arrived */
    resp->in_message = !(request->flags & DT_PACKET_LAST);
    resp->message_op = request->packet->op;
    if (request->flags & DT_PACKET_LAST)
        resp->msn = (resp->msn + 1) & DT_PSN_MASK;
    qp->rnic->counters.payload_bytes_landed += request->bytes;
    if (request->flags & DT_PACKET_ACK_REQUEST)
        dt_responder_note(qp, DT_SYNDROME_ACK, 0);
}

/* No receive is posted: asks the requester to retry after min_rnr_timer. */
static void answer_rnr(struct dt_rnic_qp *qp)
{
    DT_CHECK(qp->attr.min_rnr_timer <= 31);
    qp->resp.nak_sent = true;
    dt_responder_note(qp, (uint8_t)(DT_SYNDROME_RNR | qp->attr.min_rnr_timer), qp->resp.psn);
}

/* Leaves only the last `request->psn_count - n` PSNs. */
static void cut_front(struct request *request, uint32_t n, unsigned mtu_shift)
{
    uint64_t bytes = (uint64_t)n << mtu_shift;

    DT_CHECK_HOT(n > 0 && n < request->psn_count && bytes < request->bytes);
    request->psn = dt_psn_add(request->psn, n);
    request->psn_count -= n;
    request->flags &= (uint8_t)~DT_PACKET_FIRST;
    request->remote_addr += bytes;
    request->bytes -= bytes;
    request->land_offset += bytes;
}

/* Leaves all but the last PSN. */
static void cut_last(struct request *request, unsigned mtu_shift)
{
    DT_CHECK_HOT(request->psn_count > 1 && request->flags & DT_PACKET_LAST);
    request->psn_count--;
    request->bytes = (uint64_t)request->psn_count << mtu_shift;
    request->flags &= DT_PACKET_FIRST;
}

/* FIRST begins a message; anything else continues the one that is open. */
static bool follows(const struct dt_responder *resp, const struct request *request)
{
    if (request->flags & DT_PACKET_FIRST)
        return !resp->in_message;
    return resp->in_message && resp->message_op == request->packet->op;
}

/* ---- WRITE ---- */

/* The payload's destination: checks the whole message at its first segment, and each segment. */
static bool check_write(struct dt_rnic_qp *qp, const struct request *request, void **to)
{
    struct dt_responder *resp = &qp->resp;
    const struct dt_packet *packet = request->packet;
    uint8_t vendor_err;

    *to = NULL;
    if (request->flags & DT_PACKET_FIRST && packet->message_bytes &&
        !dt_mr_translate(qp->rnic, packet->rkey, qp->pd, request->remote_addr, packet->message_bytes,
                         IBV_ACCESS_REMOTE_WRITE, &vendor_err))
        return false;
    if (request->flags & DT_PACKET_FIRST) {
        resp->message_bytes = resp->message_left = packet->message_bytes;
        resp->next_addr = request->remote_addr;
    }
    if (request->bytes)
        *to = dt_mr_translate(qp->rnic, packet->rkey, qp->pd, request->remote_addr, request->bytes,
                              IBV_ACCESS_REMOTE_WRITE, &vendor_err);
    return *to || !request->bytes;
}

/* Is it the next part of its message, and the last exactly when nothing is left after it? */
static bool write_adds_up(const struct dt_responder *resp, const struct request *request)
{
    bool is_last = request->flags & DT_PACKET_LAST;

    return request->remote_addr == resp->next_addr && request->bytes <= resp->message_left &&
           is_last == (request->bytes == resp->message_left);
}

static void finish_write(struct dt_rnic_qp *qp, const struct request *request)
{
    const struct dt_packet *packet = request->packet;
    struct dt_cqe cqe = {.op = DT_CQE_RECV_WRITE_IMM,
                         .byte_len = (uint32_t)qp->resp.message_bytes,
                         .imm = packet->imm,
                         .flags = DT_CQE_HAS_IMM};

    if (packet->flags & DT_PACKET_SOLICITED)
        cqe.flags |= DT_CQE_SOLICITED;
    if (request->flags & DT_PACKET_HAS_IMM && !complete_recv(qp, &cqe))
        return;
    advance(qp, request);
}

static void execute_write(struct dt_rnic_qp *qp, struct request *request)
{
    struct dt_responder *resp = &qp->resp;
    bool lacks_recv = request->flags & DT_PACKET_HAS_IMM && !dt_ring_used(&resp->ring);
    void *to;

    if (!follows(resp, request) || !(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE)) {
        fail_invalid(qp, request);
        return;
    }
    if (!check_write(qp, request, &to)) {
        fail_access(qp, request);
        return;
    }
    if (!write_adds_up(resp, request)) {
        fail_invalid(qp, request);
        return;
    }
    if (lacks_recv && request->psn_count == 1) {
        answer_rnr(qp);
        return;
    }
    if (lacks_recv)
        cut_last(request, qp->mtu_shift);
    if (request->bytes &&
        qp->rnic->options.wire->ops->land(request->received, request->land_offset, to, request->bytes)) {
        qp->rnic->counters.dropped++;
        return;
    }
    DT_CHECK_HOT(request->bytes <= resp->message_left && resp->message_left <= resp->message_bytes);
    resp->message_left -= request->bytes;
    resp->next_addr += request->bytes;
    finish_write(qp, request);
    if (lacks_recv)
        answer_rnr(qp);
}

/* ---- SEND ---- */

static void finish_send(struct dt_rnic_qp *qp, const struct request *request)
{
    const struct dt_packet *packet = request->packet;
    struct dt_cqe cqe = {.op = DT_CQE_RECV, .byte_len = (uint32_t)qp->resp.message_bytes};

    if (request->flags & DT_PACKET_HAS_IMM) {
        cqe.imm = packet->imm;
        cqe.flags = DT_CQE_HAS_IMM;
    }
    if (packet->flags & DT_PACKET_SOLICITED)
        cqe.flags |= DT_CQE_SOLICITED;
    if (request->flags & DT_PACKET_LAST && !complete_recv(qp, &cqe))
        return;
    advance(qp, request);
}

static void execute_send(struct dt_rnic_qp *qp, struct request *request)
{
    struct dt_responder *resp = &qp->resp;
    uint8_t vendor_err = DT_VENDOR_NONE;
    const struct dt_recv *recv;
    int error;

    if (!follows(resp, request)) {
        fail_invalid(qp, request);
        return;
    }
    if (!dt_ring_used(&resp->ring)) {
        answer_rnr(qp);
        return;
    }
    if (request->flags & DT_PACKET_FIRST)
        resp->message_bytes = 0;
    recv = dt_responder_front(resp);
    error = dt_qp_scatter(qp, recv->sges, recv->num_sge, resp->message_bytes, request->received,
                          request->land_offset, request->bytes, &vendor_err);
    if (error == EINVAL && vendor_err == DT_VENDOR_LENGTH) {
        fail_recv(qp, request, DT_SYNDROME_NAK_INVALID, IBV_WC_LOC_LEN_ERR, vendor_err);
    } else if (error == EINVAL) {
        fail_recv(qp, request, DT_SYNDROME_NAK_OPERATION, IBV_WC_LOC_PROT_ERR, vendor_err);
    } else if (error) {
        qp->rnic->counters.dropped++;
    } else {
        resp->message_bytes += request->bytes;
        finish_send(qp, request);
    }
}

/* ---- READ ---- */

static void execute_read(struct dt_rnic_qp *qp, const struct request *request)
{
    struct dt_responder *resp = &qp->resp;
    const struct dt_packet *packet = request->packet;
    uint32_t fresh = 0;
    uint8_t vendor_err;

    for (uint32_t i = 0; i < resp->job_count; i++)
        fresh += !resp->jobs[(resp->job_head + i) % DT_READ_JOBS_MAX].is_repeat;
    if (resp->in_message || !(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ) ||
        fresh >= qp->attr.max_dest_rd_atomic) {
        fail_invalid(qp, request);
        return;
    }
    if (packet->message_bytes &&
        !dt_mr_translate(qp->rnic, packet->rkey, qp->pd, packet->remote_addr, packet->message_bytes,
                         IBV_ACCESS_REMOTE_READ, &vendor_err)) {
        fail_access(qp, request);
        return;
    }
    DT_CHECK_HOT(request->psn == resp->psn);
    resp->psn = dt_psn_add(request->psn, request->psn_count);
    resp->nak_sent = false;
    resp->msn = (resp->msn + 1) & DT_PSN_MASK;
    resp->ack_pending = false; /* the response acknowledges all before it */
    dt_responder_add_read(qp, packet, false);
}

/* ---- order ---- */

/* Are the packet's fields consistent? */
static bool is_sane(const struct dt_packet *packet)
{
    uint64_t bytes = packet->op == DT_PACKET_READ_REQUEST ? packet->message_bytes : packet->payload_bytes;
    uint64_t mtu;

    if (packet->mtu_shift < 8 || packet->mtu_shift > 12 || bytes > DT_RNIC_MESSAGE_BYTES_MAX ||
        packet->psn > DT_PSN_MASK)
        return false;
    if (packet->psn_count != dt_psn_count(bytes, packet->mtu_shift))
        return false;
    mtu = 1ull << packet->mtu_shift;
    return packet->op == DT_PACKET_READ_REQUEST || packet->flags & DT_PACKET_LAST ||
           (bytes && bytes % mtu == 0);
}

/* A PSN is missing: sends one sequence NAK. */
static void answer_gap(struct dt_rnic_qp *qp)
{
    struct dt_responder *resp = &qp->resp;

    qp->rnic->counters.out_of_sequence++;
    if (resp->nak_sent)
        return;
    resp->nak_sent = true;
    dt_responder_note(qp, DT_SYNDROME_NAK_SEQUENCE, resp->psn);
    DT_CHECK(dt_responder_is_listed(qp));
}

/* A duplicate: acknowledges it again, or answers the READ again. */
static void answer_duplicate(struct dt_rnic_qp *qp, const struct dt_packet *packet)
{
    struct dt_responder *resp = &qp->resp;

    qp->rnic->counters.duplicates++;
    if (packet->op == DT_PACKET_READ_REQUEST)
        dt_responder_add_read(qp, packet, true);
    else if (!resp->ack_pending)
        dt_responder_note(qp, DT_SYNDROME_ACK, 0);
}

static void execute(struct dt_rnic_qp *qp, struct request *request)
{
    DT_CHECK_HOT(request->psn == qp->resp.psn && dt_qp_state(qp) != IBV_QPS_ERR);
    if (!qp->established) {
        qp->established = true;
        dt_rnic_raise(qp->rnic, IBV_EVENT_COMM_EST, qp, NULL);
    }
    if (request->packet->mtu_shift != qp->mtu_shift)
        fail_invalid(qp, request);
    else if (request->packet->op == DT_PACKET_WRITE)
        execute_write(qp, request);
    else if (request->packet->op == DT_PACKET_SEND)
        execute_send(qp, request);
    else
        execute_read(qp, request);
}

/* May a UC queue pair execute this? Otherwise it is dropped without an answer. */
static bool fits_unreliable(const struct dt_rnic_qp *qp, const struct dt_packet *packet)
{
    const uint8_t whole = DT_PACKET_FIRST | DT_PACKET_LAST;
    bool is_write = packet->op == DT_PACKET_WRITE;
    bool takes_recv = !is_write || packet->flags & DT_PACKET_HAS_IMM;

    if ((packet->flags & whole) != whole || packet->payload_bytes || packet->message_bytes ||
        packet->mtu_shift != qp->mtu_shift || (!is_write && packet->op != DT_PACKET_SEND))
        return false;
    if (is_write && !(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
        return false;
    return !takes_recv || dt_ring_used(&qp->resp.ring);
}

/* UC: a message of one packet, executed in whatever order it comes; those that were lost are skipped. */
static void receive_unreliable(struct dt_rnic_qp *qp, const struct dt_packet *packet,
                               struct dt_received *received)
{
    struct request request = {.packet = packet,
                              .received = received,
                              .psn = packet->psn,
                              .psn_count = packet->psn_count,
                              .flags = packet->flags & (uint8_t)~DT_PACKET_ACK_REQUEST,
                              .remote_addr = packet->remote_addr};

    if (!is_sane(packet) || !fits_unreliable(qp, packet)) {
        qp->rnic->counters.dropped++;
        return;
    }
    qp->resp.psn = packet->psn;
    execute(qp, &request);
    DT_CHECK(!qp->resp.ack_pending); /* UC never answers */
}

void dt_responder_receive(struct dt_rnic_qp *qp, const struct dt_packet *packet, struct dt_received *received)
{
    struct request request = {packet,
                              received,
                              packet->psn,
                              packet->psn_count,
                              packet->flags,
                              packet->remote_addr,
                              packet->payload_bytes,
                              0};
    int32_t ahead;

    if (qp->is_unreliable) {
        receive_unreliable(qp, packet, received);
        return;
    }
    if (!is_sane(packet)) {
        qp->rnic->counters.dropped++;
        return;
    }
    ahead = dt_psn_diff(packet->psn, qp->resp.psn);
    if (ahead > 0) {
        answer_gap(qp);
        return;
    }
    if ((uint32_t)-ahead >= packet->psn_count) {
        answer_duplicate(qp, packet);
        return;
    }
    if (ahead < 0 && packet->op == DT_PACKET_READ_REQUEST) {
        qp->rnic->counters.dropped++; /* a READ is executed as a whole, so no requester repeats a part */
        return;
    }
    if (ahead < 0)
        cut_front(&request, (uint32_t)-ahead, packet->mtu_shift);
    execute(qp, &request);
    DT_CHECK_HOT(dt_responder_is_listed(qp));
}
