/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One direction of the `local` wire: packets from one RNIC to another in a ring of memory that both map, with
 * one producer and one consumer.
 *
 * A record is one 64-byte unit with the packet's header, followed by units that hold the payload itself
 * (small payloads) or the list of its places in the sender's memory, from which the consumer fetches it
 * (local_copy.h). Alternatively the sender copies the payload into the bounce area behind the ring while it
 * transmits: for middle sizes, where one more copy is cheaper than a system call, and for all sizes where the
 * kernel forbids reading the sender's memory.
 *
 * The other process may write anything into the shared memory at any time. Each end therefore keeps its own
 * counter in private memory, copies a record out before it parses it, and checks everything that it uses. A
 * ring that contradicts itself is broken: its link is closed.
 *
 * No lock: the producer's functions run under the sending RNIC's lock, the consumer's under the receiving
 * RNIC's.
 */
#ifndef DETOUR_SOFTRNIC_LOCAL_RING_H
#define DETOUR_SOFTRNIC_LOCAL_RING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "softrnic/packet.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_LOCAL_UNIT_BYTES   64u
#define DT_LOCAL_UNIT_COUNT   4096u      /* a power of two */
#define DT_LOCAL_BOUNCE_BYTES (2u << 20) /* pages that are never used cost nothing */

#define DT_LOCAL_INLINE_BYTES_MAX  256u
#define DT_LOCAL_BOUNCE_BYTES_MAX  (64u << 10)  /* above: fetched by the consumer, where it may */
#define DT_LOCAL_SEGMENT_BYTES_MAX (512u << 10) /* a step of the consumer: some tens of microseconds */

/*
 * The limit of unread payload, including payload that stays in the sender's memory. Acknowledgements of the
 * other direction queue behind it: without the limit a full ring could hold 1 GiB, and they would arrive
 * later than any retry timer allows.
 */
#define DT_LOCAL_WAITING_BYTES_MAX (8ull << 20)

/*
 * A revocation of payload that was left in the sender's memory: of one queue pair (start and end are 0), or
 * in one range of memory (qpn is 0).
 */
struct dt_local_revocation {
    uint64_t start;
    uint64_t end;
    uint64_t qpn;
};
#define DT_LOCAL_REVOCATIONS 64u /* remembered; a power of two */

/* The shared memory. Every field is written by one end only, except the two sleep flags and revoke_count. */
struct dt_local_shared {
    /* producer */
    uint32_t head __attribute__((aligned(64))); /* units produced, modulo 2^32 */
    /* consumer */
    uint32_t tail __attribute__((aligned(64))); /* units consumed */
    uint64_t bounce_tail;                       /* bytes of the bounce area given back */
    uint64_t payload_tail;                      /* bytes of payload consumed, modulo 2^64 */
    /* set by an end before it sleeps, cleared by the other end when that wakes it */
    uint32_t consumer_sleeps __attribute__((aligned(64)));
    uint32_t can_fetch; /* consumer: 1: it can read the sender's memory; 0: bounce everything */
    uint32_t producer_sleeps __attribute__((aligned(64))); /* waits for room */
    uint32_t revoke_count __attribute__((aligned(64)));    /* revocations so far; the consumer adds 0 */
    struct dt_local_revocation revocations[DT_LOCAL_REVOCATIONS];
    /* the record area, then the bounce area */
    uint8_t units[DT_LOCAL_UNIT_COUNT * DT_LOCAL_UNIT_BYTES] __attribute__((aligned(64)));
    uint8_t bounce[DT_LOCAL_BOUNCE_BYTES] __attribute__((aligned(4096)));
};

/* One end's private view. */
struct dt_local_ring {
    struct dt_local_shared *shared;
    uint32_t head; /* producer: own counter; consumer: as last seen */
    uint32_t tail; /* consumer: own counter; producer: as last seen */
    uint64_t bounce_head;
    uint64_t bounce_tail;
    uint64_t payload_head; /* producer: bytes of payload produced */
    uint64_t payload_tail; /* consumer: own counter; producer: as last seen */
    uint32_t record_units; /* consumer: of the record at the front; 0 when none is peeked */
    uint64_t record_bounce_end;
    uint64_t record_payload_bytes;
    bool may_refer; /* producer: payload may stay in place if the consumer can fetch it */
    bool is_broken; /* the other end wrote an invalid record or counter */
};

/* The payload of a received packet. */
enum dt_local_payload_kind {
    DT_LOCAL_HERE,  /* bytes that can be read at `data` */
    DT_LOCAL_REMOTE /* in the sender's address space at `iov` */
};

struct dt_local_payload {
    enum dt_local_payload_kind kind;
    const uint8_t *data;
    uint32_t iov_count;
    struct iovec iov[DT_PACKET_IOV_MAX];
    uint64_t bytes;
    uint32_t src_qpn;
    uint32_t revoke_count; /* when it was transmitted */
};

/* Both ends start from memory of zeros. */
void dt_local_ring_init(struct dt_local_ring *ring, struct dt_local_shared *shared, bool may_refer);

/* ---- producer ------------------------------------------------------------------------------------------ */

/* Is there room for any packet with up to DT_LOCAL_SEGMENT_BYTES_MAX of payload, within the limit of unread
 * payload? */
bool dt_local_ring_has_room(struct dt_local_ring *ring);

/* As dt_local_ring_has_room, for a producer that has just set producer_sleeps: either this returns true or
 * the consumer's dt_local_ring_is_waited_for does. */
bool dt_local_ring_has_more_room(struct dt_local_ring *ring);

/* The consumer's counter; equal to `head` when it has taken everything. */
uint32_t dt_local_ring_taken(const struct dt_local_ring *ring);

/*
 * Publishes a packet. With must_copy the payload is copied now, whatever its size. False, with nothing done,
 * when it does not fit (after dt_local_ring_has_room only for large must_copy packets).
 */
bool dt_local_ring_push(struct dt_local_ring *ring, const struct dt_packet *packet, bool must_copy);

/* Revokes the payload that earlier records refer to: of a queue pair, or (qpn 0) in a range of memory. */
void dt_local_ring_revoke(struct dt_local_ring *ring, uint32_t qpn, const void *addr, uint64_t bytes);

/* ---- consumer ------------------------------------------------------------------------------------------ */

/* Is there no unread record? One load; exact for a consumer that has just set consumer_sleeps. */
bool dt_local_ring_is_empty(const struct dt_local_ring *ring);

/*
 * The oldest record: fills the packet's header (its iov stays empty) and its payload. False when the ring is
 * empty or broken. The payload stays valid until dt_local_ring_pop().
 */
bool dt_local_ring_peek(struct dt_local_ring *ring, struct dt_packet *packet,
                        struct dt_local_payload *payload);

/* Releases the peeked record's room. */
void dt_local_ring_pop(struct dt_local_ring *ring);

/*
 * After a fetch: has the sender revoked the payload before or during it? Also true when the record of
 * revocations no longer reaches back far enough. False means that all bytes were valid when they were read.
 */
bool dt_local_ring_is_revoked(struct dt_local_ring *ring, const struct dt_local_payload *payload);

/* After some pops: does the producer sleep until there is room? True once; the caller wakes the producer. */
bool dt_local_ring_is_waited_for(struct dt_local_ring *ring);

#ifdef __cplusplus
}
#endif

#endif
