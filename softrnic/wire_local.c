/* SPDX-License-Identifier: Apache-2.0 */
#include "softrnic/wire_local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "softrnic/gid.h"
#include "softrnic/local_copy.h"
#include "softrnic/local_link.h"

/* Budget of one receive call, so that the lock is released soon. */
#define RECEIVE_PACKETS_MAX 64u
#define RECEIVE_BYTES_MAX   DT_LOCAL_SEGMENT_BYTES_MAX

/* ---- the engine's table ---------------------------------------------------------------------------------
 */

static struct dt_local_wire *wire_of(struct dt_wire *base)
{
    return dt_container_of(base, struct dt_local_wire, base);
}

static struct dt_wire_link *find_or_make_link(struct dt_wire *base, const uint8_t gid[16])
{
    struct dt_local_wire *wire = wire_of(base);

    dt_list_for_each(node, &wire->links)
    {
        struct dt_wire_link *link = dt_container_of(node, struct dt_wire_link, node);

        if (memcmp(link->gid, gid, sizeof link->gid) == 0)
            return link;
    }
    return dt_link_create(wire, gid);
}

static bool can_transmit(struct dt_wire_link *link)
{
    /* A packet without a receiver, or for a broken ring, is lost: no need to wait. */
    link->is_blocked =
        !dt_link_is_gone(link) && !dt_local_ring_has_room(&link->ring) && !link->ring.is_broken;
    return !link->is_blocked;
}

/* Publishes one packet, or loses it. */
static void put(struct dt_wire_link *link, const struct dt_packet *packet, bool must_copy)
{
    struct dt_local_wire *wire = link->wire;

    if (dt_link_is_gone(link) || link->ring.is_broken) {
        wire->counters.lost_absent++;
        return;
    }
    if (!dt_local_ring_push(&link->ring, packet, must_copy)) {
        wire->counters.lost_room++;
        return;
    }
    /* Sequentially consistent, as is the head: either the consumer sees the packet before it sleeps, or we
     * see its flag. */
    if (dt_load_seq_cst(&link->ring.shared->consumer_sleeps) &&
        dt_exchange_acq_rel(&link->ring.shared->consumer_sleeps, 0))
        dt_link_wake(link);
}

static void emit(void *arg, void *link, const struct dt_packet *packet, bool is_copied)
{
    (void)arg;
    put(link, packet, is_copied);
}

static void transmit(struct dt_wire_link *link, const struct dt_packet *packet, uint64_t now_ns)
{
    struct dt_local_wire *wire = link->wire;

    if (dt_link_is_gone(link))
        dt_link_reopen(link, now_ns);
    else if (link->ring.is_broken)
        dt_link_hang_up(link);
    if (wire->faults && dt_faults_active(wire->faults))
        dt_faults_apply(wire->faults, link, packet, now_ns, emit, NULL);
    else
        put(link, packet, false);
}

static uint32_t mark(const struct dt_wire_link *link)
{
    return link->memory ? link->ring.head : 0;
}

static bool is_unread(const struct dt_wire_link *link, uint32_t mark_then)
{
    return !dt_link_is_gone(link) && !link->ring.is_broken &&
           (int32_t)(mark_then - dt_load_relaxed(&link->ring.shared->tail)) > 0;
}

static void revoke_qp(struct dt_wire_link *link, uint32_t src_qpn)
{
    if (link->memory)
        dt_local_ring_revoke(&link->ring, src_qpn, NULL, 0);
}

static void revoke_memory(struct dt_wire *base, const void *addr, uint64_t bytes)
{
    dt_list_for_each(node, &wire_of(base)->links)
    {
        struct dt_wire_link *link = dt_container_of(node, struct dt_wire_link, node);

        if (link->memory)
            dt_local_ring_revoke(&link->ring, 0, addr, bytes);
    }
}

static int land(struct dt_received *opaque, uint64_t offset, void *dst, uint64_t bytes)
{
    struct dt_local_received *received = (struct dt_local_received *)opaque;
    const struct dt_local_payload *payload = &received->payload;

    if (offset > payload->bytes || bytes > payload->bytes - offset)
        return EINVAL;
    if (payload->kind == DT_LOCAL_REMOTE)
        return dt_inbound_fetch(received->inbound, payload, offset, dst, bytes);
    if (bytes > 0)
        dt_copy_ascending(dst, payload->data + offset, bytes);
    return 0;
}

static const struct dt_wire_ops local_ops = {
    .link = find_or_make_link,
    .can_transmit = can_transmit,
    .transmit = transmit,
    .revoke_qp = revoke_qp,
    .revoke_memory = revoke_memory,
    .land = land,
    .mark = mark,
    .is_unread = is_unread,
    .segment_bytes_max = DT_LOCAL_SEGMENT_BYTES_MAX,
};

/* ---- life -----------------------------------------------------------------------------------------------
 */

