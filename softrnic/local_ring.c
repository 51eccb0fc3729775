/* SPDX-License-Identifier: Apache-2.0 */
#include "softrnic/local_ring.h"

#include <string.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/util.h"
#include "softrnic/local_copy.h"

enum record_kind {
    RECORD_SKIP, /* padding: the rest of the ring was too short for the next record */
    RECORD_EMPTY,
    RECORD_INLINE,
    RECORD_BOUNCE,
    RECORD_REFERENCE
};

/* The first unit of a record; the units of its kind follow. */
struct record {
    uint32_t dst_qpn;
    uint32_t src_qpn;
    uint32_t psn;
    uint32_t psn_count;
    uint8_t op;
    uint8_t flags;
    uint8_t syndrome;
    uint8_t mtu_shift;
    uint32_t msn;
    uint32_t imm;
    uint32_t rkey;
    uint64_t remote_addr;
    uint64_t message_bytes;
    uint64_t payload_bytes;
    uint8_t kind;
    uint8_t units; /* of the whole record */
    uint8_t iov_count;
    uint8_t reserved;
    uint32_t revoke_count; /* RECORD_REFERENCE: when the payload was referred to */
};
DT_STATIC_CHECK(sizeof(struct record) == DT_LOCAL_UNIT_BYTES, "the header of a record is one unit");

/* Follows the header of a RECORD_BOUNCE. Positions count bytes since the ring was made. */
struct bounce_place {
    uint64_t start;
    uint64_t end;
};

#define RECORD_UNITS_MAX (1 + DT_PACKET_IOV_MAX * sizeof(struct iovec) / DT_LOCAL_UNIT_BYTES)
DT_STATIC_CHECK(DT_LOCAL_INLINE_BYTES_MAX <= (RECORD_UNITS_MAX - 1) * DT_LOCAL_UNIT_BYTES,
                "inline payload fits");

void dt_local_ring_init(struct dt_local_ring *ring, struct dt_local_shared *shared, bool may_refer)
{
    memset(ring, 0, sizeof *ring);
    ring->shared = shared;
    ring->may_refer = may_refer;
}

static uint8_t *unit_at(const struct dt_local_ring *ring, uint32_t index)
{
    return ring->shared->units + (uint64_t)(index & (DT_LOCAL_UNIT_COUNT - 1)) * DT_LOCAL_UNIT_BYTES;
}

static uint32_t units_to_the_end(uint32_t index)
{
    return DT_LOCAL_UNIT_COUNT - (index & (DT_LOCAL_UNIT_COUNT - 1));
}

/* ---- producer ------------------------------------------------------------------------------------------ */

/* Free units; reads the consumer's counter only if the last value seen is not enough for `wanted`. */
static uint32_t free_units(struct dt_local_ring *ring, uint32_t wanted)
{
    uint32_t free = DT_LOCAL_UNIT_COUNT - (ring->head - ring->tail);

    if (free >= wanted)
        return free;
    uint32_t tail = dt_load_acquire(&ring->shared->tail);
    if (ring->head - tail > ring->head - ring->tail)
        ring->is_broken = true; /* it went backwards, or beyond the head */
    else
        ring->tail = tail;
    return DT_LOCAL_UNIT_COUNT - (ring->head - ring->tail);
}

/*
 * Finds `bytes` contiguous bytes in the bounce area; false when there are none. An empty area starts again at
 * its beginning, so that a wire with little in flight stays in the cache.
 */
