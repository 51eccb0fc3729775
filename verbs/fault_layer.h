/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layer that implements fault.h. For verbs/ only.
 *
 * It has the interface of the verbs table: for queue pairs, completion queues and memory an opened device
 * calls `dt_fault_table` instead of the library's table; each function finds the device's layer by its
 * context and calls the table below. Posting and polling use the operations of the context, which the layer
 * replaces while a fault needs it. So the layer costs time where objects are created, changed and destroyed,
 * and nowhere else.
 */
#ifndef DETOUR_VERBS_FAULT_LAYER_H
#define DETOUR_VERBS_FAULT_LAYER_H

#include <pthread.h>
#include <stdbool.h>

#include "base/atomics.h"
#include "base/list.h"
#include "verbs/fault.h"
#include "verbs/table.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_mlx5_cq; /* mlx5_cq.h */

#define DT_FAULT_EVENTS_MAX 16
#define DT_FAULT_BUCKETS    256 /* a power of two */

/* A queue pair of the device; part of its struct dt_qp. */
struct dt_fault_qp {
    struct ibv_qp *ibv;
    bool is_connected;   /* RTR or RTS, as far as we know */
    bool is_broken;      /* a completion was turned into an error: it has no success any more */
    bool is_mute;        /* it has no completion at all */
    bool is_probe;       /* dt_qp_options: carries no messages */
    bool discards_sends; /* personality: successful completions become flushed work */
    bool discards_receives;
    bool ends_sends; /* the same, once the completion queue is empty */
    bool ends_receives;
    struct dt_list node;        /* in the layer's qps, the oldest first */
    struct dt_list bucket_node; /* among those whose number has the same last bits */
};

struct dt_fault_state {
    struct dt_device_fault fault;
    uint64_t left; /* remaining times that it acts */
};

struct dt_fault_layer {
    const struct dt_verbs_table *below;
    struct ibv_context *context;
    uint32_t port;
    int (*poll_cq)(struct ibv_cq *cq, int count, struct ibv_wc *wcs); /* of the context, as it came */
    int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
    int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
    struct dt_list node; /* among all layers */
    int event_fd;        /* readable when the context or the layer has an event */
    int raised_fd;

    pthread_mutex_t mutex; /* the rest */
    pthread_cond_t gone;   /* signaled when a fault is removed */
    size_t count;
    struct dt_fault_state state[DT_DEVICE_FAULTS_MAX];
    struct dt_list qps;
    struct dt_list bucket[DT_FAULT_BUCKETS]; /* the same, found by their number */
    uint32_t broken_count;
    bool is_fatal;  /* the library or a fault has reported DEVICE_FATAL */
    bool has_ended; /* a queue pair has had ends_sends or ends_receives */
    uint32_t event_count;
    struct ibv_async_event events[DT_FAULT_EVENTS_MAX];
};

/* In front of an opened context. DT_SYSTEM (one WARN): no descriptor is left. */
enum dt_status dt_fault_layer_open(struct dt_fault_layer *layer, const struct dt_verbs_table *below,
                                   struct ibv_context *context, uint32_t port);
/* The context has no more events: event_fd is about those of the layer alone. */
void dt_fault_layer_forget_events(struct dt_fault_layer *layer);
/* Before the context is closed. */
void dt_fault_layer_close(struct dt_fault_layer *layer);

/*
 * The table that an opened device uses for memory regions, CQs and QPs; its contexts have a layer. Whether an
 * optional function exists is decided by the table below, not by this one.
 */
extern const struct dt_verbs_table dt_fault_table;

/* After a queue pair was made; dt_fault_table's destroy_qp takes it out again. */
void dt_fault_layer_enter(struct dt_fault_layer *layer, struct dt_fault_qp *qp, struct ibv_qp *ibv,
                          bool is_probe);

/*
 * Passes the next event that a fault raised, if there is one, to `copy` with the mutex held, so that the
 * object of the event still exists. These events are not acknowledged, so nothing else prevents the object's
 * destruction.
 */
typedef void dt_fault_copy_event(void *arg, const struct ibv_async_event *event);
bool dt_fault_layer_event(struct dt_fault_layer *layer, dt_fault_copy_event *copy, void *arg);

/* The library has reported DEVICE_FATAL. */
void dt_fault_layer_note_fatal(struct dt_fault_layer *layer);

/* Has the port lost its link, or the device died, by a fault? */
bool dt_fault_layer_is_down(struct dt_fault_layer *layer);

/* The same of an opened device of this name. */
bool dt_fault_has_name_down(const char *name);

/* With the mutex held: puts our operations in front of the context's where a fault wants it, else takes them
 * away. */
void dt_fault_layer_exchange(struct dt_fault_layer *layer);

/* With the mutex held: the first fault of this kind that may act, or NULL. It acts: counted. */
struct dt_fault_state *dt_fault_find(struct dt_fault_layer *layer, enum dt_device_fault_kind kind);
struct dt_fault_state *dt_fault_find_call(struct dt_fault_layer *layer, enum dt_device_fault_kind kind,
                                          enum dt_device_call call);
void dt_fault_acts(struct dt_fault_state *state);

/* The operations (fault_calls.c). */
int dt_fault_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wcs);
/* The same for a send CQ that Detour polls itself; called when the context's poll_cq is dt_fault_poll_cq. */
int dt_fault_poll_mlx5_cq(struct ibv_cq *cq, struct dt_mlx5_cq *mlx5, int count, struct ibv_wc *wcs);
int dt_fault_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int dt_fault_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* Before a query that concerns no object: hangs, or the errno with which it is to fail, or 0. A context
 * without a layer, such as one for discovery, has no fault. */
int dt_fault_query(const struct ibv_context *context, enum dt_device_call call);

/* The layer of a context; NULL: it has none. */
struct dt_fault_layer *dt_fault_layer_find(const struct ibv_context *context);

/* The layer of an opened device's context. */
struct dt_fault_layer *dt_fault_layer_of(const struct ibv_context *context);

#ifdef __cplusplus
}
#endif

#endif
