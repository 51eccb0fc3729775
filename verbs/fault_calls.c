/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of a device with faults. */
#include <errno.h>

#include "base/check.h"
#include "base/log.h"
#include "verbs/fault_layer.h"
#include "verbs/fault_personality.h"
#include "verbs/mlx5_cq.h"

static struct dt_fault_layer *lock_layer(const struct ibv_context *context)
{
    struct dt_fault_layer *layer = dt_fault_layer_of(context);

    pthread_mutex_lock(&layer->mutex);
    return layer;
}

static void unlock(struct dt_fault_layer *layer)
{
    pthread_mutex_unlock(&layer->mutex);
}

/* Hangs as long as a fault wants it; then the errno with which the call is to fail, or 0. Mutex held. */
static int disturb(struct dt_fault_layer *layer, enum dt_device_call call)
{
    struct dt_fault_state *state = dt_fault_find_call(layer, DT_DEVICE_FAULT_HANG, call);

    if (state) {
        uint32_t id = state->fault.id;
        bool is_there = true;

        dt_fault_acts(state);
        while (is_there) {
            pthread_cond_wait(&layer->gone, &layer->mutex);
            is_there = false;
            for (size_t i = 0; i < layer->count; i++)
                is_there |= layer->state[i].fault.id == id;
        }
    }
    state = dt_fault_find_call(layer, DT_DEVICE_FAULT_FAIL, call);
    if (!state)
        return 0;
    dt_fault_acts(state);
    return state->fault.error;
}

/* The same for calls that make or change something, which no dead device does. Mutex held. */
static int disturb_control(struct dt_fault_layer *layer, enum dt_device_call call)
{
    int error = disturb(layer, call);

    return dt_fault_find(layer, DT_DEVICE_FAULT_DEAD) ? EIO : error;
}

/* Takes the mutex for that, and sets errno. */
static bool is_refused(struct dt_fault_layer *layer, enum dt_device_call call)
{
    int error;

    pthread_mutex_lock(&layer->mutex);
    error = disturb_control(layer, call);
    unlock(layer);
    if (error)
        errno = error;
    return error != 0;
}

int dt_fault_query(const struct ibv_context *context, enum dt_device_call call)
{
    struct dt_fault_layer *layer = dt_fault_layer_find(context);
    int error;

    if (!layer)
        return 0;
    pthread_mutex_lock(&layer->mutex);
    error = disturb(layer, call);
    unlock(layer);
    return error;
}

/* ------------------------------------------------------------------------------------------------------------
 * Memory regions and completion queues
 */
static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
    struct dt_fault_layer *layer = dt_fault_layer_of(pd->context);

    return is_refused(layer, DT_DEVICE_CALL_REG_MR) ? NULL : layer->below->reg_mr(pd, addr, bytes, access);
}

static struct ibv_mr *reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova,
                                   unsigned access)
{
    struct dt_fault_layer *layer = dt_fault_layer_of(pd->context);

    return is_refused(layer, DT_DEVICE_CALL_REG_MR)
               ? NULL
               : layer->below->reg_mr_iova2(pd, addr, bytes, iova, access);
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova, int fd,
                                    int access)
{
    struct dt_fault_layer *layer = dt_fault_layer_of(pd->context);

    return is_refused(layer, DT_DEVICE_CALL_REG_MR)
               ? NULL
               : layer->below->reg_dmabuf_mr(pd, offset, bytes, iova, fd, access);
}

static struct ibv_cq *create_cq(struct ibv_context *context, int entries, void *cq_context,
                                struct ibv_comp_channel *channel, int comp_vector)
{
    struct dt_fault_layer *layer = dt_fault_layer_of(context);

    return is_refused(layer, DT_DEVICE_CALL_CREATE_CQ)
               ? NULL
               : layer->below->create_cq(context, entries, cq_context, channel, comp_vector);
}

