/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the front: libibverbs' objects on top of the engine's. Each struct begins with the public one,
 * so that a pointer from the application is converted by the functions at the end of this file and nowhere
 * else.
 *
 * Locks, outermost first; the RNIC's lock is the driver's (driver.h):
 *     a CQ's (one consumer at a time), by address where two are needed
 *     a QP's send lock, its receive lock
 *     the RNIC's
 *     an event queue's
 */
#ifndef DETOUR_SOFTRNIC_FRONT_H
#define DETOUR_SOFTRNIC_FRONT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/list.h"
#include "base/util.h"
#include "softrnic/driver.h"
#include "softrnic/engine.h"
#include "softrnic/softrnic.h"
#include "softrnic/wqe.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- queues of events that are read through a file descriptor -------------------------------------------
 */

#define DT_FRONT_EVENTS_MAX 4096u /* unread port events beyond this are lost */

struct dt_front_events {
    int fd; /* an eventfd semaphore that counts the entries */
    pthread_mutex_t lock;
    struct dt_list entries;
    uint32_t count;
};

/*
 * Events about an object that were given to the application, which must acknowledge them before the object is
 * destroyed. The public structs hold the count of acknowledged events and the mutex and condition used here.
 */
struct dt_front_acks {
    uint32_t given;
    pthread_mutex_t *mutex;
    pthread_cond_t *cond;
    uint32_t *done;
};

struct dt_front_event {
    struct dt_list node;
    struct dt_front_acks *acks; /* of the object that it concerns; NULL: the device */
    struct ibv_async_event async;
};

int dt_front_events_init(struct dt_front_events *events); /* 0 or an errno */
void dt_front_events_free(struct dt_front_events *events);

/* Any lock may be held. */
void dt_front_events_push(struct dt_front_events *events, struct dt_front_acks *acks,
                          const struct ibv_async_event *async);

/*
 * Takes the next event, blocking unless the descriptor is non-blocking, and counts it as given under the
 * queue's lock, so that dt_front_events_forget misses none. 0 or an errno.
 */
int dt_front_events_pop(struct dt_front_events *events, struct ibv_async_event *async);

/* Removes all events about one object. */
void dt_front_events_forget(struct dt_front_events *events, const struct dt_front_acks *acks);

void dt_front_acks_done(struct dt_front_acks *acks, uint32_t count);
void dt_front_acks_wait(struct dt_front_acks *acks);
/* Counts all given events as acknowledged. */
void dt_front_acks_cancel(struct dt_front_acks *acks);

/* ---- objects --------------------------------------------------------------------------------------------
 */

struct dt_front_context {
    struct verbs_context verbs; /* the public part is its last field */
    struct dt_soft_device *device;
    struct dt_list node; /* on device->contexts */
    struct dt_front_events events;
    struct dt_list objects; /* in the order of creation; under the public part's mutex */
};

/* Part of every object of a context, for dt_soft_close_device(). */
struct dt_front_object {
    struct dt_list node; /* on context->objects */
    /* Destroys the object, even with unacknowledged events. */
    void (*destroy)(struct dt_front_object *object);
};

struct dt_front_pd {
    struct ibv_pd pd;
    struct dt_front_object object;
    uint32_t number;  /* its number in the engine */
    uint32_t objects; /* atomic: MRs and QPs */
};

struct dt_front_mr {
    struct ibv_mr mr;
    struct dt_front_object object;
};

struct dt_front_channel {
    struct ibv_comp_channel channel;
    struct dt_front_object object;
    struct dt_front_events events;
    uint32_t objects; /* atomic: CQs */
};

struct dt_front_cq {
    union {
        struct ibv_cq cq;
        struct ibv_cq_ex ex; /* begins alike */
    };
    struct dt_front_object object;
    struct dt_soft_device *device;
    struct dt_rnic_cq *engine;
    pthread_mutex_t lock; /* the consumer's */
    struct dt_front_acks comp_acks;
    struct dt_front_acks async_acks;
    uint32_t is_armed; /* atomic: the application waits on the channel */
    struct ibv_wc now; /* the current completion of ibv_start_poll */
};

/* The record of an element from posting to completion, indexed by its first block. */
struct dt_front_sent {
    uint64_t wr_id;
    uint32_t wr_number;
    uint32_t blocks;
};

struct dt_front_qp {
    struct ibv_qp_ex ex; /* begins with the struct ibv_qp */
    struct dt_front_object object;
    struct dt_soft_device *device;
    struct dt_rnic_qp *engine;
    struct ibv_qp_init_attr init; /* with the capabilities granted */
    uint64_t send_ops;            /* enum ibv_qp_create_send_ops_flags; 0: no ibv_wr_* */
    struct dt_front_acks async_acks;

