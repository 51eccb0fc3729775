/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sender and a receiver have in common. Private to transport/.
 *
 * Who may touch what:
 *   owner          NCCL's progress thread or, after dt_owner_take(), Detour's thread: fields marked [owner],
 *                  everything in struct dt_sender and dt_receiver, queue pairs, completion queues
 *   atomic         [atomic]: by the functions of base/atomics.h only
 *   Detour's       [detour]: thread of the default device, or whoever holds nic->mutex
 *   constant       after set-up: everything else
 */
#ifndef DETOUR_TRANSPORT_CONNECTION_H
#define DETOUR_TRANSPORT_CONNECTION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "failover/fence.h"
#include "failover/path_machine.h"
#include "failover/recovery.h"
#include "failover/resume.h"
#include "failover/stall.h"
#include "transport/arrivals.h"
#include "transport/backup.h"
#include "transport/cts.h"
#include "transport/executor.h"
#include "transport/health.h"
#include "transport/inject.h"
#include "transport/meter.h"
#include "transport/net.h"
#include "transport/owner.h"
#include "transport/switch_report.h"
#include "transport/wire_messages.h"
#include "verbs/device.h"
#include "verbs/flush.h"
#include "verbs/queue.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_ahead_store;
struct dt_gpu;
struct dt_landings;
struct dt_line;
struct dt_nic;
struct dt_shadow;
struct dt_stage;
struct dt_staged;

/* ------------------------------------------------------------------------------------------------------------
 * A path: one device at this end, and its queue pairs.
 */
enum dt_path_state {
    DT_PATH_NONE, /* not to be used: it could not be set up, or it is suspect, or failed; see `machine` */
    DT_PATH_LISTENING, /* receiver: takes what comes, but nothing is written to the peer over it yet */
    DT_PATH_UP
};

/* What the control thread is asked to do by failover (path.h). */
enum dt_path_op { DT_PATH_OP_FENCE, DT_PATH_OP_DESTROY, DT_PATH_OP_MAKE, DT_PATH_OP_LINK, DT_PATH_OP_QUERY };
enum dt_path_op_state { DT_PATH_OP_IS_IDLE, DT_PATH_OP_IS_BUSY, DT_PATH_OP_IS_DONE };

struct dt_path_queues;

struct dt_path {
    struct dt_connection *connection;
    struct dt_nic *nic;
    uint32_t index;
    uint32_t backup_kind; /* enum dt_backup_kind */
    uint32_t state;       /* enum dt_path_state [owner] */
    bool is_polled;       /* receiver: it may bring something [owner] */
    uint32_t epoch;       /* [owner] */
    uint32_t qp_count;

    struct dt_qp *qp[DT_QPS_MAX];
    struct dt_cq *send_cq[DT_QPS_MAX]; /* one each: a `dv` queue pair needs its own */
    struct dt_cq *recv_cq;
    uint64_t
        payload_id[DT_QPS_MAX]; /* wr_id of a payload write of this epoch, without its sequence [owner] */
    uint32_t inline_bytes;

    uint32_t recv_used[DT_QPS_MAX]; /* blank receives consumed since the last batch [owner] */
    uint32_t cts_posted;            /* clear-to-send writes, counted modulo 2^32 [owner] */
    uint32_t cts_done;              /* of them, known to be complete [owner] */

    /*
     * Control memory, registered on this path's device. Sender: the CTS ring that the peer writes. Receiver:
     * the rows it writes from, then the size records that the peer writes.
     */
    uint8_t *control;
    size_t control_bytes;
    struct dt_mr *control_mr;
    struct dt_mr *staging_mr; /* sender: the host path's memory, or NULL */
    struct dt_mr *ahead_mr;   /* receiver: what it grants (ahead.h), or NULL */
    uint64_t verbs_ns;        /* that control verbs took to set it up [control thread, then constant] */
    uint64_t peer_control_addr;
    uint32_t peer_control_rkey;

    /* A queue pair of its own for questions about the path's health; never used for data. */
    struct dt_qp *probe;
    struct dt_cq *probe_cq;

    struct dt_flush *flush;     /* receiver: loopback reads; made when first needed [atomic pointer] */
    uint32_t flush_outstanding; /* [owner] */
    bool is_flush_broken;       /* until the next epoch [owner] */
    uint32_t
        is_flush_refused; /* the device refused to make `flush`, and nobody has attended to it [atomic] */