struct dt_local_wire *dt_local_wire_create(struct dt_local_host *host, uint32_t device,
                                           struct dt_faults *faults)
{
    struct dt_local_wire *wire = calloc(1, sizeof *wire);

    if (wire)
        wire->piece = malloc(DT_FETCH_PIECE_BYTES);
    if (!wire || !wire->piece) {
        free(wire);
        return NULL;
    }
    DT_CHECK(device < DT_LOCAL_WIRES_MAX && !host->wires[device]);
    wire->base.ops = &local_ops;
    wire->host = host;
    wire->device = device;
    wire->faults = faults;
    dt_gid_make(host->instance, device, wire->gid);
    dt_list_init(&wire->links);
    dt_list_init(&wire->inbounds);
    dt_list_init(&wire->new_inbounds);
    dt_list_init(&wire->closed);
    pthread_mutex_lock(&host->lock);
    host->wires[device] = wire;
    pthread_mutex_unlock(&host->lock);
    return wire;
}

void dt_local_wire_unplug(struct dt_local_wire *wire)
{
    struct dt_local_host *host = wire->host;
    struct dt_list *node;

    pthread_mutex_lock(&host->lock);
    if (host->wires[wire->device] == wire) /* else its successor's */
        host->wires[wire->device] = NULL;
    pthread_mutex_unlock(&host->lock);
    while ((node = dt_list_pop_front(&wire->new_inbounds)) || (node = dt_list_pop_front(&wire->inbounds)) ||
           (node = dt_list_pop_front(&wire->closed)))
        dt_inbound_destroy(dt_container_of(node, struct dt_inbound, node));
    dt_store_relaxed(&wire->has_new_inbounds, 0);
}

void dt_local_wire_destroy(struct dt_local_wire *wire)
{
    struct dt_list *node;

    dt_local_wire_unplug(wire);
    while ((node = dt_list_pop_front(&wire->links)))
        dt_link_destroy(dt_container_of(node, struct dt_wire_link, node));
    free(wire->piece);
    free(wire);
}

static void abandon_inbounds(struct dt_list *inbounds)
{
    dt_list_for_each(node, inbounds)
        dt_local_socket_abandon(&dt_container_of(node, struct dt_inbound, node)->socket);
}

void dt_local_wire_abandon(struct dt_local_wire *wire)
{
    abandon_inbounds(&wire->new_inbounds);
    abandon_inbounds(&wire->inbounds);
    abandon_inbounds(&wire->closed);
    dt_list_for_each(node, &wire->links)
        dt_local_socket_abandon(&dt_container_of(node, struct dt_wire_link, node)->socket);
}

struct dt_wire *dt_local_wire_base(struct dt_local_wire *wire)
{
    return &wire->base;
}

void dt_local_wire_gid(const struct dt_local_wire *wire, uint8_t gid[16])
{
    memcpy(gid, wire->gid, sizeof wire->gid);
}

void dt_local_wire_query_counters(const struct dt_local_wire *wire, struct dt_local_counters *counters)
{
    *counters = wire->counters;
}

/* ---- receiving ------------------------------------------------------------------------------------------
 */

static void adopt_new_inbounds(struct dt_local_wire *wire)
{
    struct dt_list *node;

    pthread_mutex_lock(&wire->host->lock);
    dt_store_relaxed(&wire->has_new_inbounds, 0);
    while ((node = dt_list_pop_front(&wire->new_inbounds)))
        dt_list_push_back(&wire->inbounds, node);
    pthread_mutex_unlock(&wire->host->lock);
}

struct budget {
    uint32_t packets;
    uint64_t bytes;
};

/* Delivers from one sender until its ring is empty or the budget used up; true if there was anything. */
static bool receive_from(struct dt_local_wire *wire, struct dt_inbound *inbound,
                         dt_local_deliver_func *deliver, void *arg, uint64_t now_ns, struct budget *budget)
{
    struct dt_local_received received = {.inbound = inbound};
    struct dt_packet packet;
    bool any = false;

    while (budget->packets < RECEIVE_PACKETS_MAX && budget->bytes < RECEIVE_BYTES_MAX &&
           dt_local_ring_peek(&inbound->ring, &packet, &received.payload)) {
        DT_CHECK_HOT(packet.iov_count == 0);
        deliver(arg, &packet, (struct dt_received *)&received, now_ns);
        dt_local_ring_pop(&inbound->ring);
        budget->packets++;
        budget->bytes += packet.payload_bytes;
        any = true;
    }
    if (any)
        dt_inbound_made_room(inbound);
    if (inbound->ring.is_broken) {
        wire->counters.broken_links++;
        dt_warn("soft-record", "software RNIC: process %d sent an invalid record; its link is closed",
                (int)inbound->pid);
    }
    return any;
}

