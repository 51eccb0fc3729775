/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving end of a connection as data: its slots, and which changes of a slot are legal.
 *
 * An irecv takes the slot of the next sequence number and publishes its CTS. The message is complete when one
 * path has brought all shares of all parts, or when its payload has arrived as an eager send and the sender's
 * TAKE binds it to the message.
 *
 * All functions: owner of the connection.
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_RECEIVER_H
#define DETOUR_TRANSPORT_MESSAGE_RECEIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/util.h"
#include "transport/message/arrivals.h"
#include "transport/message/connection.h"
#include "transport/message/flush.h"
#include "transport/message/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_eager_store;
struct dt_gpu_bounce;
struct dt_rank_receiver;

/* Stamps of messages that the device thread has not taken yet; more than the window of the slots. */
#define DT_ARRIVAL_STAMPS 256

/* The legal transitions are the table dt_recv_transitions. */
enum dt_recv_state {
    DT_RECV_FREE,
    DT_RECV_OPEN, /* its CTS is out; waits for all shares of all parts */
    DT_RECV_DONE, /* waits for its test */
    DT_RECV_STATES
};

/* Where the payload of an open message comes from. */
enum dt_payload_source {
    DT_PAYLOAD_WIRE,    /* from a path, straight into the irecv's buffer */
    DT_PAYLOAD_STORE,   /* from memory of this end, where it had arrived before; it is being copied */
    DT_PAYLOAD_IN_PLACE /* the same, and the copy is done: only the sender's TAKE is missing */
};

struct dt_recv_slot {
    uint64_t sequence;
    struct dt_request request;
    uint8_t state; /* enum dt_recv_state; changed by dt_recv_slot_set() alone */
    uint8_t parts;
    uint8_t path;        /* that its CTS went over; once the message is done, the path that brought it */
    bool is_unpublished; /* OPEN: the path of its CTS failed; it is to be published again over another one */
    uint8_t source;      /* enum dt_payload_source */
    uint32_t capacity[DT_PARTS_MAX];
    uint32_t bytes[DT_PARTS_MAX]; /* received */
    struct dt_memory *memory[DT_PARTS_MAX];
    struct dt_arrivals arrivals[DT_PATHS_MAX];
};

struct dt_receiver {
    struct dt_connection connection;
    uint64_t next;       /* sequence of the next irecv */
    uint32_t cts_period; /* of the clear-to-send writes every n-th is signaled */
    uint32_t idle_polls;
    /* Receives that are to be published again: at least the open ones with is_unpublished, at most `slots`.
       One that another path completes meanwhile is counted until the next scan: of
       dt_receiver_publish_again(), or of the loss of another path (dt_republish_discard()). */
    uint32_t again;
    struct dt_recv_slot slot[DT_SLOTS_MAX];
    uint32_t flush_wanted_mask; /* paths that need a loopback queue pair [atomic] */
    uint32_t flush_made_mask;   /* of them, those whose job was submitted [detour] */
    uint32_t flush_next;
    uint32_t flush_open;
    uint32_t side_open; /* work that progress has to attend to besides plain receives: open flushes, and
                           copies of the module above */
    struct dt_gpu_bounce *gpu_bounce; /* of the module above (hostpath/staged/), both; or NULL */
    struct dt_eager_store *eager;
    struct dt_flush_slot flush[DT_FLUSHES_MAX];
    struct dt_lost_flush lost;
    uint64_t arrived[DT_ARRIVAL_STAMPS]; /* by sequence number; see dt_receiver_stamp() [atomic; owner] */
    struct dt_rank_receiver *rank;       /* transport/pace.h; or NULL */
    uint64_t rank_next;                  /* the next message whose stamp is taken [device thread] */
    uint32_t
        processor; /* for the CTS entries, as bytes (transport/peer_processor.h) [atomic; device thread] */
    uint64_t processor_due_ns; /* when it can change next [device thread] */
};

/* From a state, a bit for each state that may follow. */
extern const uint8_t dt_recv_transitions[DT_RECV_STATES];

/* The only place where a slot changes its state. */
static inline void dt_recv_slot_set(struct dt_recv_slot *slot, enum dt_recv_state state)
{
    DT_CHECK_HOT(dt_recv_transitions[slot->state] >> state & 1);
    slot->state = (uint8_t)state;
}

static inline struct dt_receiver *dt_receiver_of(struct dt_connection *connection)
{
    return dt_container_of(connection, struct dt_receiver, connection);
}

static inline struct dt_recv_slot *dt_receiver_slot(struct dt_receiver *r, uint64_t sequence)
{
    return &r->slot[sequence & (r->connection.slots - 1)];
}

/*
 * The message's payload is here: its time, for the device thread. One store: bit 8 says that there is a
 * stamp, and the lowest byte which lap of the ring it is of, so that the reader needs no other variable. Its
 * precision is 512 ticks.
 */
static inline void dt_receiver_stamp(struct dt_receiver *r, uint64_t sequence)
{
    uint64_t lap = sequence / DT_ARRIVAL_STAMPS & 0xff;

    dt_store_relaxed(&r->arrived[sequence % DT_ARRIVAL_STAMPS],
                     ((dt_ticks_now(r->connection.meter.ticks) | 0x1ff) ^ 0xff) | lap);
}

/*
 * Takes the stamp of the next message. Returns how many messages it is for: 0: none has arrived; several: the
 * stamps of those before were written over. Device thread.
 */
uint64_t dt_receiver_take_stamp(struct dt_receiver *receiver, uint64_t *stamp);

/* The first message that is not complete. */
uint64_t dt_receiver_first_incomplete(const struct dt_receiver *receiver);
/* The same, but a message whose payload is in place counts as complete although its TAKE has not arrived. */
uint64_t dt_receiver_first_missing(const struct dt_receiver *receiver);

/* The message is open, and its payload is not in place. */
bool dt_recv_slot_is_missing(const struct dt_recv_slot *slot);

/* The payload of the message's only part is in its buffer, and the buffer the caller's again. */
void dt_receiver_place_payload(struct dt_receiver *receiver, struct dt_recv_slot *slot, uint32_t bytes);
/* The sender's TAKE for a message whose payload came from this end's memory has arrived. */
void dt_receiver_take(struct dt_path *path, struct dt_recv_slot *slot);

#ifdef __cplusplus
}
#endif

#endif