    char peer_device[DT_NAME_BYTES];
    struct dt_qp_address peer_qp[DT_QPS_MAX];
    struct dt_qp_address peer_probe;

    /* ---- failover (switch.h) */

    /* Why it is suspect, each with its bit in connection->faults, written before the bit. */
    struct dt_completion bad_completion; /* [owner] */
    const char *refusal;                 /* what the device refused [owner] */
    struct dt_device_event device_event; /* [detour, or the thread of the path's device, under nic->mutex] */

    struct dt_path_machine machine; /* [detour], like all below */
    struct dt_fence fence;
    uint64_t look_ns; /* for the proof of the fence, and how long to the next time */
    uint64_t look_period_ns;
    struct dt_recovery recovery;
    struct dt_stall stall;
    bool is_used;                    /* this epoch was UP */
    bool is_open;                    /* receiver: something may have come over this epoch */
    bool is_destroy_wanted;          /* by the fence, as soon as the control thread is free */
    bool is_destroying;              /* queue pairs of this epoch, for the fence */
    uint32_t marker_mask;            /* queue pairs whose marker is posted */
    bool is_fence_wanted;            /* as soon as op_state is IDLE */
    struct dt_resume resume;         /* receiver: what it has; sender: what the receiver said it has */
    uint64_t settled_ns;             /* sender: the last epoch that is settled was so then */
    struct dt_path_offer peer_offer; /* of the last OPEN or OPENED */
    struct dt_path_queues *fresh;    /* made, not in use yet */
    struct dt_path_queues *doomed;   /* being destroyed */
    struct dt_list retired;          /* struct dt_path_queues: earlier epochs', in the error state */
    uint32_t make_epoch;
    uint32_t stopped_qpn; /* of the last QUERY, the job's until it is done: a queue pair in the error state,
                             or 0 */
    uint32_t silent_qpn;  /* the same of the last one that was taken and found one */
    uint32_t op;          /* enum dt_path_op */
    enum dt_status op_status;
    uint32_t op_state;      /* enum dt_path_op_state [atomic] */
    char why[DT_WHY_BYTES]; /* it failed */
    struct dt_switch_report report;

    /* What the control thread of the device does with the path, each at most once at a time (path.h). */
    struct dt_job create_job;
    struct dt_job link_job;
    struct dt_job fence_job;
    struct dt_job flush_job;
    struct dt_job destroy_job;
    struct dt_job op_job;
};

/* ------------------------------------------------------------------------------------------------------------
 * Requests and memory
 */
enum dt_request_kind {
    DT_REQUEST_SEND,
    DT_REQUEST_RECEIVE,
    DT_REQUEST_FLUSH,
    DT_REQUEST_STAGED,  /* a send that goes over the host path */
    DT_REQUEST_BESIDE,  /* one of the same connection that goes directly */
    DT_REQUEST_LANDING, /* a receive that may have to be copied to a GPU (landing.h) */
    DT_REQUEST_AHEAD    /* one whose message may be at this end already (ahead.h) */
};

struct dt_request {
    struct dt_connection *connection;
    uint8_t kind; /* enum dt_request_kind */
    uint8_t part; /* of a send */
    bool is_open; /* given out and not yet reported done */
    bool is_done;
    uint32_t slot;
};

struct dt_memory {
    struct dt_list node;  /* in connection->memories */
    bool is_deregistered; /* but requests were open: the connection is over */
    bool is_host;         /* the CPU may read it: small payloads are sent inline */
    struct dt_gpu *gpu;   /* sender: whose memory it is, if it can be staged from there; or NULL */
    uint64_t addr;
    uint64_t bytes;
    struct dt_mr *mr[DT_PATHS_MAX]; /* NULL where the path has no device or its device refused */
    uint32_t path_mask;             /* where it is not NULL */
    uint32_t shadow_mask;           /* of them, those of the shadow: nothing is written to the GPU itself */
    struct dt_shadow *shadow;       /* receiver (landing.h); or NULL */
    uint32_t open;                  /* messages that may touch it now [atomic; written by the owner] */
    uint32_t written_mask;          /* paths over which it was ever written, also in part [owner] */
};

/* ------------------------------------------------------------------------------------------------------------
 * Connections
 */

