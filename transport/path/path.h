/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A path, and the life of its queue pairs as tasks of its device's control thread: create, link to the
 * peer's, fence, destroy. Each submit takes a reference to the path's group until its task has finished.
 */
#ifndef DETOUR_TRANSPORT_PATH_PATH_H
#define DETOUR_TRANSPORT_PATH_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomics.h"
#include "base/limits.h"
#include "base/list.h"
#include "failover/fence.h"
#include "failover/path_machine.h"
#include "transport/path/executor.h"
#include "transport/path/nic.h"
#include "transport/protocol/frames.h"
#include "verbs/device.h"
#include "verbs/flush.h"
#include "verbs/queue.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_connection;
struct dt_last_receives;
struct dt_path_group;
struct dt_path_queues;
struct dt_path_switchover;

enum dt_path_state {
    DT_PATH_NONE,      /* not in use: could not be set up, is suspect, or has failed; see `machine` */
    DT_PATH_LISTENING, /* receiver: accepts arrivals, but does not write to the peer over it yet */
    DT_PATH_UP
};

/* Tasks of the control thread for failover (dt_path_submit_op). */
enum dt_path_op { DT_PATH_OP_FENCE, DT_PATH_OP_DESTROY, DT_PATH_OP_MAKE, DT_PATH_OP_LINK, DT_PATH_OP_QUERY };
enum dt_path_op_state { DT_PATH_OP_IS_IDLE, DT_PATH_OP_IS_BUSY, DT_PATH_OP_IS_DONE };

/*
 * The create or link task of set-up. Its end and the set-up's decision to go on without it exclude each
 * other: IDLE -> BUSY -> TAKEN -> IDLE, or IDLE -> BUSY -> LATE -> IDLE.
 */
enum dt_path_setup {
    DT_PATH_SETUP_IDLE,
    DT_PATH_SETUP_BUSY,
    DT_PATH_SETUP_TAKEN, /* the task has ended in time and writes its result */
    DT_PATH_SETUP_LATE   /* set-up went on without it: its result is dropped */
};

/* One device at this end, its peer at the other, and the queue pairs between them. */
struct dt_path {
    struct dt_connection *connection; /* for the modules above */
    struct dt_path_group *group;
    struct dt_nic *nic;
    uint32_t index;       /* in the connection's array of paths */
    uint32_t backup_kind; /* enum dt_backup_kind */
    uint32_t state;       /* enum dt_path_state [owner] */
    uint32_t is_drained;  /* administratively out of use, whatever its device is [atomic] */
    bool is_polled;       /* receiver: arrivals are possible [owner] */
    uint32_t epoch;       /* [owner] */
    uint32_t qp_count;
    uint32_t share_count;   /* connection->shares */
    uint64_t whole_message; /* receiver: dt_arrivals_whole() of them */

    struct dt_qp *qp[DT_QPS_MAX];
    struct dt_cq *send_cq[DT_QPS_MAX]; /* one each: a `dv` queue pair needs its own */
    struct dt_cq *recv_cq;
    /* wr_id of a payload write of this epoch, without its sequence [owner] */
    uint64_t payload_id[DT_QPS_MAX];
    uint32_t inline_bytes;

    uint32_t recv_used[DT_QPS_MAX]; /* zero-length receives consumed since the last batch [owner] */
    uint32_t cts_posted;            /* clear-to-send writes, counted modulo 2^32 [owner] */
    uint32_t cts_done;              /* of them, known to be complete [owner] */

    /* Control memory (protocol/memory_layout.h), registered on this path's device. */
    uint8_t *control;
    size_t control_bytes;
    struct dt_mr *control_mr;
    struct dt_mr *staged_mr;    /* group->staged on this device, or NULL */
    uint64_t verbs_ns;          /* that control verbs took at set-up [control thread, then constant] */
    enum dt_status link_status; /* of the last link task; DT_AGAIN: it may be repeated [the same] */
    uint32_t link_repeats;      /* [set-up] */
    uint32_t setup_state;       /* enum dt_path_setup [atomic] */
    bool is_fenced;             /* the fence task ran, maybe before a queued link task [control thread] */
    uint64_t peer_control_addr;
    uint32_t peer_control_rkey;
    uint32_t generation;      /* of the device that the queue pairs are on (dt_device_generation()) [owner] */
    uint32_t peer_generation; /* the same of the other end, from its last OPENED [owner] */
    /* The first message whose CTS entry has the receiver's present keys for this path; 0: the first of all.
       At the receiver its own, at the sender that of the last OPENED [owner]. */
    uint64_t keys_since;