static bool find_bounce(struct dt_local_ring *ring, uint64_t bytes, struct bounce_place *place)
{
    uint64_t tail = dt_load_acquire(&ring->shared->bounce_tail);

    if (tail < ring->bounce_tail || tail > ring->bounce_head) {
        ring->is_broken = true;
        return false;
    }
    ring->bounce_tail = tail;
    uint64_t start = ring->bounce_head;
    uint64_t to_the_end = DT_LOCAL_BOUNCE_BYTES - start % DT_LOCAL_BOUNCE_BYTES;
    uint64_t limit = tail + DT_LOCAL_BOUNCE_BYTES;
    if (tail == start) {
        start = dt_align_up(start, DT_LOCAL_BOUNCE_BYTES);
        limit = start + DT_LOCAL_BOUNCE_BYTES;
    } else if (to_the_end < bytes) {
        start += to_the_end;
    }
    place->start = start;
    place->end = start + dt_align_up(bytes, DT_LOCAL_UNIT_BYTES);
    DT_CHECK_HOT(place->start >= ring->bounce_head);
    DT_CHECK_HOT(place->start % DT_LOCAL_BOUNCE_BYTES + bytes <= DT_LOCAL_BOUNCE_BYTES); /* in one piece */
    return place->end <= limit;
}

/* Is there room below the limit of unread payload? Reads the consumer's counter only if needed. */
static bool is_drained(struct dt_local_ring *ring)
{
    uint64_t waiting_bytes = ring->payload_head - ring->payload_tail;

    if (waiting_bytes < DT_LOCAL_WAITING_BYTES_MAX)
        return true;
    uint64_t tail = dt_load_acquire(&ring->shared->payload_tail);
    if (ring->payload_head - tail > waiting_bytes)
        ring->is_broken = true; /* it went backwards, or beyond the head */
    else
        ring->payload_tail = tail;
    return ring->payload_head - ring->payload_tail < DT_LOCAL_WAITING_BYTES_MAX;
}

static bool refers(const struct dt_local_ring *ring)
{
    return ring->may_refer && dt_load_relaxed(&ring->shared->can_fetch) == 1;
}

bool dt_local_ring_has_room(struct dt_local_ring *ring)
{
    struct bounce_place place;

    if (ring->is_broken || free_units(ring, 2 * RECORD_UNITS_MAX) < 2 * RECORD_UNITS_MAX || !is_drained(ring))
        return false;
    return refers(ring) || find_bounce(ring, DT_LOCAL_SEGMENT_BYTES_MAX, &place);
}

bool dt_local_ring_has_more_room(struct dt_local_ring *ring)
{
    /* A reader of this tail also sees the payload and bounce counters that were stored before it. */
    (void)dt_load_seq_cst(&ring->shared->tail);
    return dt_local_ring_has_room(ring);
}

uint32_t dt_local_ring_taken(const struct dt_local_ring *ring)
{
    return dt_load_relaxed(&ring->shared->tail);
}

static void gather(uint8_t *dst, const struct dt_packet *packet)
{
    for (uint32_t i = 0; i < packet->iov_count; i++) {
        dt_copy_out(dst, packet->iov[i].iov_base, packet->iov[i].iov_len);
        dst += packet->iov[i].iov_len;
    }
}

/* Decides how the payload is transferred; false when there is no room now. */
static bool choose_kind(struct dt_local_ring *ring, const struct dt_packet *packet, bool must_copy,
                        struct record *record, struct bounce_place *place)
{
    uint64_t bytes = packet->payload_bytes;
    bool may_stay = refers(ring) && !must_copy;

    record->iov_count = 0;
    if (bytes == 0) {
        record->kind = RECORD_EMPTY;
        record->units = 1;
    } else if (bytes <= DT_LOCAL_INLINE_BYTES_MAX) {
        record->kind = RECORD_INLINE;
        record->units = (uint8_t)(1 + (bytes + DT_LOCAL_UNIT_BYTES - 1) / DT_LOCAL_UNIT_BYTES);
    } else if ((bytes <= DT_LOCAL_BOUNCE_BYTES_MAX || !may_stay) && bytes <= DT_LOCAL_BOUNCE_BYTES &&
               find_bounce(ring, bytes, place)) {
        record->kind = RECORD_BOUNCE;
        record->units = 2;
    } else if (may_stay) {
        record->kind = RECORD_REFERENCE;
        record->iov_count = (uint8_t)packet->iov_count;
        record->units = (uint8_t)(1 + (packet->iov_count * sizeof(struct iovec) + DT_LOCAL_UNIT_BYTES - 1) /
                                          DT_LOCAL_UNIT_BYTES);
    } else {
        return false;
    }
    return true;
}