/* What Detour's thread has found out and the owner must attend to; bits are set for ever. */
enum dt_notice {
    DT_NOTICE_PEER_CLOSED = 1, /* peer_close_sequence is valid */
    DT_NOTICE_PEER_LOST = 2,   /* the peer is dead, or has closed and owes messages */
    DT_NOTICE_PEER_BROKEN = 4, /* the peer sent what it must not */
    /* These two are never attended to, so they are seen by every call. */
    DT_NOTICE_ABANDONED = 32, /* memory was deregistered with requests open */
    DT_NOTICE_FAILING = 64,   /* it was decided that the connection fails */
    /* Messages wait to be posted again, or receives to be published again. Taken back when none is left;
       until then every call attends to it. */
    DT_NOTICE_AGAIN = 128,
    /* The sender has a stage (staging.h), or the receiver memory with a shadow (landing.h) or granted memory
       (ahead.h). Set and attended to for good, so that isend and irecv find it without looking for it. */
    DT_NOTICE_STAGED = 256
};

/* Why a path is suspect: bit FAULT + path of connection->faults. */
enum dt_fault {
    DT_FAULT_COMPLETION = 0, /* path->bad_completion */
    DT_FAULT_REFUSED = 8,    /* path->refusal */
    DT_FAULT_EVENT = 16,     /* path->device_event */
    DT_FAULT_ORDER = 24      /* path->nic->is_away */
};

/* Why Detour's thread takes a connection. */
enum dt_claim { DT_CLAIM_SWITCH = 1, DT_CLAIM_TAKEOVER = 2 };

struct dt_connection {
    /* The data path's own, first. */
    struct dt_owner owner;
    uint32_t notices;       /* enum dt_notice [atomic] */
    uint32_t error;         /* enum dt_status: what calls return from now on [atomic] */
    uint32_t open_requests; /* [atomic; written by the owner] */
    uint32_t completions; /* a number that changes when something completes [atomic; written by the owner] */
    uint32_t attended;    /* notices that the owner has dealt with [owner] */
    uint32_t failing;     /* enum dt_status: decided, queue pairs not fenced yet [atomic] */
    bool is_sender;
    struct dt_path *current; /* the path for new messages, or NULL: none is up [owner] */
    uint32_t path_count;
    uint32_t qps;
    uint32_t slots;
    uint32_t chunk_bytes;
    struct dt_path path[DT_PATHS_MAX];

    struct dt_net *net;
    struct dt_nic *nic;            /* the default device: path 0's */
    uint64_t id;                   /* the same at both ends, for the logs */
    uint32_t version;              /* of the control protocol that both ends speak */
    char peer[DT_NAME_BYTES + 32]; /* "host:pid (device)" */

    struct dt_line *line; /* [detour], before that the set-up's; survives the connection */
    uint64_t peer_close_sequence;

    struct dt_list node;        /* in nic->connections [detour] */
    bool is_linked;             /* [detour] */
    uint32_t visits_seen;       /* [detour] */
    uint64_t idle_since_ns;     /* visits have not changed since, and it was not taken over [detour] */
    uint32_t completions_seen;  /* [detour] */
    bool is_peer_lost;          /* it is dead [detour] */
    uint64_t progress_ns;       /* when a completion was last noticed, or the connection was idle [atomic] */
    uint64_t peer_lost_ns;      /* when something was last completed since [detour] */
    uint64_t fence_deadline_ns; /* 0: no fence was started [detour] */
    uint32_t faults;            /* enum dt_fault, by path [atomic] */
    uint32_t hints;             /* paths that may be well again [atomic] */
    bool has_switched;          /* a path was not UP at some time [owner] */
    bool is_switching;          /* a path is not UP: the switch has to look [detour] */
    bool is_heard;              /* `heard` is to be attended to [detour] */
    uint32_t claims;            /* enum dt_claim: what it is taken for in this round (owner.h) [detour] */
    uint32_t heard_type;        /* enum dt_frame_type: PATH, ASK or HAS [detour] */
    struct dt_path_frame heard; /* what the peer said about a path [detour] */
    struct dt_fact heard_fact;  /* or about a message [detour] */
    uint64_t watched_ns;        /* when the paths were last looked at for grey failure [detour] */
    uint64_t waiting_ns;        /* NCCL has called, and nothing was open, since [detour] */
    uint64_t pathless_ns;       /* no path is UP since; 0: one is [detour] */
    bool is_closed;             /* by NCCL, while messages are staged [detour] */
    uint64_t linger_until_ns;   /* 0: not seen yet [detour] */
    uint32_t fences_pending;    /* paths whose fence is still to come [atomic] */
    uint32_t setup_pending;     /* paths whose create or link job is still to come [atomic] */