    /* The queue pair of liveness probes and of frames in band; never used for data. */
    struct dt_qp *probe;
    struct dt_cq *probe_cq;
    uint64_t mail_sent;  /* frames written to the peer's mailbox, over all epochs (inband.h) [owner] */
    uint64_t mail_taken; /* sequence of the last frame taken from this end's [device thread] */

    struct dt_flush *flush;     /* receiver: loopback reads; made when first needed [atomic pointer] */
    uint32_t flush_outstanding; /* [owner] */
    bool is_flush_broken;       /* until the next epoch [owner] */
    uint32_t is_flush_refused;  /* the device refused to make `flush`; cleared by the owner [atomic] */
    uint32_t is_flush_queued;   /* the task that makes `flush` has not ended [atomic] */

    char peer_device[DT_NAME_BYTES];
    struct dt_qp_address peer_probe;
    struct dt_qp_numbers peer_qp[DT_QPS_MAX]; /* the rest of their addresses is that of `peer_probe` */
    struct dt_ece ece;      /* of each data queue pair: offered, then in use [control thread, then owner] */
    struct dt_ece peer_ece; /* of the last offer */

    /* Why it is suspect: each is written before its bit in connection->faults (enum dt_fault). */
    struct dt_completion bad_completion; /* [owner] */
    const char *refusal;                 /* the operation that the device refused [owner] */
    struct dt_device_event device_event; /* [device thread, or that of the path's device, under nic->mutex] */

    /* Failover [device thread]: the rules' state, and what failover/switchover keeps of it. */
    struct dt_path_machine machine;
    struct dt_fence fence;
    struct dt_path_switchover *switchover;

    /* The queue pairs of other epochs [device thread; the control thread while a task is under way]. */
    struct dt_path_offer peer_offer; /* of the last OPEN or OPENED */
    struct dt_path_queues *fresh;    /* made, not in use yet */
    struct dt_path_queues *doomed;   /* being destroyed */
    struct dt_list retired;          /* struct dt_path_queues: earlier epochs', in the error state */
    /* Receiver: what `doomed`, destroyed for the fence, had received until then; else NULL. */
    struct dt_last_receives *last_receives;
    uint32_t make_epoch;
    bool may_make;        /* MAKE: false if the path is drained and another path is up */
    uint32_t stopped_qpn; /* QUERY's answer: a queue pair in the error state, or 0 */
    uint32_t op;          /* enum dt_path_op */
    enum dt_status op_status;
    uint32_t op_state; /* enum dt_path_op_state [atomic] */

    /* Tasks of the device's control thread; each is queued at most once at a time. */
    struct dt_task create_task;
    struct dt_task link_task;
    struct dt_task fence_task;
    struct dt_task flush_task;
    struct dt_task destroy_task;
    struct dt_task op_task;
};

/* Memory that each device of a connection registers at set-up. */
struct dt_region {
    void *base;
    size_t bytes; /* 0: there is none */
    uint32_t access;
};

/*
 * State shared by the paths of one connection. A task of a control thread holds a reference until it has
 * finished.
 */
struct dt_path_group {
    struct dt_environment *environment;
    struct dt_nic *nic; /* the connection's default device: its device thread is woken when a task is done */
    bool is_sender;
    bool uses_ece; /* the setting, the library and the peer's version allow ECE */
    uint32_t slots;
    struct dt_region
        staged; /* the host path's memory: the pool of a sender, the eager places of a receiver */

    uint32_t references;     /* tasks that hold the connection, and one for its life [atomic] */
    uint32_t setup_pending;  /* paths whose create or link task is outstanding [atomic] */
    uint32_t fences_pending; /* paths whose fence task is outstanding [atomic] */
    void (*release)(struct dt_path_group *group); /* the last reference is gone: frees the connection */
    void (*fenced)(struct dt_path_group *group);  /* control thread: the last fence task is done */
};