static void fill_header(struct record *record, const struct dt_packet *packet)
{
    record->dst_qpn = packet->dst_qpn;
    record->src_qpn = packet->src_qpn;
    record->psn = packet->psn;
    record->psn_count = packet->psn_count;
    record->op = packet->op;
    record->flags = packet->flags;
    record->syndrome = packet->syndrome;
    record->mtu_shift = packet->mtu_shift;
    record->msn = packet->msn;
    record->imm = packet->imm;
    record->rkey = packet->rkey;
    record->remote_addr = packet->remote_addr;
    record->message_bytes = packet->message_bytes;
    record->payload_bytes = packet->payload_bytes;
}

void dt_local_ring_revoke(struct dt_local_ring *ring, uint32_t qpn, const void *addr, uint64_t bytes)
{
    struct dt_local_revocation *revocation =
        &ring->shared->revocations[dt_load_relaxed(&ring->shared->revoke_count) & (DT_LOCAL_REVOCATIONS - 1)];

    dt_store_relaxed(&revocation->qpn, qpn);
    dt_store_relaxed(&revocation->start, qpn ? 0 : (uintptr_t)addr);
    dt_store_relaxed(&revocation->end, qpn ? 0 : (uintptr_t)addr + bytes);
    /*
     * Both ends use a read-modify-write on the counter, so the second one sees the first. Either the consumer
     * has fetched its bytes by now, or it will see this revocation.
     */
    dt_fetch_add_acq_rel(&ring->shared->revoke_count, 1);
}

static void fill_rest(struct dt_local_ring *ring, uint8_t *rest, const struct record *record,
                      const struct dt_packet *packet, const struct bounce_place *place)
{
    switch (record->kind) {
    case RECORD_INLINE:
        gather(rest, packet);
        break;
    case RECORD_BOUNCE:
        memcpy(rest, place, sizeof *place);
        gather(ring->shared->bounce + place->start % DT_LOCAL_BOUNCE_BYTES, packet);
        ring->bounce_head = place->end;
        break;
    case RECORD_REFERENCE:
        memcpy(rest, packet->iov, packet->iov_count * sizeof(struct iovec));
        break;
    }
}

bool dt_local_ring_push(struct dt_local_ring *ring, const struct dt_packet *packet, bool must_copy)
{
    struct record record = {0};
    struct bounce_place place;
    uint32_t index = ring->head;

    DT_CHECK(packet->iov_count <= DT_PACKET_IOV_MAX);
    if (ring->is_broken || !choose_kind(ring, packet, must_copy, &record, &place))
        return false;
    uint32_t skip = units_to_the_end(index) < record.units ? units_to_the_end(index) : 0;
    if (free_units(ring, skip + record.units) < skip + record.units)
        return false;
    if (skip) {
        struct record nothing = {.kind = RECORD_SKIP, .units = (uint8_t)skip};

        memcpy(unit_at(ring, index), &nothing, sizeof nothing);
        index += skip;
    }
    DT_CHECK_HOT(record.units > 0 && record.units <= units_to_the_end(index));
    fill_header(&record, packet);
    record.revoke_count = dt_load_relaxed(&ring->shared->revoke_count);
    memcpy(unit_at(ring, index), &record, sizeof record);
    fill_rest(ring, unit_at(ring, index) + sizeof record, &record, packet, &place);
    ring->head = index + record.units;
    ring->payload_head += record.payload_bytes;
    DT_CHECK_HOT(ring->head - ring->tail <= DT_LOCAL_UNIT_COUNT);
    dt_store_seq_cst(&ring->shared->head, ring->head);
    return true;
}