    pthread_mutex_t memory_mutex;
    struct dt_list memories;
    struct dt_meter meter;
    uint32_t references; /* control jobs that hold the connection, and one for its life [atomic] */
};

/* ---- a sender */
enum dt_send_state {
    DT_SEND_FREE,
    DT_SEND_MATCHING, /* its CTS is here; waits for an isend for each part */
    DT_SEND_READY,    /* waits for room in the send queues */
    DT_SEND_BEGUN,    /* its first writes are posted; waits for what is still being copied (overlap.h) */
    DT_SEND_POSTED,   /* waits for the last completion of each queue pair */
    DT_SEND_DONE      /* waits for the test of each part */
};

struct dt_send_part {
    struct dt_request request;
    uint64_t addr;
    struct dt_memory *memory; /* or NULL: no bytes */
    uint32_t bytes;
    struct dt_staged *staged; /* staging.h: if its bit is in staged_mask */
};

struct dt_send_slot {
    uint64_t sequence;
    uint8_t state; /* enum dt_send_state */
    uint8_t parts;
    uint8_t taken_mask;  /* parts that have their isend */
    uint8_t staged_mask; /* of them, those whose payload is staged, until it is delivered */
    uint8_t missing;     /* parts that do not */
    uint8_t reported;    /* parts whose test said done, or that were staged and are delivered */
    uint8_t path;        /* it was posted on */
    uint8_t qps_left;    /* completions to come */
    bool is_taken;       /* its payload went ahead: what is or was posted is the word for it (ahead.h) */
    uint8_t taken_place; /* is_taken: from there */
    uint32_t epoch;      /* of that path */
    uint32_t taken_generation; /* by this use of it; 0: it was released already */
    uint32_t begun_bytes;      /* BEGUN: bytes that are posted */
    uint64_t wanted;           /* stamps for the meter */
    uint64_t handed;
    struct dt_cts_entry entry[DT_PARTS_MAX];
    struct dt_send_part part[DT_PARTS_MAX];
};

struct dt_sender {
    struct dt_connection connection;
    uint64_t next;          /* message that the next isend belongs to [atomic; written by the owner] */
    uint64_t next_post;     /* first message that was never posted; <= next */
    uint32_t again;         /* messages before it that are to be posted again: READY */
    struct dt_gate gate;    /* READY messages may have to wait there */
    struct dt_stage *stage; /* or NULL: everything goes directly */
    struct dt_health health;
    struct dt_send_slot slot[DT_SLOTS_MAX];
};

/* ---- a receiver */
enum dt_recv_state {
    DT_RECV_FREE,
    DT_RECV_OPEN, /* its CTS is out; waits for all shares of all parts */
    DT_RECV_DONE  /* waits for its test */
};

struct dt_recv_slot {
    uint64_t sequence;
    struct dt_request request;
    uint8_t state; /* enum dt_recv_state */
    uint8_t parts;
    /* That its CTS went over; DT_PATHS_MAX more: that path failed, it is to go over another. Once the message
       is done: the path that brought it. */
    uint8_t path;
    uint32_t capacity[DT_PARTS_MAX];
    uint32_t bytes[DT_PARTS_MAX]; /* received */
    struct dt_memory *memory[DT_PARTS_MAX];
    struct dt_arrivals arrivals[DT_PATHS_MAX];
};

#define DT_FLUSHES_MAX 64

struct dt_flush_slot {
    struct dt_request request;
    uint64_t addr[DT_PATHS_MAX]; /* what is read over each path of left_mask */
    struct dt_memory *memory[DT_PATHS_MAX];
    uint32_t wanted_mask; /* paths whose read is still to be posted */
    uint32_t left_mask;   /* paths whose read is not complete */
    uint32_t lost_mask;   /* of them, those that cannot read any more: CUDA has to flush what they wrote */
};

/* CUDA's own flush, for one request after the other. The job has all of it while is_busy. */
struct dt_lost_flush {
    struct dt_job job;
    struct dt_receiver *receiver;
    struct dt_flush_slot *slot;
    uint32_t path_mask;           /* the slot's lost_mask when it began */
    uint32_t over_mask;           /* paths that were fenced then */
    uint32_t epoch[DT_PATHS_MAX]; /* of the paths, then */
    bool is_busy;                 /* [owner] */
    uint32_t is_answered;         /* `status` and `reason` are valid [atomic] */
    enum dt_status status;
    char reason[160];
};