/* Gives a reference back. */
void dt_path_group_release(struct dt_path_group *group);

/* The name of the path's device at this end, for messages. */
const char *dt_path_name(const struct dt_path *path);

/* Whether the path or its device is administratively out of use (transport/drain.c). Any thread. */
bool dt_path_is_drained(const struct dt_path *path);

/* Why a path is suspect: bit FAULT + path of connection->faults. */
enum dt_fault {
    DT_FAULT_COMPLETION = 0, /* path->bad_completion */
    DT_FAULT_REFUSED = 8,    /* path->refusal */
    DT_FAULT_EVENT = 16,     /* path->device_event */
    DT_FAULT_ADMIN = 24      /* dt_path_is_drained() */
};

/*
 * Creates completion queues, queue pairs and control memory, and posts the receiver's zero-length receives.
 * When group->setup_pending has come down, path->state is DT_PATH_UP if all of it was created.
 */
void dt_path_submit_create(struct dt_path *path);

/* Set-up: the path's create or link task has succeeded. */
static inline bool dt_path_is_set_up(const struct dt_path *path)
{
    return dt_load_acquire(&path->setup_state) == DT_PATH_SETUP_IDLE && path->state == DT_PATH_UP;
}

/*
 * Set-up goes on without the path's create or link task, which its device has not answered: the path's state
 * becomes NONE, as if the device had refused, and failover makes the path once the device answers. Without
 * effect on a task that has ended. True: the task was under way.
 */
bool dt_path_leave_setup(struct dt_path *path);

/* Describes the path for the peer. Its queue pairs exist if it is usable. */
void dt_path_get_offer(const struct dt_path *path, bool is_usable, struct dt_path_offer *offer);

/* Adopts the peer's description of the path. */
void dt_path_accept_offer(struct dt_path *path, const struct dt_path_offer *offer);

/* Connects the queue pairs to the peer's; afterwards path->state is as above, and UP where path->link_status
 * is DT_AGAIN: the task may be submitted again after a pause. */
void dt_path_submit_link(struct dt_path *path);

/*
 * For the end of a connection: moves the queue pairs to the error state, before queued tasks that are not
 * fences; then brings group->fences_pending down by one. A link task that runs later does nothing.
 */
void dt_path_submit_fence(struct dt_path *path);

/* The same on the calling thread. Blocks as the device does. */
void dt_path_fence(struct dt_path *path);

/* Makes path->flush. */
void dt_path_submit_flush(struct dt_path *path);

/* Fences the path and frees everything of it. */
void dt_path_submit_destroy(struct dt_path *path);

/*
 * One of failover's tasks; path->op_state becomes DONE, with path->op_status, and the device thread is woken.
 * One task at a time: op_state is IDLE. FENCE, and DESTROY during a fence, run before queued tasks that are
 * not fences.
 *
 *   FENCE    the queue pairs go to ERR, as far as the device does it
 *   DESTROY  path->doomed is destroyed and freed; completions of its receives until then are in
 *            path->last_receives, if the submitter has set it. DT_SYSTEM: the device refused to destroy a
 *            queue pair; path->doomed is still there, and the task may be repeated
 *   MAKE     path->fresh is made for path->make_epoch; at the receiver connected to path->peer_offer
 *   LINK     sender: the queue pairs in use are connected to path->peer_offer
 *   QUERY    is a queue pair in use in the error state? path->stopped_qpn
 */
void dt_path_submit_op(struct dt_path *path, enum dt_path_op op);

/* The submitter has taken the result of a DONE task: op_state becomes IDLE. */
void dt_path_finish_op(struct dt_path *path);

/*
 * Liveness probe: an RDMA write over the probe queue pair, whose completion has DT_WORK_PROBE. Of zero bytes
 * or, if `is_full`, of a full path MTU into the peer's probe area, since a fabric may lose large packets
 * alone. A probe that the device refuses is never answered.
 */
enum dt_status dt_path_send_probe(struct dt_path *path, bool is_full);

/*
 * Describes a failed work request of this path:
 * "queue pair 17 to 21: transport retry count exceeded (status 12, vendor_err 0x81)".
 */
void dt_path_describe_error(const struct dt_path *path, const struct dt_completion *bad, char *text,
                            size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