/* ---- consumer ------------------------------------------------------------------------------------------ */

bool dt_local_ring_is_empty(const struct dt_local_ring *ring)
{
    return dt_load_seq_cst(&ring->shared->head) == ring->tail;
}

static bool break_off(struct dt_local_ring *ring)
{
    ring->is_broken = true;
    return false;
}

/* Is a record of `units` at the tail wholly inside what the producer has published, and in one piece? */
static bool is_inside(const struct dt_local_ring *ring, uint32_t units)
{
    return units > 0 && units <= ring->head - ring->tail && units <= units_to_the_end(ring->tail);
}

static bool read_bounce(struct dt_local_ring *ring, const struct record *record, const uint8_t *rest,
                        struct dt_local_payload *payload)
{
    struct bounce_place place;

    memcpy(&place, rest, sizeof place);
    uint64_t offset = place.start % DT_LOCAL_BOUNCE_BYTES;
    if (place.start < ring->bounce_tail || place.end < place.start ||
        place.end - place.start > DT_LOCAL_BOUNCE_BYTES - offset ||
        record->payload_bytes > place.end - place.start)
        return break_off(ring);
    payload->kind = DT_LOCAL_HERE;
    payload->data = ring->shared->bounce + offset;
    ring->record_bounce_end = place.end;
    return true;
}

static bool read_reference(struct dt_local_ring *ring, const struct record *record, const uint8_t *rest,
                           struct dt_local_payload *payload)
{
    uint64_t bytes = 0;

    if (record->iov_count > DT_PACKET_IOV_MAX)
        return break_off(ring);
    memcpy(payload->iov, rest, record->iov_count * sizeof(struct iovec));
    for (uint32_t i = 0; i < record->iov_count; i++) {
        if (payload->iov[i].iov_len > record->payload_bytes - bytes)
            return break_off(ring);
        bytes += payload->iov[i].iov_len;
    }
    if (bytes != record->payload_bytes)
        return break_off(ring);
    payload->kind = DT_LOCAL_REMOTE;
    payload->iov_count = record->iov_count;
    return true;
}

static bool read_payload(struct dt_local_ring *ring, const struct record *record,
                         struct dt_local_payload *payload)
{
    const uint8_t *rest = unit_at(ring, ring->tail) + sizeof *record;
    uint64_t rest_bytes = (uint64_t)(record->units - 1) * DT_LOCAL_UNIT_BYTES;

    payload->bytes = record->payload_bytes;
    payload->src_qpn = record->src_qpn;
    payload->revoke_count = record->revoke_count;
    switch (record->kind) {
    case RECORD_EMPTY:
        payload->kind = DT_LOCAL_HERE;
        payload->data = NULL;
        return record->payload_bytes == 0 || break_off(ring);
    case RECORD_INLINE:
        payload->kind = DT_LOCAL_HERE;
        payload->data = rest;
        return record->payload_bytes <= rest_bytes || break_off(ring);
    case RECORD_BOUNCE:
        return rest_bytes >= sizeof(struct bounce_place) ? read_bounce(ring, record, rest, payload)
                                                         : break_off(ring);
    case RECORD_REFERENCE:
        return rest_bytes >= record->iov_count * sizeof(struct iovec)
                   ? read_reference(ring, record, rest, payload)
                   : break_off(ring);
    default:
        return break_off(ring);
    }
}

static void read_header(const struct record *record, struct dt_packet *packet)
{
    packet->dst_qpn = record->dst_qpn;
    packet->src_qpn = record->src_qpn;
    packet->psn = record->psn;
    packet->psn_count = record->psn_count;
    packet->op = record->op;
    packet->flags = record->flags;
    packet->syndrome = record->syndrome;
    packet->mtu_shift = record->mtu_shift;
    packet->msn = record->msn;
    packet->imm = record->imm;
    packet->rkey = record->rkey;
    packet->remote_addr = record->remote_addr;
    packet->message_bytes = record->message_bytes;
    packet->payload_bytes = record->payload_bytes;
    packet->iov_count = 0;
}