bool dt_local_wire_receive(struct dt_local_wire *wire, dt_local_deliver_func *deliver, void *arg,
                           uint64_t now_ns)
{
    struct budget budget = {0, 0};
    bool any = false;

    if (dt_load_relaxed(&wire->has_new_inbounds))
        adopt_new_inbounds(wire);
    dt_list_for_each(node, &wire->inbounds)
    {
        struct dt_inbound *inbound = dt_container_of(node, struct dt_inbound, node);

        if (dt_local_ring_is_empty(&inbound->ring) && !dt_inbound_is_gone(inbound))
            continue;
        any |= receive_from(wire, inbound, deliver, arg, now_ns, &budget);
        if (inbound->ring.is_broken ||
            (dt_inbound_is_gone(inbound) && dt_local_ring_is_empty(&inbound->ring))) {
            dt_list_remove(node);
            dt_list_push_back(&wire->closed, node);
        }
        if (budget.packets >= RECEIVE_PACKETS_MAX || budget.bytes >= RECEIVE_BYTES_MAX) {
            /* Round robin: the others come first next time. */
            if (node_next != &wire->inbounds) {
                dt_list_remove(&wire->inbounds);
                dt_list_push_back(node_next, &wire->inbounds);
            }
            break;
        }
    }
    return any;
}

void dt_local_wire_progress(struct dt_local_wire *wire, uint64_t now_ns)
{
    if (wire->faults && dt_faults_deadline_ns(wire->faults) <= now_ns)
        dt_faults_release(wire->faults, now_ns, emit, NULL);
}

uint64_t dt_local_wire_deadline_ns(const struct dt_local_wire *wire)
{
    return wire->faults ? dt_faults_deadline_ns(wire->faults) : DT_NEVER_NS;
}

/* ---- sleeping -------------------------------------------------------------------------------------------
 */

static bool has_something(struct dt_local_wire *wire)
{
    if (dt_load_relaxed(&wire->has_new_inbounds))
        return true;
    dt_list_for_each(node, &wire->inbounds)
    {
        struct dt_inbound *inbound = dt_container_of(node, struct dt_inbound, node);

        if (!dt_local_ring_is_empty(&inbound->ring) || dt_inbound_is_gone(inbound))
            return true;
    }
    dt_list_for_each(node, &wire->links)
    {
        struct dt_wire_link *link = dt_container_of(node, struct dt_wire_link, node);

        if (link->is_blocked && (dt_link_is_gone(link) || dt_local_ring_has_more_room(&link->ring))) {
            /* Reported once: the engine tries again if it still has a packet for this link (can_transmit). */
            link->is_blocked = false;
            return true;
        }
    }
    return false;
}

bool dt_local_wire_sleep(struct dt_local_wire *wire)
{
    dt_list_for_each(node, &wire->inbounds)
    {
        struct dt_inbound *inbound = dt_container_of(node, struct dt_inbound, node);

        dt_store_seq_cst(&inbound->ring.shared->consumer_sleeps, 1);
    }
    dt_list_for_each(node, &wire->links)
    {
        struct dt_wire_link *link = dt_container_of(node, struct dt_wire_link, node);

        if (link->is_blocked)
            dt_store_seq_cst(&link->ring.shared->producer_sleeps, 1);
    }
    return !has_something(wire);
}

void dt_local_wire_awake(struct dt_local_wire *wire)
{
    dt_list_for_each(node, &wire->inbounds)
    {
        struct dt_inbound *inbound = dt_container_of(node, struct dt_inbound, node);

        dt_store_relaxed(&inbound->ring.shared->consumer_sleeps, 0);
    }
}

bool dt_local_wire_has_unread(const struct dt_local_wire *wire)
{
    dt_list_for_each(
        node, &wire->inbounds) if (!dt_local_ring_is_empty(&dt_container_of(node, struct dt_inbound, node)
                                                                ->ring)) return true;
    return dt_load_relaxed(&wire->has_new_inbounds);
}

static void nudge_link(struct dt_wire_link *link)
{
    uint32_t tail = dt_local_ring_taken(&link->ring);

    if (link->ring.head == tail)
        return;
    if (link->seen_head != link->ring.head || link->seen_tail != tail) {
        link->seen_head = link->ring.head;
        link->seen_tail = tail;
        link->is_nudged = false;
    } else if (!link->is_nudged) {
        link->is_nudged = true;
        dt_link_wake(link);
    }
}

void dt_local_wire_nudge(struct dt_local_wire *wire)
{
    dt_list_for_each(node, &wire->links)
    {
        struct dt_wire_link *link = dt_container_of(node, struct dt_wire_link, node);

        if (!dt_link_is_gone(link))
            nudge_link(link);
    }
}

void dt_local_wire_reap(struct dt_local_wire *wire)
{
    struct dt_list *node;

    while ((node = dt_list_pop_front(&wire->closed)))
        dt_inbound_destroy(dt_container_of(node, struct dt_inbound, node));
    dt_list_for_each(at, &wire->links)
    {
        struct dt_wire_link *link = dt_container_of(at, struct dt_wire_link, node);

        if (link->memory && dt_link_is_gone(link))
            dt_link_release(link);
    }
    DT_CHECK_HOT(dt_list_is_empty(&wire->closed));
}
