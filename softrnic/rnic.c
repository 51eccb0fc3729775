/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "softrnic/engine_state.h"

/* Segments that a queue pair sends before the next one is served. */
#define QUANTUM 8u

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
    for (uint32_t i = 0; rnic->qp_count && i < DT_RNIC_QP_MAX; i++) {
        if (rnic->qps[i])
            dt_rnic_qp_destroy(rnic->qps[i]);
    }
    dt_list_for_each(node, &rnic->cqs)
    {
        dt_rnic_cq_destroy(dt_container_of(node, struct dt_rnic_cq, node));
    }
    DT_CHECK(!rnic->qp_count && dt_list_is_empty(&rnic->cqs));
    DT_CHECK(dt_list_is_empty(&rnic->send_list) && dt_list_is_empty(&rnic->reply_list) &&
             dt_list_is_empty(&rnic->timer_list));
    dt_mr_table_free(&rnic->mrs);
    free(rnic->qp_generation);
    free(rnic->qps);
    free(rnic);
}

/* ---- packets out ---- */

typedef bool serve_func(struct dt_rnic_qp *qp, unsigned quantum, uint64_t now_ns);

/*
 * Serves each queue pair on a list once; its node is at `node_offset` in the queue pair. A queue pair that
 * transmitted moves to the end, so that the next room goes to another. Did any transmit?
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
            continue; /* nothing left to send */
        dt_list_remove(turn);
        dt_list_push_back(&served, turn);
    }
    while ((node = dt_list_pop_front(&served)))
        dt_list_push_back(list, node);
    DT_CHECK_HOT(dt_list_is_empty(&served));
    return moved;
}

/* Serves all queue pairs until none can transmit. */
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

        DT_CHECK(dt_requester_timer_is_listed(qp) && qp->rnic == rnic);
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
    /* A queue pair stopped while the pace was checked last; if the wire stopped it, the wire will call. */
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
