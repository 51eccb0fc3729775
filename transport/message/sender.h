/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending end of a connection as data: its slots, and which changes of a slot are legal.
 *
 * A message takes the slot of its sequence number when its CTS is there, gets a part from each isend, is
 * handed over when all parts are there, and is posted in the order of the sequence numbers. All of a message
 * goes over one path. Payload need not be in place when a message is handed over: `ready_bytes` of each part
 * counts the bytes in place, and a message of one part on one queue pair is posted up to that count
 * (send_partial.h).
 *
 * All functions: owner of the connection.
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_SENDER_H
#define DETOUR_TRANSPORT_MESSAGE_SENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/util.h"
#include "transport/message/connection.h"
#include "transport/message/gate.h"
#include "transport/message/memory.h"
#include "transport/protocol/cts.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_health;
struct dt_stage;

/* The legal transitions are the table dt_send_transitions. */
enum dt_send_state {
    DT_SEND_FREE,
    DT_SEND_MATCHING, /* its CTS is here; waits for an isend for each part */
    DT_SEND_READY,    /* waits for its turn, its payload, a path, or room in the send queues */
    DT_SEND_PARTIAL,  /* its first writes are posted; waits for the rest of its payload */
    DT_SEND_POSTED,   /* waits for the last completion of each queue pair */
    DT_SEND_DONE,     /* waits for the test of each part */
    DT_SEND_STATES
};

/* The work that is posted for a message. */
enum dt_send_body_kind {
    DT_BODY_DATA,   /* one write with its payload, whose immediate is DATA: one part on one queue pair */
    DT_BODY_SIZED,  /* several writes, as parts, queue pairs and chunks make them (send_multi.c) */
    DT_BODY_TAKE,   /* no payload, which the receiver has already: one write without bytes, whose immediate is
                       TAKE */
    DT_BODY_PENDING /* not decided: nothing may be posted */
};

struct dt_send_body {
    uint8_t kind;   /* enum dt_send_body_kind */
    uint8_t place;  /* TAKE: the place that the payload is in */
    uint8_t path;   /* TAKE: goes over this epoch of this path, and no other; DT_PATHS_MAX: any path */
    uint32_t epoch; /* TAKE, with a path */
};

struct dt_send_part {
    struct dt_request request;
    uint64_t addr;
    struct dt_memory *memory; /* or NULL: no bytes */
    uint32_t bytes;
    uint32_t ready_bytes; /* from the first byte on, that may be posted; never decreases */
};

struct dt_send_slot {
    uint64_t sequence;
    uint8_t state; /* enum dt_send_state; changed by dt_send_slot_set() alone */
    uint8_t parts;
    uint8_t stale_mask;    /* for dt_sender_stale_mask() (send_keys.h) */
    uint8_t taken_mask;    /* parts that have their isend */
    uint8_t missing;       /* parts that do not */
    uint8_t reported;      /* parts that are reported done, or need no report */
    uint8_t path;          /* it was posted on */
    uint8_t qps_left;      /* completions to come */
    bool is_refused;       /* PARTIAL: the device refused a write; nothing more goes out on this epoch */
    uint32_t epoch;        /* of that path */
    uint32_t posted_bytes; /* PARTIAL: from the first byte on */
    struct dt_send_body body;
    uint64_t requested; /* stamps for the meter */
    uint64_t submitted;
    struct dt_cts_entry entry[DT_PARTS_MAX];
    struct dt_send_part part[DT_PARTS_MAX];
};

struct dt_sender {
    struct dt_connection connection;
    uint64_t next;          /* message that the next isend belongs to [atomic; written by the owner] */
    uint64_t next_post;     /* first message that was never posted; <= next */
    uint64_t keys_since;    /* the largest of the paths' */
    uint32_t again;         /* messages before it that are to be posted or announced again */
    struct dt_gate gate;    /* READY messages may have to wait there */
    struct dt_stage *stage; /* of the module above that stages messages (hostpath/staged/stage.h), or NULL */
    uint32_t staging;       /* enum dt_hostpath_mode [atomic] */
    struct dt_health *health; /* transport/health.h; or NULL */
    uint32_t peer_processor;  /* of the last CTS, as bytes (transport/peer_processor.h) [atomic; owner] */
    struct dt_send_slot slot[DT_SLOTS_MAX];
};

/* From a state, a bit for each state that may follow. */
extern const uint8_t dt_send_transitions[DT_SEND_STATES];

static inline bool dt_send_is_legal(uint32_t from, uint32_t to)
{
    return dt_send_transitions[from] >> to & 1;
}

/* The only place where a slot changes its state. */
static inline void dt_send_slot_set(struct dt_send_slot *slot, enum dt_send_state state)
{
    DT_CHECK_HOT(dt_send_is_legal(slot->state, state));
    slot->state = (uint8_t)state;
}

static inline struct dt_sender *dt_sender_of(struct dt_connection *connection)
{
    return dt_container_of(connection, struct dt_sender, connection);
}

static inline struct dt_send_slot *dt_sender_slot(struct dt_sender *s, uint64_t sequence)
{
    return &s->slot[sequence & (s->connection.slots - 1)];
}

/* Fills in the requests' constant members; `test` tests isends. */
void dt_sender_init(struct dt_sender *sender, dt_test_function *test);

/* The first message that is not complete. */
uint64_t dt_sender_first_incomplete(const struct dt_sender *sender);

/* A POSTED or DONE message is to be posted again as a whole: it is READY, and counts in sender->again. */
void dt_sender_reopen(struct dt_sender *sender, struct dt_send_slot *slot);
/* The epoch that a PARTIAL message was begun on is settled: it begins again as a whole. */
void dt_sender_restart(struct dt_send_slot *slot);
/* `count` parts of a DONE message are reported; the last ones free its slot. */
static inline void dt_sender_report_parts(struct dt_send_slot *slot, uint32_t count)
{
    slot->reported = (uint8_t)(slot->reported + count);
    DT_CHECK_HOT(slot->reported <= slot->parts);
    if (slot->reported == slot->parts)
        dt_send_slot_set(slot, DT_SEND_FREE);
}

/* Whether all of the message's payload may be posted. */
static inline bool dt_send_is_payload_ready(const struct dt_send_slot *slot)
{
    for (uint32_t i = 0; i < slot->parts; i++) {
        if (slot->part[i].ready_bytes < slot->part[i].bytes)
            return false;
    }
    return true;
}

#ifdef __cplusplus
}
#endif

#endif