    pthread_mutex_t send_lock;
    struct dt_wqe_ring ring;
    uint32_t *doorbell;
    struct dt_front_sent *sent; /* as many as the ring has blocks */
    uint16_t head;              /* next block to write */
    uint32_t wr_head;           /* work requests posted */
    uint32_t tail;              /* atomic: oldest block in use; 16 bits */
    uint32_t wr_tail;           /* atomic: work requests known to be complete */
    uint32_t is_dv;             /* atomic: the application owns the ring */
    uint64_t bf_reg;            /* stands for a doorbell register that the application may write */

    struct {
        struct dt_wqe_header header;
        uint64_t wr_id;
        uint16_t head; /* restored on an error */
        uint32_t wr_head;
        int error;
        bool is_open; /* an operation is noted, its data is not set yet */
    } builder;        /* of ibv_wr_*; under send_lock from start to complete */

    pthread_mutex_t recv_lock;
};

/* A user of `count` (a protection domain's or a channel's) comes or goes. */
static inline void dt_front_enter_user(uint32_t *count)
{
    dt_fetch_add_relaxed(count, 1);
}

static inline void dt_front_leave_user(uint32_t *count)
{
    uint32_t users = dt_fetch_sub_acq_rel(count, 1);

    DT_CHECK(users > 0);
}

/* ---- between the front's files --------------------------------------------------------------------------
 */

/* Fills the pointers of the context's tables that the device does not support (front_unsupported.c). */
void dt_front_fill_unsupported(struct verbs_context *verbs);

/* Adds an object that is ready for use to its context's list, or removes it (front_device.c). */
void dt_front_add_object(struct ibv_context *context, struct dt_front_object *object,
                         void (*destroy)(struct dt_front_object *object));
void dt_front_remove_object(struct ibv_context *context, struct dt_front_object *object);

/* front_cq.c */
int dt_front_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int dt_front_req_notify_cq(struct ibv_cq *cq, int solicited_only);
struct ibv_cq_ex *dt_front_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
void dt_front_notify(void *device, struct dt_rnic_cq *cq);
/* Takes, or releases, the consumer locks of both CQs of a QP. */
void dt_front_lock_cqs(struct dt_front_qp *qp);
void dt_front_unlock_cqs(struct dt_front_qp *qp);

/* front_qp.c */
struct ibv_qp *dt_front_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);

/* front_post.c */
int dt_front_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int dt_front_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/* The following are for front_post.c and front_wr.c, under the send lock. Can this QP send? 0 or EINVAL. */
int dt_front_may_send(const struct dt_front_qp *qp);
uint8_t dt_front_wqe_flags(const struct dt_front_qp *qp, unsigned send_flags);
/*
 * Appends one element without announcing it. 0; EINVAL: more segments or inline bytes than the QP's
 * capabilities allow; ENOMEM: no room.
 */
int dt_front_write_element(struct dt_front_qp *qp, uint64_t wr_id, const struct dt_wqe_header *header,
                           const struct dt_wqe_sge *sges, uint32_t sge_count, bool is_inline);
/* Stores the producer index in the doorbell record; dt_driver_ring must follow. */
void dt_front_announce(struct dt_front_qp *qp);

/* The largest element, in blocks, that these capabilities allow. */
uint32_t dt_front_blocks_per_wr(const struct ibv_qp_cap *cap);
/* The wr_id of a send completion; frees the room of its element. The CQ's consumer lock is held. */
uint64_t dt_front_retire(struct dt_front_qp *qp, uint16_t wqe_counter);

/* front_wr.c */
void dt_front_fill_wr_ops(struct dt_front_qp *qp);

/* front_event.c */
void dt_front_async(void *device, const struct dt_rnic_event *event);

/* ---- conversions ----------------------------------------------------------------------------------------
 */

static inline struct dt_front_context *dt_front_context_of(struct ibv_context *context)
{
    return dt_container_of(context, struct dt_front_context, verbs.context);
}

static inline struct dt_front_pd *dt_front_pd_of(struct ibv_pd *pd)
{
    return dt_container_of(pd, struct dt_front_pd, pd);
}

static inline struct dt_front_mr *dt_front_mr_of(struct ibv_mr *mr)
{
    return dt_container_of(mr, struct dt_front_mr, mr);
}

static inline struct dt_front_channel *dt_front_channel_of(struct ibv_comp_channel *channel)
{
    return dt_container_of(channel, struct dt_front_channel, channel);
}

static inline struct dt_front_cq *dt_front_cq_of(struct ibv_cq *cq)
{
    return dt_container_of(cq, struct dt_front_cq, cq);
}

static inline struct dt_front_cq *dt_front_cq_of_ex(struct ibv_cq_ex *cq)
{
    return dt_container_of(cq, struct dt_front_cq, ex);
}

static inline struct dt_front_qp *dt_front_qp_of(struct ibv_qp *qp)
{
    return dt_container_of(qp, struct dt_front_qp, ex.qp_base);
}

static inline struct dt_front_qp *dt_front_qp_of_ex(struct ibv_qp_ex *qp)
{
    return dt_container_of(qp, struct dt_front_qp, ex);
}

#ifdef __cplusplus
}
#endif

#endif
