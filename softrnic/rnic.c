/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "softrnic/rnic.h"

/* Segments a queue pair sends before the next one gets its turn. */
#define QUANTUM 8u
/* How far a paced RNIC may catch up after it was called late. */
#define PACE_BURST_NS 200000u

struct dt_rnic *dt_rnic_create(const struct dt_rnic_options *options)
{
    struct dt_rnic *rnic = calloc(1, sizeof *rnic);

    if (!rnic)
        return NULL;
    rnic->options = *options;
    rnic->qps = calloc(DT_RNIC_QP_MAX, sizeof(struct dt_rnic_qp *));
    rnic->qp_generation = calloc(DT_RNIC_QP_MAX, sizeof *rnic->qp_generation);
    if (!rnic->qps || !rnic->qp_generation || dt_mr_table_init(&rnic->mrs, options->number_seed)) {
        free(rnic->qps);
        free(rnic->qp_generation);
        free(rnic);
        return NULL;
    }
    rnic->qp_slot_next = options->number_seed % DT_RNIC_QP_MAX;
    dt_list_init(&rnic->cqs);
    dt_list_init(&rnic->send_list);
    dt_list_init(&rnic->reply_list);
    dt_list_init(&rnic->timer_list);
    rnic->timer_next_ns = DT_RNIC_NEVER;
    rnic->link_up = true;
    return rnic;
}

void dt_rnic_destroy(struct dt_rnic *rnic)
{
    if (!rnic)
        return;
    for (uint32_t i = 0; i < DT_RNIC_QP_MAX; i++) {
        if (rnic->qps[i])
            dt_rnic_qp_destroy(rnic->qps[i]);
    }
    dt_list_for_each(node, &rnic->cqs)
    {
        dt_rnic_cq_destroy(dt_container_of(node, struct dt_rnic_cq, node));
    }
    dt_mr_table_free(&rnic->mrs);
    free(rnic->qp_generation);
    free(rnic->qps);
    free(rnic);
}

void dt_rnic_raise(struct dt_rnic *rnic, enum ibv_event_type type, struct dt_rnic_qp *qp,
                   struct dt_rnic_cq *cq)
{
    struct dt_rnic_event event = {type, qp, cq};

    if (rnic->options.event)
        rnic->options.event(rnic->options.context, &event);
}

/* ---- packets out ---- */

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
    /* bytes is at most 2^30, so the product fits. */
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

typedef bool serve_func(struct dt_rnic_qp *qp, unsigned quantum, uint64_t now_ns);

/*
 * One turn for each queue pair on a list, `node_offset` in the queue pair. Who got something out goes to the
 * end, so that the next room goes to somebody else. Did anybody?
 */
static bool serve_list(struct dt_list *list, size_t node_offset, serve_func *serve, uint64_t now_ns)
{
    struct dt_list served, *node;
    bool moved = false;

    dt_list_init(&served);
    dt_list_for_each(turn, list)
    {
        if (!serve((struct dt_rnic_qp *)(void *)((char *)turn - node_offset), QUANTUM, now_ns))
            continue;
        moved = true;
        if (dt_list_is_empty(turn))
            continue; /* it has no more to do */
        dt_list_remove(turn);
        dt_list_push_back(&served, turn);
    }
    while ((node = dt_list_pop_front(&served)))
        dt_list_push_back(list, node);
    return moved;
}

/* Turns for everybody until nobody gets anything out any more. */
static void transmit(struct dt_rnic *rnic, uint64_t now_ns)
{
    bool moved;

    rnic->paced_at_ns = now_ns;
    do {
        moved = serve_list(&rnic->reply_list, offsetof(struct dt_rnic_qp, reply_node), dt_responder_reply,
                           now_ns);
        moved |=
            serve_list(&rnic->send_list, offsetof(struct dt_rnic_qp, send_node), dt_requester_send, now_ns);
    } while (moved);
}

/* ---- calls in ---- */

