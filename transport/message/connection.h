/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of a sender and a receiver. Private to transport/.
 *
 * Access:
 *   owner          NCCL's progress thread or, after dt_owner_take(), the device thread: fields marked
 * [owner], everything in struct dt_sender and dt_receiver, queue pairs, completion queues atomic [atomic]: by
 * the functions of base/atomics.h only device thread  [detour]: the thread of the default device, or a thread
 * that holds nic->mutex constant       after set-up: everything else
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_CONNECTION_H
#define DETOUR_TRANSPORT_MESSAGE_CONNECTION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"
#include "base/limits.h"
#include "base/list.h"
#include "transport/message/end.h"
#include "transport/message/meter.h"
#include "transport/message/owner.h"
#include "base/status.h"
#include "transport/path/nic.h"
#include "transport/path/path.h"
#include "transport/protocol/frames.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_service_connection;
struct dt_session;
struct dt_switchover;

/* ------------------------------------------------------------------------------------------------------------
 * Requests and memory
 */
struct dt_request;

/*
 * Tests an open request: sets *done to 1 if it is complete, and then frees it. Chosen by the module that
 * opened the request. Owner. DT_INVALID: the request is not open.
 */
typedef enum dt_status dt_test_function(struct dt_request *request, int *done, int *bytes);

struct dt_request {
    struct dt_connection *connection;
    dt_test_function *test;
    uint8_t part; /* of a send */
    bool is_open; /* returned to NCCL and not yet reported done */
    bool is_done;
    uint32_t slot;
};

/* ------------------------------------------------------------------------------------------------------------
 * Connections
 */

/* Findings of the device thread that the owner has to handle; a bit is never cleared, except AGAIN. */
enum dt_notice {
    DT_NOTICE_PEER_CLOSED = 1, /* peer_close_sequence is valid */
    DT_NOTICE_PEER_LOST = 2,   /* the peer is dead, or has closed with messages undelivered */
    DT_NOTICE_PEER_BROKEN = 4, /* the peer violated the protocol */
    /* These two are never marked as handled, so every call sees them. */
    DT_NOTICE_ABANDONED = 32, /* memory was deregistered with requests open */
    DT_NOTICE_FAILING = 64,   /* the connection is failing */
    /* Messages have to be posted again, or receives published again. Cleared when none is left; until then
       every call handles it. */
    DT_NOTICE_AGAIN = 128,
    /* isend or irecv of this connection uses hostpath/staged/. Never cleared. It is a notice because the
       entry points compare the notices anyway. */
    DT_NOTICE_STAGED = 256,
    /* The device thread visits the connection rarely; NCCL's next call rouses it and clears the notice. */
    DT_NOTICE_RESTING = 512
};

/* The text of the error of a connection with DT_NOTICE_PEER_LOST whose peer did not close. */
#define DT_PEER_DEAD_TEXT                                                                                  \
    "the peer is dead: its control channel closed without CLOSE, and its process no longer listens or no " \
    "longer knows this connection"

struct dt_connection {
    /* Used by the data path, therefore first. */
    struct dt_owner owner;
    uint32_t notices;       /* enum dt_notice [atomic] */
    uint32_t error;         /* enum dt_status: result of all calls from now on [atomic] */
    uint32_t open_requests; /* [atomic; written by the owner] */
    uint32_t completions; /* a number that changes when something completes [atomic; written by the owner] */
    uint32_t attended;    /* notices that the owner has handled [owner] */
    uint32_t failing;     /* enum dt_status: decided, queue pairs not fenced yet [atomic] */
    bool is_sender;
    const struct dt_end_ops *ops;          /* end.h */
    struct dt_path *current;               /* the path for new messages, or NULL: none is up [owner] */
    struct dt_service_connection *service; /* transport/service.h */
    uint32_t path_count;
    uint32_t qps;    /* per path */
    uint32_t shares; /* of them, those that each message goes over (protocol/split.h) */
    uint32_t slots;
    uint32_t chunk_bytes;
    uint32_t adaptive_bytes; /* sender: the payload of larger parts goes in writes without an immediate, which
                                an InfiniBand fabric may route adaptively; UINT32_MAX: of none */
    struct dt_path path[DT_PATHS_MAX];
    struct dt_path_group group; /* of the paths */