/* Neutralizes unread events about an object that is destroyed. Mutex held. */
static void forget_events(struct dt_fault_layer *layer, const struct ibv_cq *cq, const struct ibv_qp *qp)
{
    for (uint32_t i = 0; i < layer->event_count; i++) {
        struct ibv_async_event *event = &layer->events[i];

        if ((event->event_type == IBV_EVENT_CQ_ERR && event->element.cq == cq) ||
            (event->event_type == IBV_EVENT_QP_FATAL && event->element.qp == qp))
            event->event_type = IBV_EVENT_SM_CHANGE; /* an event without effect */
    }
}

static int destroy_cq(struct ibv_cq *cq)
{
    struct dt_fault_layer *layer = lock_layer(cq->context);

    forget_events(layer, cq, NULL);
    unlock(layer);
    return layer->below->destroy_cq(cq);
}

/* ------------------------------------------------------------------------------------------------------------
 * Queue pairs
 */
static struct dt_list *bucket_of(struct dt_fault_layer *layer, uint32_t qpn)
{
    return &layer->bucket[qpn & (DT_FAULT_BUCKETS - 1)];
}

static struct dt_fault_qp *find_number(struct dt_fault_layer *layer, uint32_t qpn)
{
    dt_list_for_each(node, bucket_of(layer, qpn))
    {
        struct dt_fault_qp *qp = dt_container_of(node, struct dt_fault_qp, bucket_node);

        if (qp->ibv->qp_num == qpn)
            return qp;
    }
    return NULL;
}

static struct dt_fault_qp *find_qp(struct dt_fault_layer *layer, const struct ibv_qp *ibv)
{
    struct dt_fault_qp *qp = find_number(layer, ibv->qp_num);

    return qp && qp->ibv == ibv ? qp : NULL;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct dt_fault_layer *layer = dt_fault_layer_of(pd->context);

    return is_refused(layer, DT_DEVICE_CALL_CREATE_QP) ? NULL : layer->below->create_qp(pd, attr);
}

void dt_fault_layer_enter(struct dt_fault_layer *layer, struct dt_fault_qp *qp, struct ibv_qp *ibv,
                          bool is_probe)
{
    *qp = (struct dt_fault_qp){.ibv = ibv, .is_probe = is_probe};
    pthread_mutex_lock(&layer->mutex);
    dt_list_push_back(&layer->qps, &qp->node);
    dt_list_push_back(bucket_of(layer, ibv->qp_num), &qp->bucket_node);
    unlock(layer);
}

static bool is_connecting(const struct ibv_qp_attr *attr, int mask)
{
    return mask & IBV_QP_STATE && (attr->qp_state == IBV_QPS_RTR || attr->qp_state == IBV_QPS_RTS);
}

/* Why the call cannot be: an errno, or 0. Mutex held. */
static int refuse_modify(struct dt_fault_layer *layer, const struct ibv_qp_attr *attr, int mask)
{
    int error = disturb_control(layer, DT_DEVICE_CALL_MODIFY_QP);

    if (error)
        return error;
    return is_connecting(attr, mask) && dt_fault_find(layer, DT_DEVICE_FAULT_DOWN) ? ENETDOWN : 0;
}

static void note_state(struct dt_fault_layer *layer, const struct ibv_qp *ibv, enum ibv_qp_state state)
{
    struct dt_fault_qp *qp;

    pthread_mutex_lock(&layer->mutex);
    qp = find_qp(layer, ibv);
    if (qp)
        dt_fault_personality_modified(layer, qp, state);
    unlock(layer);
}

/*
 * Marks a queue pair as connected before the call: a fault that begins meanwhile fails it, and the caller
 * notices by the call's own error or by the completions.
 */
static int modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
    struct dt_fault_layer *layer = lock_layer(ibv->context);
    bool is_ignored = dt_fault_personality_ignores(layer);
    int error = is_ignored ? 0 : refuse_modify(layer, attr, mask);
    struct dt_fault_qp *qp = error || is_ignored ? NULL : find_qp(layer, ibv);

    if (qp && mask & IBV_QP_STATE)
        qp->is_connected = is_connecting(attr, mask);
    unlock(layer);
    if (error || is_ignored)
        return error;
    error = layer->below->modify_qp(ibv, attr, mask);
    if (!error && mask & IBV_QP_STATE)
        note_state(layer, ibv, attr->qp_state);
    return error;
}