void dt_rnic_receive(struct dt_rnic *rnic, const struct dt_packet *packet, struct dt_received *received,
                     uint64_t now_ns)
{
    struct dt_rnic_qp *qp;
    enum ibv_qp_state state;

    if (rnic->is_fatal || !rnic->link_up)
        return;
    rnic->counters.packets_received++;
    qp = dt_qp_find(rnic, packet->dst_qpn);
    state = qp ? dt_qp_state(qp) : IBV_QPS_RESET;
    if ((state != IBV_QPS_RTR && state != IBV_QPS_RTS && state != IBV_QPS_SQD) ||
        packet->src_qpn != qp->attr.dest_qp_num) {
        rnic->counters.dropped++;
        return;
    }
    switch (packet->op) {
    case DT_PACKET_SEND:
    case DT_PACKET_WRITE:
    case DT_PACKET_READ_REQUEST:
        dt_responder_receive(qp, packet, received);
        break;
    case DT_PACKET_READ_RESPONSE:
    case DT_PACKET_ACK:
        dt_requester_receive(qp, packet, received, now_ns);
        break;
    default:
        rnic->counters.dropped++;
    }
}

static void fire_timers(struct dt_rnic *rnic, uint64_t now_ns)
{
    uint64_t next_ns = DT_RNIC_NEVER;

    if (now_ns < rnic->timer_next_ns)
        return;
    /* Timers armed by what happens below lower this again. */
    rnic->timer_next_ns = DT_RNIC_NEVER;
    dt_list_for_each(node, &rnic->timer_list)
    {
        struct dt_rnic_qp *qp = dt_container_of(node, struct dt_rnic_qp, timer_node);

        if (qp->req.timer_ns <= now_ns)
            dt_requester_fire_timer(qp, now_ns);
        else
            next_ns = dt_min_u64(next_ns, qp->req.timer_ns);
    }
    rnic->timer_next_ns = dt_min_u64(rnic->timer_next_ns, next_ns);
}

void dt_rnic_progress(struct dt_rnic *rnic, uint64_t now_ns)
{
    if (rnic->is_fatal)
        return;
    fire_timers(rnic, now_ns);
    transmit(rnic, now_ns);
}

uint64_t dt_rnic_deadline_ns(const struct dt_rnic *rnic)
{
    bool waits = !dt_list_is_empty(&rnic->send_list) || !dt_list_is_empty(&rnic->reply_list);
    uint64_t timer_ns = dt_list_is_empty(&rnic->timer_list) ? DT_RNIC_NEVER : rnic->timer_next_ns;

    if (rnic->is_fatal)
        return DT_RNIC_NEVER;
    /* Somebody stopped when the pace was last looked at; if that was not why, the wire will call. */
    if (waits && rnic->options.rate_bytes_per_s && rnic->paced_until_ns > rnic->paced_at_ns)
        return dt_min_u64(timer_ns, rnic->paced_until_ns);
    return timer_ns;
}

void dt_rnic_doorbell(struct dt_rnic_qp *qp, uint64_t now_ns)
{
    if (qp->rnic->is_fatal)
        return;
    if (dt_qp_state(qp) == IBV_QPS_ERR) {
        dt_requester_flush(qp);
        dt_responder_flush(qp);
        return;
    }
    dt_requester_wake(qp);
    transmit(qp->rnic, now_ns);
}

/* ---- control ---- */

void dt_rnic_set_link(struct dt_rnic *rnic, bool up)
{
    if (rnic->link_up == up || rnic->is_fatal)
        return;
    rnic->link_up = up;
    dt_rnic_raise(rnic, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, NULL, NULL);
}

bool dt_rnic_link_is_up(const struct dt_rnic *rnic)
{
    return rnic->link_up;
}

void dt_rnic_set_fatal(struct dt_rnic *rnic)
{
    if (rnic->is_fatal)
        return;
    rnic->is_fatal = true;
    dt_rnic_raise(rnic, IBV_EVENT_DEVICE_FATAL, NULL, NULL);
}

bool dt_rnic_is_fatal(const struct dt_rnic *rnic)
{
    return rnic->is_fatal;
}

void dt_rnic_set_rate(struct dt_rnic *rnic, uint64_t rate_bytes_per_s)
{
    rnic->options.rate_bytes_per_s = rate_bytes_per_s;
    rnic->paced_until_ns = 0;
}

void dt_rnic_query_counters(const struct dt_rnic *rnic, struct dt_rnic_counters *counters)
{
    *counters = rnic->counters;
}