    struct dt_environment *environment;
    struct dt_net *net;            /* of transport/ alone */
    struct dt_nic *nic;            /* the default device: path 0's */
    uint64_t id;                   /* the same at both ends, for the logs */
    char peer[DT_NAME_BYTES + 32]; /* "host:pid (device)" */

    struct dt_session *session; /* [detour], before that the set-up's; survives the connection */
    uint64_t peer_close_sequence;

    struct dt_list node; /* in nic->service->connections [detour] */
    struct dt_list turn; /* in nic->service->turns.resting [detour] */
    uint32_t is_roused;  /* it is on the list nic->roused [atomic] */
    struct dt_connection *roused_next;
    uint64_t progress_ns;     /* when a completion was last noticed, or the connection was idle [atomic] */
    uint32_t faults;          /* enum dt_fault, by path [atomic] */
    uint32_t hints;           /* paths that may have recovered [atomic] */
    bool has_switched;        /* a path was not UP at some time [owner] */
    struct dt_request orphan; /* of every isend and irecv after the peer was gone (entry.c) [owner] */

    struct dt_switchover *switchover; /* failover/switchover/state.h */

    pthread_mutex_t memory_mutex;
    struct dt_list memories;
    struct dt_meter meter;
};

/* Changes a counter that the owner writes and other threads may read. */
static inline void dt_count(uint32_t *counter, uint32_t by)
{
    dt_store_release(counter, *counter + by);
}

/* ------------------------------------------------------------------------------------------------------------
 * Functions on both kinds
 */

/* Owner: chooses the path for new messages, after the state of one has changed. */
void dt_connection_choose_path(struct dt_connection *connection);

/*
 * Owner: decides that the connection cannot go on; the first decision counts and is logged at WARN with the
 * peer's name in front. The error is returned by later calls once the queue pairs are fenced.
 */
void dt_connection_fail(struct dt_connection *connection, enum dt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* Owner: the device refused something, or a completion queue failed; `what` is a constant. */
__attribute__((cold)) void dt_connection_path_refused(struct dt_connection *connection, struct dt_path *path,
                                                      const char *what);

/* Owner: a work request of this path failed. */
__attribute__((cold)) void dt_connection_path_failed(struct dt_connection *connection, struct dt_path *path,
                                                     const struct dt_completion *completion);

/* Owner: handles new notices. DT_OK: the connection is usable; DT_AGAIN: it is failing and its queue pairs
 * are not fenced yet; otherwise the error that it failed with. */
__attribute__((cold)) enum dt_status dt_connection_attend(struct dt_connection *connection);

/* Owner: polls the completion queues, posts ready messages and completes requests. */
static inline void dt_connection_progress(struct dt_connection *c)
{
    c->ops->progress(c);
}

/* Owner: progress until a round completes nothing, so that every completion that has arrived is counted
 * before the next step. */
void dt_connection_drain(struct dt_connection *connection);

/* The first check of each data call; returns as dt_connection_attend(). Owner. */
static inline enum dt_status dt_connection_check(struct dt_connection *c)
{
    if (__builtin_expect(dt_load_acquire(&c->notices) == c->attended, 1))
        return DT_OK;
    return dt_connection_attend(c);
}

/* Any thread: reports a fault of a path, whose details were written before, and wakes the device thread. */
__attribute__((cold)) void dt_connection_suspect(struct dt_connection *connection, struct dt_path *path,
                                                 enum dt_fault fault);

/* Any thread: adds a notice, whose data was written before. */
static inline void dt_connection_notify(struct dt_connection *c, uint32_t notice)
{
    __atomic_fetch_or(&c->notices, notice, __ATOMIC_ACQ_REL);
}

#ifdef __cplusplus
}
#endif

#endif
