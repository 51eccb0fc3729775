/* SPDX-License-Identifier: Apache-2.0 */
/* The structs behind the opaque types of verbs.h, device.h and queue.h. For verbs/ only. */
#ifndef DETOUR_VERBS_OBJECT_H
#define DETOUR_VERBS_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include <pthread.h>

#include "base/check.h"
#include "verbs/device.h"
#include "verbs/fault_layer.h"
#include "verbs/gid_wish.h"
#include "verbs/mr_cache.h"
#include "verbs/queue.h"
#include "verbs/table.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_verbs {
    struct dt_verbs_table table;
    bool has_gid_index; /* dt_verbs_options */
    uint32_t gid_index;
    uint32_t flid_gid_index;
    uint32_t pkey_index;
    uint32_t pkey_value;
    struct dt_gid_wish gid_wish;
    char mlx5_library[256]; /* to load when table.mlx5_init_object is needed and NULL */
};

struct dt_device {
    struct dt_verbs *verbs;
    struct dt_device_info info;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct dt_fault_layer faults; /* QPs, CQs and regions are made through dt_fault_table */
    struct dt_mr_cache *mr_cache; /* of the newest of all that were opened one after the other */
    struct dt_device *before;     /* the same device before it was removed, or NULL; belongs to this one */
    uint32_t generation;          /* how many there were before */
    uint32_t objects;             /* queue pairs and completion queues that are not destroyed [atomic] */
    bool is_closed;               /* its context is: the first one, which still answers for memory */
    uint64_t sysfs_inode;         /* of its folder in sysfs when it was opened; 0: it has none */
    uint32_t pkey_place; /* pkey.h: of verbs->pkey_value, plus one; 0: not looked up [control thread] */
    enum dt_status logged_pkey; /* failure of the last search, which was logged, or DT_OK [control thread] */
    bool has_lost_events;       /* they cannot be read any more [the thread that reads them] */
    bool logged_dv;             /* that dv posts here, on ConnectX */
    bool logged_gone;           /* that memory was not registered, since it was removed [atomic] */
};

/* Of an opened context: its event descriptor, fault layer and protection domain (device_open.c). One WARN. */
enum dt_status dt_device_set_up(struct dt_device *device);
/* Undoes it. An error of a removed device is not logged: the kernel has freed what was there. */
void dt_device_tear_down(struct dt_device *device);
/* That, and closes the context. */
void dt_device_close_context(struct dt_device *device);
uint64_t dt_device_sysfs_inode(const struct dt_device *device);

/* How a device's cache registers regions (memory.c); the argument is the struct dt_device. */
extern const struct dt_mr_cache_ops dt_device_mr_ops;

#define DT_CQ_QPS_MAX 128

/*
 * wr_id as the library sees it (std; and receives of both back ends):
 *
 *   63     0 send, 1 receive
 *   62-48  generation of the CQ's entry, so that completions of a destroyed QP are recognized
 *   47-32  the QP's entry in the CQ's table
 *   31-0   send: its slot, counted freely; receive: 0
 *
 * A `key` is the upper half. Send completions of dv carry the block index instead; their CQ has one QP.
 */
#define DT_KEY_RECV 0x80000000u

static inline uint32_t dt_key_make(bool is_recv, uint32_t generation, uint32_t entry)
{
    return (is_recv ? DT_KEY_RECV : 0) | (generation & 0x7fff) << 16 | entry;
}

static inline uint32_t dt_key_entry(uint32_t key)
{
    return key & 0xffff;
}

struct dt_cq {
    struct dt_device *device;
    struct ibv_cq *ibv;
    bool failed;             /* the poller's */
    bool is_dv;              /* was given to a QP of dv, for good; under lock */
    struct dt_qp *dv_qp;     /* that QP; NULL after its destruction */
    struct dt_mlx5_cq *mlx5; /* NULL: the library polls. Set once, read by the poller with acquire */
    pthread_mutex_t lock;    /* attaching and detaching; the poller takes none */
    uint32_t generations[DT_CQ_QPS_MAX];
    struct dt_qp *qps[DT_CQ_QPS_MAX]; /* read by the poller with acquire */
};

/* One work request between posting and completion. */
struct dt_send_slot {
    uint64_t wr_id;
    uint32_t ordinal; /* which work request of the QP, counted freely */
};

struct dt_posting;

/* `posted` and below belong to the owner (queue.h, "Threads"). Counters run freely and wrap. */
struct dt_qp {
    struct dt_device *device;
    struct ibv_qp *ibv;
    struct ibv_td *td;     /* dv on ConnectX: for a doorbell register of its own; else NULL */
    struct ibv_pd *domain; /* with td, over the device's; NULL: the device's */
    struct dt_fault_qp fault;
    const struct dt_posting *posting;
    struct dt_cq *send_cq;
    struct dt_cq *recv_cq;
    uint64_t recv_wr_id;
    uint32_t send_key; /* entry in send_cq (std) */
    uint32_t recv_key; /* entry in recv_cq */
    uint32_t qpn;
    uint32_t psn;
    struct dt_qp_address
        local; /* from the device's info at creation; dt_device_refresh may change that later */
    uint32_t sq_depth;
    uint32_t rq_depth;
    uint32_t inline_bytes;

    uint32_t posted;    /* work requests */
    uint32_t completed; /* all before this one are known to be complete */
    uint32_t recv_posted;
    uint32_t recv_completed;
    struct dt_send_slot *slots; /* std: by ordinal; dv: by first block */
    uint32_t slot_mask;
    bool refused;            /* a refusal was logged */
    bool is_destroy_refused; /* the same of its destruction [control thread] */
    bool is_ece_refused;     /* [control thread] */
    bool is_rtr;             /* it has been in RTR: the control thread's, and the next one */
    bool is_connected;       /* the same of RTS */

    /* dv */
    struct dt_dv_queue queue;
    uint32_t block_head;      /* next block to write */
    uint32_t block_rung;      /* block_head at the last doorbell */
    uint32_t block_last;      /* where the newest element begins */
    uint32_t doorbell_offset; /* of the register to be written next, in bytes */
};

/* ibv_poll_cq() and so on. Faults exchange the operations while others call them (fault_layer.h). */
static inline int dt_ibv_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wcs)
{
    return dt_load_relaxed(&cq->context->ops.poll_cq)(cq, count, wcs);
}

static inline int dt_ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    return dt_load_relaxed(&qp->context->ops.post_send)(qp, wr, bad);
}

static inline int dt_ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    return dt_load_relaxed(&qp->context->ops.post_recv)(qp, wr, bad);
}

/* Makes `qp` known to a CQ; *key is then its key there. DT_FULL: more than DT_CQ_QPS_MAX QPs. */
enum dt_status dt_cq_attach(struct dt_cq *cq, struct dt_qp *qp, bool is_recv, uint32_t *key);
void dt_cq_detach(struct dt_cq *cq, uint32_t key);

/* Gives the send side of a CQ to one QP of dv. DT_INVALID: a QP uses it or has used it. */
enum dt_status dt_cq_attach_dv(struct dt_cq *cq, struct dt_qp *qp);
void dt_cq_detach_dv(struct dt_cq *cq);

#ifdef __cplusplus
}
#endif

#endif