static int query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
    struct dt_fault_layer *layer = lock_layer(ibv->context);
    int error = disturb_control(layer, DT_DEVICE_CALL_QUERY_QP);

    unlock(layer);
    return error ? error : layer->below->query_qp(ibv, attr, mask, init);
}

static void forget_qp(struct dt_fault_layer *layer, const struct ibv_qp *ibv)
{
    struct dt_fault_qp *qp;

    pthread_mutex_lock(&layer->mutex);
    forget_events(layer, NULL, ibv);
    qp = find_qp(layer, ibv);
    if (qp) {
        DT_CHECK(!dt_list_is_empty(&qp->node) && !dt_list_is_empty(&qp->bucket_node));
        DT_CHECK(!qp->is_broken || layer->broken_count > 0);
        dt_list_remove(&qp->node);
        dt_list_remove(&qp->bucket_node);
        layer->broken_count -= qp->is_broken;
        dt_fault_layer_exchange(layer);
    }
    unlock(layer);
}

/* Forgotten first, since the caller may free its part of the list also if this fails. */
static int destroy_qp(struct ibv_qp *ibv)
{
    struct dt_fault_layer *layer = dt_fault_layer_of(ibv->context);
    int error;

    forget_qp(layer, ibv);
    pthread_mutex_lock(&layer->mutex);
    error = dt_fault_personality_ignores(layer) ? 0 : disturb(layer, DT_DEVICE_CALL_DESTROY_QP);
    unlock(layer);
    return error ? error : layer->below->destroy_qp(ibv);
}

/* ------------------------------------------------------------------------------------------------------------
 * Data path: only called while a fault needs it (dt_fault_layer_exchange)
 */

static bool has_limit(const struct dt_fault_state *state)
{
    return state->left != UINT64_MAX;
}

/* A queue pair of probes, or a completion queue of one. */
static bool is_of_probes(const struct dt_fault_layer *layer, const void *object)
{
    dt_list_for_each(node, &layer->qps)
    {
        const struct dt_fault_qp *qp = dt_container_of(node, struct dt_fault_qp, node);

        if (qp->is_probe && (qp->ibv == object || qp->ibv->send_cq == object || qp->ibv->recv_cq == object))
            return true;
    }
    return false;
}

/* The errno with which the call on a queue pair or completion queue is to fail, or 0. A limit counts
 * messages. */
static int fail_call(struct dt_fault_layer *layer, enum dt_device_call call, const void *object)
{
    struct dt_fault_state *state = dt_fault_find_call(layer, DT_DEVICE_FAULT_FAIL, call);

    if (!state || (has_limit(state) && is_of_probes(layer, object)))
        return 0;
    dt_fault_acts(state);
    return state->fault.error;
}

static int refuse_post(struct dt_fault_layer *layer, enum dt_device_call call, const struct ibv_qp *qp)
{
    int error = fail_call(layer, call, qp);

    return !error && dt_fault_personality_refuses(layer, find_qp(layer, qp)) ? EINVAL : error;
}

int dt_fault_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct dt_fault_layer *layer = lock_layer(qp->context);
    int error = refuse_post(layer, DT_DEVICE_CALL_POST_SEND, qp);

    unlock(layer);
    if (!error)
        return layer->post_send(qp, wr, bad);
    *bad = wr;
    return error;
}

int dt_fault_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct dt_fault_layer *layer = lock_layer(qp->context);
    int error = refuse_post(layer, DT_DEVICE_CALL_POST_RECV, qp);
    bool is_lost = !error && dt_fault_personality_loses_receive(layer, find_qp(layer, qp));

    unlock(layer);
    if (is_lost)
        return 0;
    if (!error)
        return layer->post_recv(qp, wr, bad);
    *bad = wr;
    return error;
}

