/* SPDX-License-Identifier: Apache-2.0 */
/* Transmits packets to the wire, at the RNIC's rate. */
#include "softrnic/engine_state.h"

/* How much a paced RNIC may catch up after a late call. */
#define PACE_BURST_NS 200000u

bool dt_rnic_is_paced_out(const struct dt_rnic *rnic, uint64_t now_ns)
{
    return rnic->options.rate_bytes_per_s && now_ns < rnic->paced_until_ns;
}

static void pace(struct dt_rnic *rnic, uint64_t bytes, uint64_t now_ns)
{
    uint64_t earliest_ns = now_ns > PACE_BURST_NS ? now_ns - PACE_BURST_NS : 0;
    uint64_t cost_ns;

    if (!rnic->options.rate_bytes_per_s || !bytes)
        return;
    DT_CHECK_HOT(bytes <= DT_RNIC_MESSAGE_BYTES_MAX); /* so that the product fits */
    cost_ns = bytes * 1000000000ull / rnic->options.rate_bytes_per_s;
    rnic->paced_until_ns = dt_max_u64(rnic->paced_until_ns, earliest_ns) + cost_ns;
}

bool dt_qp_can_transmit(const struct dt_rnic_qp *qp)
{
    const struct dt_rnic *rnic = qp->rnic;

    return !rnic->link_up || rnic->options.wire->ops->can_transmit(qp->link);
}

void dt_qp_transmit(struct dt_rnic_qp *qp, const struct dt_packet *packet, uint64_t now_ns)
{
    struct dt_rnic *rnic = qp->rnic;

    DT_CHECK_HOT(packet->src_qpn == qp->number && packet->psn <= DT_PSN_MASK);
    DT_CHECK_HOT(packet->psn_count > 0 && packet->psn_count < DT_PSN_WINDOW);
    DT_CHECK_HOT(packet->iov_count <= DT_PACKET_IOV_MAX &&
                 (packet->iov_count > 0) == (packet->payload_bytes > 0));
    pace(rnic, packet->payload_bytes, now_ns);
    if (!rnic->link_up)
        return;
    rnic->counters.packets_sent++;
    rnic->counters.payload_bytes_sent += packet->payload_bytes;
    rnic->options.wire->ops->transmit(qp->link, packet, now_ns);
}

void dt_qp_init_packet(const struct dt_rnic_qp *qp, struct dt_packet *packet, uint8_t op, uint32_t psn,
                       uint32_t psn_count)
{
    packet->dst_qpn = qp->attr.dest_qp_num;
    packet->src_qpn = qp->number;
    packet->psn = psn;
    packet->psn_count = psn_count;
    packet->op = op;
    packet->flags = 0;
    packet->syndrome = 0;
    packet->mtu_shift = qp->mtu_shift;
    packet->msn = 0;
    packet->imm = 0;
    packet->rkey = 0;
    packet->remote_addr = 0;
    packet->message_bytes = 0;
    packet->payload_bytes = 0;
    packet->iov_count = 0;
}

uint64_t dt_qp_segment_bytes(const struct dt_rnic_qp *qp)
{
    uint64_t bytes = qp->rnic->options.wire->ops->segment_bytes_max;

    return bytes ? bytes : 1ull << qp->mtu_shift;
}
