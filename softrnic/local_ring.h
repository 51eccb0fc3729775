/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One direction of the `local` wire: packets from one RNIC to another in a ring of memory that both map, with
 * one producer and one consumer.
 *
 * A record is one 64-byte unit with the packet's header and, behind it in further units, either the payload
 * itself (small), or the list of places where the payload lies in the sender's memory (the consumer fetches
 * it, local_copy.h). A third way is a copy in the bounce area behind the ring, taken by the sender while it
 * transmits: for middle sizes, where one more copy is cheaper than a system call, and for all sizes where the
 * kernel does not let the consumer read the sender's memory.
 *
 * Whoever shares the memory may write anything into it at any time. Each end therefore keeps its own counter
 * in private memory, copies a record out before it looks at it, and checks everything that it uses. A ring
 * that contradicts itself is broken: its link is closed.
 *
 * No lock: the producer's functions run under the sending RNIC's lock, the consumer's under the receiving
 * one's.
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
 * Payload that may wait for the consumer, also where it stays in the sender's memory. Acknowledgements of the
 * other direction queue behind it: with all the records that fit it could be 1 GiB, and they would come later
 * than any retry timer allows.
 */
#define DT_LOCAL_WAITING_BYTES_MAX (8ull << 20)

/*
 * Payload that was left in the sender's memory, and that the sender has taken back: of one queue pair (start
 * and end are 0), or in one range of its memory (qpn is 0).
 */
struct dt_local_revocation {
    uint64_t start;
    uint64_t end;
    uint64_t qpn;
};
#define DT_LOCAL_REVOCATIONS 64u /* remembered; a power of two */

/* What both ends map. Every field is written by one end only, but for the two sleep flags and revoke_count.
 */
struct dt_local_shared {
    /* producer */
    uint32_t head __attribute__((aligned(64))); /* units produced, modulo 2^32 */
    /* consumer */
    uint32_t tail __attribute__((aligned(64))); /* units consumed */
    uint64_t bounce_tail;                       /* bytes of the bounce area given back */
    uint64_t payload_tail;                      /* bytes of payload consumed, modulo 2^64 */
    /* set by an end before it sleeps, cleared by the other when it wakes it */
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
    bool may_refer; /* producer: payload may stay where it is, if the consumer says that it can fetch it */
    bool is_broken; /* the other end wrote nonsense */
};

/* The payload of a packet that has arrived. */
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

/* Room for any packet with up to DT_LOCAL_SEGMENT_BYTES_MAX of payload, and not too much waiting already? */
bool dt_local_ring_has_room(struct dt_local_ring *ring);

/* The same, for a producer that has just set producer_sleeps: it, or dt_local_ring_is_waited_for, says true.
 */
bool dt_local_ring_has_more_room(struct dt_local_ring *ring);

/* How far the consumer has come; `head` when it has taken everything. */
uint32_t dt_local_ring_taken(const struct dt_local_ring *ring);

/*
 * Puts a packet in and publishes it. With must_copy the payload is copied now, whatever its size. False, and
 * nothing done, when it does not fit (never after dt_local_ring_has_room, but for large must_copy packets).
 */
bool dt_local_ring_push(struct dt_local_ring *ring, const struct dt_packet *packet, bool must_copy);

/* Takes back payload that was referred to so far: of a queue pair, or (qpn 0) in a range of memory. */
void dt_local_ring_revoke(struct dt_local_ring *ring, uint32_t qpn, const void *addr, uint64_t bytes);

/* ---- consumer ------------------------------------------------------------------------------------------ */

/* Is no record waiting? One load; for a consumer that has just set consumer_sleeps it is exact. */
bool dt_local_ring_is_empty(const struct dt_local_ring *ring);

/*
 * The oldest record: fills the packet's header (its iov stays empty) and its payload. False when the ring is
 * empty or broken. The payload stays valid until dt_local_ring_pop().
 */
bool dt_local_ring_peek(struct dt_local_ring *ring, struct dt_packet *packet,
                        struct dt_local_payload *payload);

/* Gives the peeked record's room back. */
void dt_local_ring_pop(struct dt_local_ring *ring);

/*
 * Asked after payload was fetched: had its sender taken it back, before or meanwhile? Also true when that is
 * not known any more. False means that all bytes were still the sender's when they were read.
 */
bool dt_local_ring_is_revoked(struct dt_local_ring *ring, const struct dt_local_payload *payload);

/* After some pops: does the producer sleep until there is room? Once; the caller wakes it. */
bool dt_local_ring_is_waited_for(struct dt_local_ring *ring);

#ifdef __cplusplus
}
#endif

#endif