/* As the device does it that finds an error: the queue pair takes part in nothing any more. */
static void break_qp(struct dt_fault_layer *layer, struct dt_fault_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    DT_CHECK(!qp->is_broken); /* counted once */
    qp->is_broken = true;
    qp->is_connected = false;
    layer->broken_count++;
    if (layer->below->modify_qp(qp->ibv, &attr, IBV_QP_STATE))
        dt_info("fault-wc", "QP %u: an injected fault could not move it to ERR", qp->ibv->qp_num);
}

/*
 * Applies a fault to a completion; false when the completion is lost. A completed receive is never changed,
 * whatever its queue pair's state: the device has acknowledged the message, so taking it back would lose it
 * (a personality may do that: fault_personality.h).
 */
static bool turn(struct dt_fault_layer *layer, struct dt_fault_qp *qp, bool is_received, struct ibv_wc *wc)
{
    struct dt_fault_state *state = dt_fault_find(layer, DT_DEVICE_FAULT_STATUS);

    if (!qp || is_received)
        return true;
    if (wc->status == IBV_WC_SUCCESS && qp->is_broken) {
        wc->status = IBV_WC_WR_FLUSH_ERR;
    } else if (wc->status == IBV_WC_SUCCESS && state && !(has_limit(state) && qp->is_probe)) {
        qp->is_mute = state->fault.status == DT_DEVICE_STATUS_LOST;
        wc->status = (enum ibv_wc_status)state->fault.status;
        wc->vendor_err = 0;
        dt_fault_acts(state);
        break_qp(layer, qp);
    }
    return !qp->is_mute;
}

/* mlx5: a queue of sends only; NULL where the library polls. */
static int poll_cq(struct ibv_cq *cq, struct dt_mlx5_cq *mlx5, int count, struct ibv_wc *wcs)
{
    struct dt_fault_layer *layer = lock_layer(cq->context);
    struct dt_fault_state *silent = dt_fault_find(layer, DT_DEVICE_FAULT_SILENT);
    int taken = fail_call(layer, DT_DEVICE_CALL_POLL_CQ, cq) ? -1 : 0;
    int kept = 0;

    if (taken == 0 && silent)
        dt_fault_acts(silent);
    else if (taken == 0)
        taken = mlx5 ? dt_mlx5_poll_cq(mlx5, count, wcs) : layer->poll_cq(cq, count, wcs);
    for (int i = 0; i < taken; i++) {
        bool is_received = !mlx5 && wcs[i].status == IBV_WC_SUCCESS && wcs[i].opcode & IBV_WC_RECV;
        struct dt_fault_qp *qp = find_number(layer, wcs[i].qp_num);
        bool is_kept = turn(layer, qp, is_received, &wcs[i]);

        if (!is_kept)
            continue;
        wcs[kept] = wcs[i];
        if (qp)
            dt_fault_personality_turn(layer, qp, cq, wcs, kept);
        kept++;
    }
    if (taken >= 0 && taken < count && !silent)
        dt_fault_personality_emptied(layer, cq);
    unlock(layer);
    return taken < 0 ? taken : kept;
}

int dt_fault_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wcs)
{
    return poll_cq(cq, NULL, count, wcs);
}

int dt_fault_poll_mlx5_cq(struct ibv_cq *cq, struct dt_mlx5_cq *mlx5, int count, struct ibv_wc *wcs)
{
    return poll_cq(cq, mlx5, count, wcs);
}

const struct dt_verbs_table dt_fault_table = {.reg_mr = reg_mr,
                                              .reg_mr_iova2 = reg_mr_iova2,
                                              .reg_dmabuf_mr = reg_dmabuf_mr,
                                              .create_cq = create_cq,
                                              .destroy_cq = destroy_cq,
                                              .create_qp = create_qp,
                                              .modify_qp = modify_qp,
                                              .query_qp = query_qp,
                                              .destroy_qp = destroy_qp};