struct dt_receiver {
    struct dt_connection connection;
    uint64_t next;       /* sequence of the next irecv */
    uint32_t cts_period; /* of the clear-to-send writes every n-th is signalled */
    uint32_t idle_polls;
    uint32_t again; /* open receives that are to be published again */
    struct dt_recv_slot slot[DT_SLOTS_MAX];
    uint32_t flush_wanted_mask; /* paths that need a loopback queue pair [atomic] */
    uint32_t flush_made_mask;   /* of them, those whose job was submitted [detour] */
    uint32_t flush_next;
    uint32_t flush_open;
    uint32_t beside_open; /* what is open beside plain receives: flushes, landings that are not over, copies
                             of what came ahead */
    struct dt_landings *landings; /* or NULL: no memory has a shadow (landing.h) */
    struct dt_ahead_store *ahead; /* or NULL: nothing is granted (ahead.h) */
    struct dt_flush_slot flush[DT_FLUSHES_MAX];
    struct dt_lost_flush lost;
};

static inline struct dt_sender *dt_sender_of(struct dt_connection *connection)
{
    return dt_container_of(connection, struct dt_sender, connection);
}

static inline struct dt_receiver *dt_receiver_of(struct dt_connection *connection)
{
    return dt_container_of(connection, struct dt_receiver, connection);
}

static inline struct dt_memory *dt_memory_of_node(struct dt_list *node)
{
    return dt_container_of(node, struct dt_memory, node);
}

/* A plain counter of the owner's that others may look at. */
static inline void dt_count(uint32_t *counter, uint32_t by)
{
    dt_store_release(counter, *counter + by);
}

/* Control memory: what lies where. */
static inline size_t dt_cts_ring_bytes(uint32_t slots)
{
    return slots * sizeof(struct dt_cts_row);
}

static inline size_t dt_record_offset(uint32_t slots, uint64_t sequence, uint32_t part)
{
    return dt_cts_ring_bytes(slots) + ((sequence & (slots - 1)) * DT_PARTS_MAX + part) * sizeof(uint64_t);
}

/* At the end of each control memory: what probes carry, and where they are written. */
#define DT_PROBE_BYTES 4096u

/* From what the peer named as its control memory to the place for our probes. */
static inline size_t dt_peer_probe_offset(bool is_sender, uint32_t slots)
{
    return is_sender ? (size_t)slots * DT_PARTS_MAX * sizeof(uint64_t) : dt_cts_ring_bytes(slots);
}

/* ------------------------------------------------------------------------------------------------------------
 * Functions on both kinds
 */

/* A new one, with nothing but memory. NULL: out of memory. One reference, the caller's. */
struct dt_connection *dt_connection_create(struct dt_net *net, struct dt_nic *nic, bool is_sender);

/* Gives a reference back; the last frees it. */
void dt_connection_release(struct dt_connection *connection);

/* setup.c: says goodbye and frees what the connection has, in the background where it may block. Nobody else
 * touches it any more. */
void dt_connection_end(struct dt_connection *connection);

/* Owner: chooses the path for new messages, after the state of one has changed. */
void dt_connection_choose_path(struct dt_connection *connection);

/* The name of a path's device at this end, for messages. */
const char *dt_path_name(const struct dt_path *path);

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

/* Owner: deals with new notices. DT_OK: the connection goes on; DT_AGAIN: it is failing, nothing can be
 * answered yet; else what it failed with. */
__attribute__((cold)) enum dt_status dt_connection_attend(struct dt_connection *connection);

/* Owner: polls what has to be polled, completes what is complete. */
void dt_connection_progress(struct dt_connection *connection);

/* What a data call asks first of all, with dt_connection_attend()'s answers. Owner. */
static inline enum dt_status dt_connection_check(struct dt_connection *c)
{
    if (__builtin_expect(dt_load_acquire(&c->notices) == c->attended, 1))
        return DT_OK;
    return dt_connection_attend(c);
}

/* Any thread: a path is suspect; what `fault` refers to was written before. Detour's thread is woken. */
__attribute__((cold)) void dt_connection_suspect(struct dt_connection *connection, struct dt_path *path,
                                                 enum dt_fault fault);

/* Any thread: adds a notice. What it refers to was written before. */
static inline void dt_connection_notify(struct dt_connection *c, uint32_t notice)
{
    __atomic_fetch_or(&c->notices, notice, __ATOMIC_ACQ_REL);
}

