/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage of a sender: isend copies its payload into host memory of Detour's own, and NCCL has its buffer
 * back when the copy is made. From there the message is sent like any other, straight into the irecv's
 * buffer, driven by NCCL's calls while there are some and by the device thread otherwise.
 *
 * A staged isend does not wait for a CTS. Until the CTS arrives its entry is in `queue`, in the order of the
 * isends; then it is matched by its tag exactly as an isend would be that is called at that moment. So the
 * order among isends of one tag is kept, and an entry without a message does not hold up those of other tags.
 *
 * Nothing waits for staging: if there is no room, or the memory cannot be copied from, the isend goes
 * directly, or is answered "not now" for want of a CTS, as without the host path. A staged payload holds pool
 * memory only until its own irecv is posted, which the direct way waits for as well, so connections that
 * share a pool cannot deadlock (docs/hostpath.md).
 *
 *   stage.h           this: the stage as data, opening and closing
 *   stage_copy.h      copies into the pool, and how far they have come
 *   stage_late.h      copies that take too long
 *   stage_inflight.h  bytes in flight, and the decision of DETOUR_HOSTPATH=auto
 *   stage_match.h     from the queue into messages; bringing ready_bytes and bodies up to date; posting
 *   stage_deliver.h   delivered messages release their memory
 *   stage_send.h      isend and its test, progress
 *
 * All functions: owner of the connection, unless they say otherwise.
 */
#ifndef DETOUR_HOSTPATH_STAGED_STAGE_H
#define DETOUR_HOSTPATH_STAGED_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "hostpath/auto.h"
#include "hostpath/delegate.h"
#include "hostpath/hostpath.h"
#include "hostpath/staged/eager.h"
#include "transport/message/memory.h"
#include "transport/message/sender.h"

#ifdef __cplusplus
extern "C" {
#endif

/* isends of one connection that are staged and not delivered. */
#define DT_STAGED_MAX 256

/* The payload of one isend. */
struct dt_staged {
    struct dt_request request; /* `slot` is the number of the entry */
    struct dt_list node;       /* in the stage's queue or free list, or in none: it is matched */
    int tag;
    uint32_t bytes;
    void *at;                 /* in the pool; NULL without bytes */
    struct dt_memory *memory; /* of the isend, until its test has reported it done; or NULL */
    bool is_delivered;
    bool is_of_gpu;
    bool is_by_delegates;
    bool is_direct;          /* its copy is late: the device reads `memory` (stage_late.h) */
    bool is_candidate;       /* in the queue, may be sent eagerly, and was not */
    uint64_t queued;         /* when it came into the queue [stamp] */
    uint8_t eager;           /* DT_EAGER_NONE, the number of its place plus 1, or DT_EAGER_RELEASED */
    uint32_t copies_left;    /* pieces [atomic; written by the copying threads] */
    uint32_t delegates_hold; /* jobs; while there is one the entry is not used again [atomic] */
    union {
        struct dt_host_copy host_copy; /* is_by_delegates */
        struct dt_gpu_copy gpu_copy;   /* is_of_gpu */
    };
};

/* The staged parts of a message; that of the send slot with the same number. */
struct dt_staged_slot {
    uint8_t mask;              /* parts that are staged, until the message is delivered */
    uint32_t taken_generation; /* body TAKE: of the place; 0: the place was released already */
    uint64_t inflight_bytes;   /* when the message was handed over, with it */
    struct dt_staged *entry[DT_PARTS_MAX];
};

struct dt_stage {
    struct dt_pool *pool;
    struct dt_delegates *delegates;
    struct dt_gpus *gpus;
    struct dt_memory memory; /* the pool, as the paths' devices know it */
    struct dt_list queue;    /* entries without a message, the oldest first */
    struct dt_list free;
    struct dt_list late;   /* entries that are free but for a late copy */
    bool has_late;         /* there may be a late copy that has not ended */
    uint64_t late_ns;      /* DT_STAGE_LATE_NS; tests that hold copies back set another */
    uint64_t reclaim_next; /* messages before it are delivered, and hold nothing here */
    /* A copy of more is made by delegates: up to here, a copy by NCCL's own thread is faster than waking
       another one. No piece is larger than the writes that it goes out in. */
    uint32_t piece_bytes;
    struct dt_auto decision; /* which isends are staged (DT_HOSTPATH_AUTO) */
    bool lacks_room;         /* since the last isend that got a request */
    uint64_t inflight_bytes; /* handed over, or sent eagerly, and not known to have arrived */
    struct dt_eager eager;
    uint32_t given_out;   /* requests that are not reported done [atomic; written by the owner] */
    uint32_t undelivered; /* entries [atomic; written by the owner] */
    struct dt_staged_slot slot[DT_SLOTS_MAX];
    struct dt_staged entry[DT_STAGED_MAX];
};

/*
 * Which isends the sender stages now: the order that it has, or its process's (`detour hostpath`). An order
 * takes effect with the next isend; messages in progress keep their way. Any thread.
 */
static inline enum dt_hostpath_mode dt_stage_mode(const struct dt_sender *s)
{
    uint32_t mode = dt_load_relaxed(&s->staging);

    if (mode == DT_HOSTPATH_PROCESS)
        mode = dt_load_relaxed(&s->connection.environment->hostpath->mode);
    return (enum dt_hostpath_mode)mode;
}

/* Set-up of a sender, before the paths are made: has their devices register the pool. */
void dt_stage_offer_region(struct dt_connection *connection);

/* The GPU whose memory `address` is, if the host path can copy from and to it; NULL: it cannot. May block. */
struct dt_gpu *dt_stage_gpu_of(const struct dt_connection *connection, const void *address);

/* The delegates of the device, which are started for the first connection that needs them. DT_SYSTEM (one
 * WARN). */
enum dt_status dt_stage_open_delegates(struct dt_nic *nic);

static inline struct dt_staged_slot *dt_stage_slot(const struct dt_sender *s, const struct dt_send_slot *slot)
{
    return &s->stage->slot[slot - s->slot];
}

/* The sender is set up: it gets its stage if it is to have one. DT_NO_MEMORY, DT_SYSTEM (one WARN). */
enum dt_status dt_stage_open(struct dt_sender *sender);
/* No copy is under way, and no device reads the pool for this sender any more. */
void dt_stage_close(struct dt_sender *sender);

/* A free entry with pool memory for the payload, in no list; NULL: there is none now. */
struct dt_staged *dt_stage_take_entry(struct dt_stage *stage, uint32_t bytes);
/* The entry's request was reported, and its message delivered. */
void dt_stage_free_entry(struct dt_sender *sender, struct dt_staged *entry);

/* Entries without a message. */
uint32_t dt_stage_unmatched(const struct dt_stage *stage);
/* An older isend with this tag is in the queue: the next one with the tag must not overtake it. */
bool dt_stage_has_tag(const struct dt_stage *stage, int tag);

#ifdef __cplusplus
}
#endif

#endif