/* Reads the producer's counter; false when there is nothing new or the counter is invalid. */
static bool see_head(struct dt_local_ring *ring)
{
    if (ring->head == ring->tail)
        ring->head = dt_load_acquire(&ring->shared->head);
    if (ring->head - ring->tail > DT_LOCAL_UNIT_COUNT)
        return break_off(ring);
    return ring->head != ring->tail;
}

bool dt_local_ring_peek(struct dt_local_ring *ring, struct dt_packet *packet,
                        struct dt_local_payload *payload)
{
    struct record record;

    while (!ring->is_broken && see_head(ring)) {
        memcpy(&record, unit_at(ring, ring->tail), sizeof record);
        if (!is_inside(ring, record.units))
            return break_off(ring);
        ring->record_units = record.units;
        ring->record_bounce_end = ring->bounce_tail;
        ring->record_payload_bytes = record.payload_bytes;
        if (record.kind == RECORD_SKIP) {
            dt_local_ring_pop(ring);
            continue;
        }
        read_header(&record, packet);
        return read_payload(ring, &record, payload);
    }
    return false;
}

static bool concerns(const struct dt_local_revocation *revocation, const struct dt_local_payload *payload)
{
    uint64_t start = dt_load_relaxed(&revocation->start);
    uint64_t end = dt_load_relaxed(&revocation->end);
    uint64_t qpn = dt_load_relaxed(&revocation->qpn);

    if (qpn)
        return qpn == payload->src_qpn;
    for (uint32_t i = 0; i < payload->iov_count; i++) {
        uint64_t from = (uintptr_t)payload->iov[i].iov_base;

        if (from < end && start < from + payload->iov[i].iov_len)
            return true;
    }
    return false;
}

bool dt_local_ring_is_revoked(struct dt_local_ring *ring, const struct dt_local_payload *payload)
{
    uint32_t count = dt_fetch_add_acq_rel(&ring->shared->revoke_count, 0);
    bool is_revoked = false;

    for (uint32_t i = payload->revoke_count; i != count && !is_revoked; i++)
        is_revoked = count - i >= DT_LOCAL_REVOCATIONS ||
                     concerns(&ring->shared->revocations[i & (DT_LOCAL_REVOCATIONS - 1)], payload);
    /* A revocation that was overwritten while it was read may have had any content. */
    return is_revoked || dt_fetch_add_acq_rel(&ring->shared->revoke_count, 0) - payload->revoke_count >=
                             DT_LOCAL_REVOCATIONS;
}

void dt_local_ring_pop(struct dt_local_ring *ring)
{
    DT_CHECK_HOT(ring->record_units > 0 && ring->record_units <= ring->head - ring->tail); /* peeked */
    ring->tail += ring->record_units;
    ring->record_units = 0;
    if (ring->record_bounce_end != ring->bounce_tail) {
        ring->bounce_tail = ring->record_bounce_end;
        dt_store_release(&ring->shared->bounce_tail, ring->bounce_tail);
    }
    if (ring->record_payload_bytes) {
        ring->payload_tail += ring->record_payload_bytes;
        ring->record_payload_bytes = 0;
        dt_store_release(&ring->shared->payload_tail, ring->payload_tail);
    }
    dt_store_release(&ring->shared->tail, ring->tail);
}

bool dt_local_ring_is_waited_for(struct dt_local_ring *ring)
{
    dt_store_seq_cst(&ring->shared->tail, ring->tail);
    return dt_load_seq_cst(&ring->shared->producer_sleeps) &&
           dt_exchange_acq_rel(&ring->shared->producer_sleeps, 0);
}