/* First message that is not complete. Only when nobody else owns the connection. */
uint64_t dt_sender_first_incomplete(const struct dt_sender *sender);
uint64_t dt_receiver_first_incomplete(const struct dt_receiver *receiver);
/* The same, but what went ahead of a message and was taken counts, though its word has not come. */
uint64_t dt_receiver_first_missing(const struct dt_receiver *receiver);

/* memory.c: gives the regions back, if that was not done. */
void dt_memory_deregister_all(struct dt_connection *connection, struct dt_memory *memory);

/* sender.c, sender_shares.c, receiver.c: what the switch needs of them. Owner. */
void dt_sender_init(struct dt_sender *sender); /* what a request says of its place never changes */
void dt_sender_complete(struct dt_sender *sender, struct dt_send_slot *slot);
void dt_sender_handle(struct dt_sender *sender, struct dt_path *path, const struct dt_completion *completion);
void dt_sender_post_again(struct dt_sender *sender);
/* Where the message is to go now, or NULL. */
struct dt_path *dt_sender_path_for(struct dt_sender *sender, const struct dt_send_slot *slot);
/* For so many work requests, on each queue pair. */
bool dt_sender_has_room(const struct dt_path *path, uint32_t writes);
/* All that the message has on queue pair q; does not ring. There is room for it. */
enum dt_status dt_sender_post_shares(struct dt_path *path, uint32_t q, const struct dt_send_slot *slot);
/* Posts all that the message has, and rings. DT_FULL: no room now. Any other error: part of it may be posted.
 */
enum dt_status dt_sender_post_all(struct dt_path *path, const struct dt_send_slot *slot);
/* Of a message of one part on one queue pair, of which the first `posted_bytes` are posted: the rest,
 * in one write, and what tells the receiver. Does not ring. There is room for it. */
enum dt_status dt_sender_post_last(struct dt_path *path, const struct dt_send_slot *slot,
                                   uint32_t posted_bytes);
void dt_sender_mark_posted(const struct dt_path *path, struct dt_send_slot *slot);
/* sender.c: what staging needs of it. Owner. The message that isends belong to now, or NULL: there is none.
 */
struct dt_send_slot *dt_sender_matching_slot(struct dt_sender *sender);
/* Its first free part with this tag, or -1. */
int dt_sender_find_part(const struct dt_send_slot *slot, int tag);
/* So many bytes fit there; if not, the connection fails. */
bool dt_sender_fits(struct dt_sender *sender, const struct dt_send_slot *slot, int part, uint32_t bytes);
/* It has all its parts: it goes out as soon as it can. */
void dt_sender_hand_over(struct dt_sender *sender, struct dt_send_slot *slot);
/* isend without staging. */
enum dt_status dt_sender_isend_direct(struct dt_sender *sender, void *data, uint32_t bytes, int tag,
                                      struct dt_memory *memory, struct dt_request **request);
void dt_receiver_handle(struct dt_receiver *receiver, struct dt_path *path,
                        const struct dt_completion *completion);
void dt_receiver_publish_again(struct dt_receiver *receiver);
/* A receive that is done is reported: its slot is free, `bytes` (or NULL) gets what came. */
void dt_receiver_report(struct dt_receiver *receiver, struct dt_recv_slot *slot, int *bytes);
/* flush.c: this path's device cannot read any more; or it has a new loopback queue pair coming, which can:
 * true when there is something to read. */
void dt_receiver_flush_lose(struct dt_receiver *receiver, struct dt_path *path);
bool dt_receiver_flush_renew(struct dt_receiver *receiver, struct dt_path *path);

/* sender.c, receiver.c, flush.c: the parts of the functions above that depend on the kind. */
void dt_sender_progress(struct dt_sender *sender);
void dt_sender_peer_closed(struct dt_sender *sender, uint64_t sequence);
void dt_receiver_progress(struct dt_receiver *receiver);
void dt_receiver_peer_closed(struct dt_receiver *receiver, uint64_t sequence);
void dt_receiver_flush_progress(struct dt_receiver *receiver);

enum dt_status dt_send_test(struct dt_request *request, int *done, int *bytes);
enum dt_status dt_receive_test(struct dt_request *request, int *done, int *bytes);
enum dt_status dt_flush_test(struct dt_request *request, int *done, int *bytes);

#ifdef __cplusplus
}
#endif

#endif
