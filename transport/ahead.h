/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going ahead: a staged message whose clear-to-send does not come is written into memory of the receiver's
 * own, so that a slow link is behind it when the irecv is posted. Private to transport/.
 *
 * The receiver grants DT_AHEAD_PLACES places, each for one payload and a header (GRANT). A place is a credit:
 * the sender uses it once, and again when the receiver has released it, which it says in its clear-to-send
 * rows. A message for which there is no place, or that does not fit, waits at the sender as it would without,
 * so nothing ever waits for a credit (docs/hostpath.md).
 *
 * The sender alone decides, and its word counts. When the clear-to-send of message n is there and the isend
 * that belongs to it has gone ahead, the sender posts TAKE{n, place} instead of the payload, a write without
 * bytes that is acknowledged, resumed and posted again like any message. But the receiver does not wait for
 * it: the header says which irecv the payload is for, so it is copied out, and the receive done, as soon as
 * that is posted; the slot of the message then waits for its TAKE.
 *
 * Which irecv that is. isends find their message by tag, in order. The sender says {first, tag, index}: all
 * parts with this tag of messages before `first` belong to older isends, and `index` older isends with the
 * tag wait. So it is for part number `index`, counted from 0, of those with the tag in messages from `first`
 * on; both ends come to the same part, whatever happens on the way. A receiver that has forgotten the tags of
 * so early messages (a late write over a failing path) waits for TAKE.
 *
 * Not for grouped receives, nor for memory that the CPU does not write (a GPU's): takes_ahead in the row says
 * so, the message comes directly, from the pool, and UNWANTED{place} gives the place back. So that this is
 * rare nothing goes ahead unless the last row was one that takes it.
 *
 * Failover. A place is written over one epoch of one path, and TAKE and UNWANTED go over the same, behind the
 * payload; over others only once it is known that the payload came. What is not known when the path fails,
 * RESUME tells: it says for each place which generation has come last. What has come stays valid, since no
 * later write can change it: the place is used again only after it was released, or, if the payload had not
 * come, after the fence. What has not come was never seen by the receiver, and is sent directly or goes ahead
 * again. So a payload is written directly only if the receiver cannot have taken it from a place.
 *
 * A device that acknowledges and then dies may have taken along TAKE alone. The payload is at the receiver,
 * and its receive done, but the slot of the message is not free: TAKE is said again.
 *
 * All functions: owner of the connection, unless they say otherwise.
 */
#ifndef DETOUR_TRANSPORT_AHEAD_H
#define DETOUR_TRANSPORT_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "hostpath/delegate.h"
#include "transport/connection.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_staged;

/* ------------------------------------------------------------------------------------------------------------
 * What lies in the granted memory: the headers, then, from DT_AHEAD_HEADERS_BYTES on, the payloads.
 */
#define DT_AHEAD_HEADER_STRIDE 64u
#define DT_AHEAD_HEADERS_BYTES 4096u

/* All fields little-endian. Written before the payload, on the same queue pair. */
struct dt_ahead_header {
    uint64_t first;
    uint32_t tag;
    uint32_t index;
    uint32_t bytes;
    uint32_t generation; /* how often the place was used, this time included */
};

/* ------------------------------------------------------------------------------------------------------------
 * Sender: part of its stage
 */
enum dt_ahead_state {
    DT_AHEAD_FREE,
    DT_AHEAD_HELD,     /* an isend waits at the gate (inject.h) to go there */
    DT_AHEAD_WRITTEN,  /* its payload was posted; the receiver has not released the place */
    DT_AHEAD_UNWANTED, /* the same, but its message goes directly: the receiver is to be told */
    DT_AHEAD_TOLD      /* it was told, or will be when the path is settled */
};

struct dt_ahead_place {
    uint8_t state;     /* enum dt_ahead_state */
    uint8_t path;      /* written over this epoch of it */
    bool is_known;     /* the payload has come: RESUME said so */
    bool is_lost;      /* it has not, and never will */
    bool is_counted;   /* its completion has come */
    uint8_t told_path; /* TOLD: over this one */
    uint32_t told_epoch;
    uint32_t epoch;
    uint32_t generation;
    uint32_t bytes;
    bool is_gated; /* HELD: by a rule, as this number, until then */
    uint64_t number;
    uint64_t due_ns;
    uint64_t handed; /* stamps for the meter, and for `auto` */
    uint64_t underway_bytes;
    struct dt_staged *entry; /* until its message is complete, or the place is released; or NULL */
};

struct dt_ahead {
    uint32_t is_granted;   /* `grant` is valid [atomic; written by Detour's thread] */
    struct dt_grant grant; /* then constant */
    bool is_welcome;       /* the last row took what goes ahead */
    uint32_t candidates;   /* entries in the stage's queue that may go ahead and have not */
    uint32_t held;         /* places that are HELD */
    uint32_t unwanted;     /* and UNWANTED */
    uint64_t again;        /* slots of complete messages whose TAKE is to be said again */
    uint64_t released;     /* of the last row that was looked at */
    uint64_t next_number;  /* at the gate */
    struct dt_ahead_place place[DT_AHEAD_PLACES];
};

/* Of a staged entry. */
#define DT_AHEAD_NONE     0u    /* or the number of the place, plus 1 */
#define DT_AHEAD_RELEASED 0xffu /* it has come, and the receiver has taken it out of its place already */

/* Detour's thread: the receiver grants memory. */
void dt_ahead_granted(struct dt_sender *sender, const struct dt_grant *grant);

/* A new entry is in the queue; or leaves it, since it has found its message. */
void dt_ahead_queued(struct dt_sender *sender, struct dt_staged *entry);
void dt_ahead_matched(struct dt_sender *sender, struct dt_staged *entry);

/* A row has come: which places are free again. */
void dt_ahead_read_row(struct dt_sender *sender, const struct dt_cts_entry *row);

/* Sends ahead what can go. */
void dt_ahead_progress(struct dt_sender *sender);

/* The message needs no turn at the gate: its payload has had one. */
bool dt_ahead_has_turn(const struct dt_send_slot *slot);

enum dt_ahead_answer {
    DT_AHEAD_DIRECTLY, /* post it as any message */
    DT_AHEAD_POSTED,   /* it is posted: TAKE; or it is decided when its path is settled */
    DT_AHEAD_NOT_NOW
};

/* A message with staged parts is to be posted. */
enum dt_ahead_answer dt_ahead_post(struct dt_sender *sender, struct dt_send_slot *slot);

/* A completion of DT_WORK_AHEAD. */
void dt_ahead_complete(struct dt_sender *sender, uint32_t sequence);

/* The entry's payload is at the receiver, as far as is known. */
bool dt_ahead_has_come(const struct dt_sender *sender, const struct dt_staged *entry);

/* The entry's message is delivered, or it never will be. */
void dt_ahead_delivered(struct dt_sender *sender, struct dt_staged *entry);

/* The path is being settled by path->resume; before its messages are looked at. */
void dt_ahead_settle(struct dt_path *path);

/* The message is complete here, but the receiver does not have it. True: it has all but TAKE, which counts in
 * sender->again now. */
bool dt_ahead_take_again(struct dt_sender *sender, const struct dt_send_slot *slot);
/* Says what has a path now; returns how many. */
uint32_t dt_ahead_say_again(struct dt_sender *sender);

/* ------------------------------------------------------------------------------------------------------------
 * Receiver
 */
enum dt_ahead_held_state {
    DT_AHEAD_EMPTY,
    DT_AHEAD_WAITS, /* for its irecv, or for TAKE */
    DT_AHEAD_COPIED /* it is being copied out */
};

/* What is in a place. */
struct dt_ahead_held {
    uint8_t state;   /* enum dt_ahead_held_state */
    bool is_tracked; /* `left` counts */
    uint32_t generation;
    uint32_t tag;
    uint32_t bytes;
    uint64_t next; /* parts of messages before this one were counted */
    uint32_t left; /* parts with the tag to come before its own */
    uint32_t slot; /* COPIED: that of its message */
    struct dt_host_copy copy;
    uint32_t copies_left;    /* [atomic; written by who copies] */
    uint32_t delegates_hold; /* [atomic] */
};

/* A receive; that of the slot with the same number. */
struct dt_ahead_receive {
    void *data;
    uint32_t tag[DT_PARTS_MAX];
    bool takes;
    bool is_found;    /* something that went ahead is its message */
    bool is_copied;   /* and is in its place */
    bool is_reported; /* and its request is done; the slot waits for TAKE */
};

struct dt_ahead_store {
    uint8_t *memory;
    size_t memory_bytes;
    uint32_t bytes; /* of a payload */
    uint8_t released[DT_AHEAD_PLACES];
    uint8_t arrived[DT_AHEAD_PLACES];
    struct dt_ahead_held held[DT_AHEAD_PLACES];
    struct dt_ahead_receive receive[DT_SLOTS_MAX];
};

/*
 * Set-up, before the paths are made: memory to grant, if the host path is on and there is some left of
 * DETOUR_HOSTPATH_BYTES, which all receivers of the process share. Nothing, and no error, if not.
 */
void dt_ahead_open(struct dt_connection *connection);
/* When the last path is gone. */
void dt_ahead_close(struct dt_receiver *receiver);
/* The receiver is set up. */
void dt_ahead_start(struct dt_receiver *receiver);
/* Detour's thread: tells the sender, which needs to hear it once. */
void dt_ahead_grant(struct dt_receiver *receiver);

/* irecv: the slot is open; fills in what its row says; and, the row being on its way, looks for its message.
 */
void dt_ahead_await(struct dt_receiver *receiver, struct dt_recv_slot *slot, void *const *data,
                    const int *tags);
void dt_ahead_fill(const struct dt_receiver *receiver, const struct dt_recv_slot *slot,
                   struct dt_cts_entry *row);
void dt_ahead_look(struct dt_receiver *receiver, struct dt_recv_slot *slot);

/* An arrival of kind AHEAD or TAKE. False: it cannot be. */
bool dt_ahead_arrive(struct dt_receiver *receiver, struct dt_path *path,
                     const struct dt_completion *completion);

/* Sees what is copied. */
void dt_ahead_see_copies(struct dt_receiver *receiver);

/* What went ahead is the slot's message. */
bool dt_ahead_is_found(const struct dt_receiver *receiver, const struct dt_recv_slot *slot);

/* The message of an open slot is here, only its TAKE is missing. */
bool dt_ahead_is_copied(const struct dt_receiver *receiver, const struct dt_recv_slot *slot);

/* Of DT_REQUEST_AHEAD. */
enum dt_status dt_ahead_test(struct dt_request *request, int *done, int *bytes);

/* Waits until nothing is copied any more. Not on NCCL's progress thread; nobody moves the connection on
 * meanwhile. */
void dt_ahead_finish_copies(struct dt_receiver *receiver);

#ifdef __cplusplus
}
#endif

#endif
