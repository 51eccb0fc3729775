/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eager send: if no CTS arrives within 100 us, the sender writes the staged payload into a receiver-owned
 * buffer, so that only a copy remains when the irecv is posted.
 *
 * Credits. The receiver grants DT_EAGER_PLACES places, each for one payload and a header (frame GRANT). A
 * place is a credit: the sender uses it once, and again when the receiver has released it, which CTS rows
 * report. A payload that finds no free place, or does not fit, waits at the sender as it would without eager
 * send, so no progress depends on a credit (docs/hostpath.md).
 *
 * The sender decides. When the CTS of message n arrives, and the isend that belongs to it was sent eagerly,
 * the sender posts TAKE{n, place} instead of the payload: a zero-byte write with immediate that is
 * acknowledged, resumed and posted again like any message. The receiver does not wait for TAKE: the header
 * identifies the irecv, so the payload is copied out, and the receive is done, as soon as that irecv is
 * posted. The slot of the message stays open until TAKE arrives.
 *
 * Matching. isends find their message by tag, in order. The header holds {first, tag, index}: all parts with
 * this tag in messages before `first` belong to older isends, and `index` older isends with the tag are
 * waiting. So the payload belongs to part number `index`, counted from 0, of the parts with the tag in
 * messages from `first` on. Both ends find the same part in all cases. A receiver that no
 * longer remembers the tags of messages that old (a late write over a failing path) waits for TAKE.
 *
 * Limits. Not for grouped receives, nor for memory that the CPU does not write (a GPU's): then takes_eager in
 * the CTS row is 0, the message is sent directly from the pool, and DISCARD{place} frees the place. To keep
 * that rare, nothing is sent eagerly unless the last row had takes_eager set.
 *
 * Failover. A place is written over one epoch of one path. TAKE and DISCARD go over the same epoch, behind
 * the payload, and over another path only once the payload is known to have arrived. RESUME reports what the
 * sender does not know when the path fails: for each place, the generation that arrived last. A payload that
 * has arrived stays valid, since no later write can change it: the place is used again only after its release
 * or, if the payload had not arrived, after the fence. A payload that has not arrived was never seen by the
 * receiver, and is sent directly or eagerly again. So a payload is sent directly only if the receiver cannot
 * have taken it from a place. A device that acknowledges TAKE and then dies loses TAKE alone: the payload is
 * in the irecv's buffer, and the sender posts TAKE again.
 *
 *   eager.h           this: both ends as data
 *   eager_place.h     sender: places and their states
 *   eager_send.h      sender: from the stage's queue into places; DISCARD
 *   eager_take.h      sender: the body of a message that was sent eagerly; settling
 *   eager_store.h     receiver: the granted memory
 *   eager_receive.h   receiver: arrivals, matching, copying out, and the test
 */
#ifndef DETOUR_HOSTPATH_STAGED_EAGER_H
#define DETOUR_HOSTPATH_STAGED_EAGER_H

#include <stdbool.h>
#include <stdint.h>

#include "hostpath/delegate.h"
#include "transport/message/receiver.h"
#include "transport/message/sender.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_staged;

/* ------------------------------------------------------------------------------------------------------------
 * Layout of the granted memory: the headers, then, from DT_EAGER_HEADERS_BYTES on, the payloads.
 */
#define DT_EAGER_HEADER_STRIDE 64u
#define DT_EAGER_HEADERS_BYTES 4096u

/* All fields little-endian. Written before the payload, on the same queue pair. */
struct dt_eager_header {
    uint64_t first;
    uint32_t tag;
    uint32_t index;
    uint32_t bytes;
    uint32_t generation; /* how often the place was used, this time included */
};

/* ------------------------------------------------------------------------------------------------------------
 * Sender: part of its stage
 */

/* The legal transitions are the table dt_eager_transitions. */
enum dt_eager_state {
    DT_EAGER_FREE,
    DT_EAGER_HELD,            /* reserved for an entry that waits at the gate (gate.h), or for a path */
    DT_EAGER_WRITTEN,         /* the payload was posted; the receiver has not released the place */
    DT_EAGER_DISCARD_PENDING, /* the same, but its message is sent directly: DISCARD is to be posted */
    DT_EAGER_DISCARD_SENT,    /* DISCARD was posted; if its path fails first, it is posted again */
    DT_EAGER_STATES
};

struct dt_eager_place {
    uint8_t state;        /* enum dt_eager_state; changed by dt_eager_place_set() alone */
    uint8_t path;         /* the payload was posted over this epoch of it */
    bool is_confirmed;    /* RESUME reported that the payload has arrived */
    bool is_lost;         /* it has not, and never will */
    bool is_counted;      /* as arrived, for the meter */
    uint8_t discard_path; /* DISCARD_SENT: over this epoch of this path */
    uint32_t discard_epoch;
    uint32_t epoch;
    uint32_t generation;
    uint32_t bytes;
    bool is_gated;   /* HELD: a rule holds it back */
    uint64_t number; /* of the message that it will probably belong to, for the gate */
    uint64_t due_ns; /* at the gate; DT_NEVER_NS: now, or not known yet */
    uint64_t handed; /* stamps for the meter, and for `auto` */
    uint64_t inflight_bytes;
    struct dt_staged *entry; /* until its message is complete, or the place is released; or NULL */
};

struct dt_eager {
    uint32_t is_granted;   /* `grant` is valid [atomic; written by the device thread] */
    struct dt_grant grant; /* then constant */
    bool is_accepted;      /* the last row had takes_eager set */
    uint32_t candidates;   /* entries of the stage's queue that may be sent eagerly and were not */
    uint32_t held;         /* places in state HELD */
    uint32_t discards;     /* places in state DISCARD_PENDING */
    uint64_t take_again;   /* bit by slot: complete messages whose TAKE is to be posted again */
    uint64_t released;     /* of the last row that was read */
    uint64_t next_number;  /* at the gate */
    struct dt_eager_place place[DT_EAGER_PLACES];
};

/* dt_staged.eager: the number of the entry's place plus 1, or */
#define DT_EAGER_NONE 0u
#define DT_EAGER_RELEASED \
    0xffu /* the payload has arrived, and the receiver has taken it out of its place already */

/* ------------------------------------------------------------------------------------------------------------
 * Receiver
 */

/* The legal transitions are the table of eager_receive.c. */
enum dt_eager_arrival_state {
    DT_ARRIVAL_NONE,
    DT_ARRIVAL_WAITING, /* for its irecv, or for TAKE */
    DT_ARRIVAL_COPYING, /* into the irecv's buffer, by a delegate */
    DT_ARRIVAL_STATES
};

/* The payload in a place. */
struct dt_eager_arrival {
    uint8_t state;   /* enum dt_eager_arrival_state */
    bool is_tracked; /* `left` counts */
    uint32_t generation;
    uint32_t tag;
    uint32_t bytes;
    uint64_t next; /* parts of messages before this one were counted */
    uint32_t left; /* parts with the tag to come before its own */
    uint32_t slot; /* COPYING: that of its message */
    struct dt_host_copy copy;
    uint32_t copies_left;    /* [atomic; written by the copying threads] */
    uint32_t delegates_hold; /* [atomic] */
};

/* A receive; that of the slot with the same number. */
struct dt_eager_receive {
    void *data;
    uint32_t tag[DT_PARTS_MAX];
    bool takes_eager;
};

struct dt_eager_store {
    uint8_t *memory;
    size_t memory_bytes;
    uint32_t bytes;                    /* of a payload, at most */
    uint8_t released[DT_EAGER_PLACES]; /* low bits of the generation, as rows report it */
    uint8_t arrived[DT_EAGER_PLACES];  /* the same, as RESUME reports it */
    struct dt_eager_arrival arrival[DT_EAGER_PLACES];
    struct dt_eager_receive receive[DT_SLOTS_MAX];
};

#ifdef __cplusplus
}
#endif

#endif
