/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The responder's transmit side: READ responses in the order of their requests, then the acknowledgement, so
 * that it does not overtake a response that it implies. A pending acknowledgement grows to cover later
 * requests.
 */
#include "softrnic/engine_state.h"

void dt_responder_note(struct dt_rnic_qp *qp, uint8_t syndrome, uint32_t nak_psn)
{
    struct dt_responder *resp = &qp->resp;

    resp->ack_pending = true;
    resp->ack_syndrome = syndrome;
    resp->nak_psn = nak_psn;
    if (dt_list_is_empty(&qp->reply_node))
        dt_list_push_back(&qp->rnic->reply_list, &qp->reply_node);
}

void dt_responder_drop_answers(struct dt_rnic_qp *qp)
{
    qp->resp.ack_pending = false;
    qp->resp.job_count = 0;
    dt_list_remove(&qp->reply_node);
    DT_CHECK(dt_responder_is_listed(qp));
}

/* ---- READ jobs ---- */

static struct dt_read_job *job_at(struct dt_responder *resp, uint32_t n)
{
    DT_CHECK_HOT(n < resp->job_count && resp->job_count <= DT_READ_JOBS_MAX);
    return &resp->jobs[(resp->job_head + n) % DT_READ_JOBS_MAX];
}

static void drop_first_job(struct dt_responder *resp)
{
    DT_CHECK_HOT(resp->job_count > 0);
    resp->job_head = (resp->job_head + 1) % DT_READ_JOBS_MAX;
    resp->job_count--;
}

/* The job that answers this READ, or what is left of it. */
static struct dt_read_job *find_job(struct dt_responder *resp, uint32_t psn_end)
{
    for (uint32_t n = 0; n < resp->job_count; n++) {
        struct dt_read_job *job = job_at(resp, n);

        if (dt_psn_add(job->psn, job->count) == psn_end)
            return job;
    }
    return NULL;
}

/*
 * A new READ comes last. A repeated READ is older than all others and comes first; without room the newest
 * job is dropped, which its requester must repeat anyway.
 */
static struct dt_read_job *insert_job(struct dt_responder *resp, bool is_repeat)
{
    if (resp->job_count == DT_READ_JOBS_MAX)
        resp->job_count--;
    resp->job_count++;
    if (!is_repeat)
        return job_at(resp, resp->job_count - 1);
    resp->job_head = (resp->job_head + DT_READ_JOBS_MAX - 1) % DT_READ_JOBS_MAX;
    return job_at(resp, 0);
}

void dt_responder_add_read(struct dt_rnic_qp *qp, const struct dt_packet *packet, bool is_repeat)
{
    struct dt_responder *resp = &qp->resp;
    struct dt_read_job *job = NULL;

    if (is_repeat) {
        job = find_job(resp, dt_psn_add(packet->psn, packet->psn_count));
        if (job && dt_psn_diff(packet->psn, job->psn) >= 0)
            return; /* still to be sent as it is */
    }
    if (!job) {
        job = insert_job(resp, is_repeat);
        job->is_repeat = is_repeat;
    }
    DT_CHECK_HOT(packet->psn_count > 0);
    job->psn = packet->psn;
    job->count = packet->psn_count;
    job->rkey = packet->rkey;
    job->msn = resp->msn;
    job->addr = packet->remote_addr;
    job->bytes = packet->message_bytes;
    job->is_first = true;
    if (dt_list_is_empty(&qp->reply_node))
        dt_list_push_back(&qp->rnic->reply_list, &qp->reply_node);
}

/* ---- out ---- */

/* One segment of the first job; false when its memory is no longer there to be read. */
static bool transmit_response(struct dt_rnic_qp *qp, struct dt_read_job *job, uint64_t now_ns)
{
    uint64_t bytes = dt_min_u64(job->bytes, dt_qp_segment_bytes(qp));
    struct dt_packet packet;
    uint8_t vendor_err;
    void *from = NULL;

    if (bytes)
        from = dt_mr_translate(qp->rnic, job->rkey, qp->pd, job->addr, bytes, IBV_ACCESS_REMOTE_READ,
                               &vendor_err);
    if (bytes && !from)
        return false;
    dt_qp_init_packet(qp, &packet, DT_PACKET_READ_RESPONSE, job->psn, dt_psn_count(bytes, qp->mtu_shift));
    packet.syndrome = DT_SYNDROME_ACK;
    packet.msn = job->msn;
    packet.payload_bytes = bytes;
    packet.iov[0] = (struct iovec){from, bytes};
    packet.iov_count = bytes ? 1 : 0;
    packet.flags = (uint8_t)((job->is_first ? DT_PACKET_FIRST : 0) |
                             (packet.psn_count == job->count ? DT_PACKET_LAST : 0));
    dt_qp_transmit(qp, &packet, now_ns);
    DT_CHECK_HOT(packet.psn_count <= job->count && bytes <= job->bytes);
    job->is_first = false;
    job->psn = dt_psn_add(job->psn, packet.psn_count);
    job->count -= packet.psn_count;
    job->addr += bytes;
    job->bytes -= bytes;
    return true;
}

static void transmit_ack(struct dt_rnic_qp *qp, uint64_t now_ns)
{
    struct dt_responder *resp = &qp->resp;
    struct dt_rnic_counters *counters = &qp->rnic->counters;
    bool is_ack = resp->ack_syndrome == DT_SYNDROME_ACK;
    struct dt_packet packet;

    DT_CHECK_HOT(resp->ack_pending && !resp->job_count); /* behind the responses that it would imply */
    dt_qp_init_packet(qp, &packet, DT_PACKET_ACK, is_ack ? dt_psn_sub(resp->psn, 1) : resp->nak_psn, 1);
    packet.syndrome = resp->ack_syndrome;
    packet.msn = resp->msn;
    resp->ack_pending = false;
    if (is_ack)
        counters->acks_sent++;
    else if ((packet.syndrome & 0xe0) == DT_SYNDROME_RNR)
        counters->rnr_naks_sent++;
    else
        counters->naks_sent++;
    dt_qp_transmit(qp, &packet, now_ns);
}

/* The next step with the first READ; false when it has to wait. */
static bool serve_read(struct dt_rnic_qp *qp, uint64_t now_ns)
{
    struct dt_responder *resp = &qp->resp;
    struct dt_read_job *job = job_at(resp, 0);
    bool is_repeat = job->is_repeat;
    uint32_t psn = job->psn;

    if (!dt_qp_can_transmit(qp) || (job->bytes && dt_rnic_is_paced_out(qp->rnic, now_ns)))
        return false;
    if (!transmit_response(qp, job, now_ns)) {
        drop_first_job(resp);
        /* A repeat may be an old packet from before the region was deregistered. */
        if (!is_repeat) {
            resp->job_count = 0;
            dt_responder_fail(qp, DT_SYNDROME_NAK_ACCESS, psn, IBV_EVENT_QP_ACCESS_ERR);
        }
    } else if (!job->count) {
        drop_first_job(resp);
    }
    return true;
}

bool dt_responder_reply(struct dt_rnic_qp *qp, unsigned quantum, uint64_t now_ns)
{
    struct dt_responder *resp = &qp->resp;
    bool sent = false;

    while (resp->job_count) {
        if (!quantum-- || !serve_read(qp, now_ns))
            return sent;
        sent = true;
    }
    if (resp->ack_pending) {
        if (!dt_qp_can_transmit(qp))
            return sent;
        transmit_ack(qp, now_ns);
        sent = true;
    }
    DT_CHECK_HOT(!resp->ack_pending && !resp->job_count);
    dt_list_remove(&qp->reply_node);
    return sent;
}
