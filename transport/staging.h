/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host path of a sender: isend hands the payload to memory of Detour's own, and NCCL has its buffer back
 * when the copy is made. From there the message goes the way of any other, into the irecv's buffer, driven by
 * NCCL's calls while there are some and by Detour's thread when there are none. Private to transport/.
 *
 * An isend that is staged does not wait for its clear-to-send. Until that is here it is in `queue`, in the
 * order of the isends, and is then matched by its tag exactly as an isend would be that came at that moment.
 * So the order among isends of one tag is kept, and one that has found no message does not hold up those of
 * other tags.
 *
 * Nothing waits for staging: when there is no room (or the memory is a GPU's) the isend goes directly, or
 * gets "not now" for want of a clear-to-send, as it would without the host path. What is staged holds pool
 * memory only until its own irecv is posted, which the direct path waits for as well, so connections that
 * share a pool cannot wait for one another (docs/hostpath.md).
 *
 * All functions: owner of the connection, unless they say otherwise.
 */
#ifndef DETOUR_TRANSPORT_STAGING_H
#define DETOUR_TRANSPORT_STAGING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "hostpath/auto.h"
#include "hostpath/delegate.h"
#include "hostpath/gpu.h"
#include "hostpath/pool.h"
#include "transport/ahead.h"
#include "transport/connection.h"

#ifdef __cplusplus
extern "C" {
#endif

/* isends that are staged and not delivered, of one connection. */
#define DT_STAGED_MAX 256

/* One isend's payload. */
struct dt_staged {
    struct dt_request request; /* `slot` is the number of the entry */
    struct dt_list node;       /* in the stage's queue or free list, or in none: it has found its message */
    int tag;
    uint32_t bytes;
    void *at;                 /* in the pool; NULL without bytes */
    struct dt_memory *memory; /* of the isend, until its test has said done */
    bool is_delivered;
    bool is_of_gpu;
    bool is_by_delegates;
    bool is_candidate;       /* it may go ahead, and has not */
    uint64_t queued;         /* when it came into the queue [stamp] */
    uint8_t ahead;           /* DT_AHEAD_NONE, the place that it has gone to plus 1, or DT_AHEAD_RELEASED */
    uint32_t copies_left;    /* [atomic; written by who copies] */
    uint32_t delegates_hold; /* jobs; until there is none the entry is not used again [atomic] */
    union {
        struct dt_host_copy host_copy; /* is_by_delegates */
        struct dt_gpu_copy gpu_copy;   /* is_of_gpu */
    };
};

struct dt_stage {
    struct dt_pool *pool;
    struct dt_delegates *delegates;
    struct dt_gpus *gpus;
    struct dt_memory memory; /* the pool, as the paths' devices know it */
    struct dt_list queue;    /* no message yet, the oldest first */
    struct dt_list free;
    uint64_t reclaim_next; /* messages before it are delivered, and hold nothing here */
    /* A copy of more is the delegates': up to here, one by NCCL's own thread is quicker than telling another.
       Nor are the pieces larger than the writes that they go out in. */
    uint32_t piece_bytes;
    bool is_auto; /* `decision` says whether isends are staged; else they are */
    struct dt_auto decision;
    uint64_t underway_bytes;            /* handed over and not reclaimed */
    uint64_t underway_at[DT_SLOTS_MAX]; /* the same when the slot's message was handed over, with it */
    struct dt_ahead ahead;
    uint32_t given_out;   /* requests whose test has not said done [atomic; written by the owner] */
    uint32_t undelivered; /* entries [atomic; written by the owner] */
    struct dt_staged entry[DT_STAGED_MAX];
};

/* Process-wide: the pool of all connections. Part of struct dt_net. */
struct dt_hostpath {
    bool is_on; /* or auto */
    bool is_auto;
    bool is_placed; /* dt_hostpath_place() [net->mutex] */
    struct dt_pool pool;
    struct dt_gpus gpus;
    uint64_t shadow_bytes;  /* of all receivers (landing.h) [atomic] */
    uint64_t granted_bytes; /* of all receivers (ahead.h) [atomic] */
};

/* With DETOUR_HOSTPATH=off nothing. DT_NO_MEMORY. */
enum dt_status dt_hostpath_open(struct dt_net *net);
void dt_hostpath_close(struct dt_net *net);

/*
 * A connection of this device is about to be set up. The pool lies on the NUMA node of the first one: that is
 * the RNIC NCCL found near this process's GPU. Any thread; takes net->mutex.
 */
void dt_hostpath_place(struct dt_nic *nic);

/* The GPU whose memory `address` is, if the host path can copy from and to it; NULL: it cannot. May block. */
struct dt_gpu *dt_stage_gpu_of(const struct dt_connection *connection, const void *address);

/* The sender is set up: it gets its stage if it is to have one. DT_NO_MEMORY, DT_SYSTEM (one WARN). */
enum dt_status dt_stage_open(struct dt_sender *sender);
/* Nothing is copied or read by a device any more. */
void dt_stage_close(struct dt_sender *sender);

/* Stages the payload or, if that cannot be, sends it directly. */
enum dt_status dt_stage_isend(struct dt_sender *sender, void *data, uint32_t bytes, int tag,
                              struct dt_memory *memory, struct dt_request **request);
/* Of all requests of a sender with a stage. */
enum dt_status dt_stage_test(struct dt_request *request, int *done, int *bytes);

/*
 * dt_sender_progress(), and what is staged: messages are found for it, and the memory of what was delivered
 * is taken back.
 */
void dt_stage_progress(struct dt_sender *sender);

/* A message has all its parts, staged or not. */
void dt_stage_handed_over(struct dt_sender *sender, const struct dt_send_slot *slot);

/* All that is staged of the message is in the pool: the last of it can be posted. If it never will be the
 * connection fails. */
bool dt_stage_is_copied(const struct dt_send_slot *slot);

/* Bytes from the front on that are in the pool, and stay there. Of an entry that the copy has not failed for.
 */
uint64_t dt_stage_copied_bytes(const struct dt_staged *entry);

/* The same of one entry. */
bool dt_stage_is_entry_copied(const struct dt_staged *entry);

/* So many bytes go ahead; returns what is under way with them. They have come, having been handed over, and
 * with so much under way, then; or they are lost. (ahead.h) */
uint64_t dt_stage_goes(struct dt_sender *sender, uint64_t bytes);
void dt_stage_came(struct dt_sender *sender, uint64_t handed, uint64_t bytes, uint64_t underway_bytes);
void dt_stage_lost(struct dt_sender *sender, uint64_t bytes);

/* The delegates of the device, which are started for the first connection that needs them. */
enum dt_status dt_stage_open_delegates(struct dt_nic *nic);

/* The receiver has closed, and says that it has `count` messages more than found an isend: what is in the
 * queue went ahead, and was taken. Returns how many entries are left nevertheless; if none is, all are
 * delivered. */
uint32_t dt_stage_peer_closed(struct dt_sender *sender, uint64_t count);

/* Entries of a connection that are not delivered. Any thread. */
uint32_t dt_stage_undelivered(const struct dt_connection *connection);

/* Entries that no message was found for. */
uint32_t dt_stage_unmatched(const struct dt_stage *stage);

/* Waits until no caller's memory is read any more, which is as long as a copy takes. Not on NCCL's progress
 * thread; nobody may stage meanwhile. */
void dt_stage_finish_copies(struct dt_stage *stage);

#ifdef __cplusplus
}
#endif

#endif
