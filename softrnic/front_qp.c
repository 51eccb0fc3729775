/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "base/node_memory.h"
#include "softrnic/front.h"

/* ---- creation -------------------------------------------------------------------------------------------
 */

#define SEND_OPS_KNOWN                                                                      \
    (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
     IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ)
#define INIT_MASK_KNOWN \
    (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)

static int check_init(const struct ibv_pd *pd, const struct ibv_qp_init_attr *init)
{
    const struct ibv_qp_cap *cap = &init->cap;

    if ((init->qp_type != IBV_QPT_RC && init->qp_type != IBV_QPT_UC) || init->srq)
        return EOPNOTSUPP;
    if (!init->send_cq || !init->recv_cq || init->send_cq->context != pd->context ||
        init->recv_cq->context != pd->context)
        return EINVAL;
    if (cap->max_send_sge > DT_RNIC_SGE_MAX || cap->max_recv_sge > DT_RNIC_SGE_MAX ||
        cap->max_inline_data > DT_RNIC_INLINE_BYTES_MAX || cap->max_recv_wr > DT_RNIC_RQ_ENTRIES_MAX ||
        cap->max_send_wr > DT_RNIC_SQ_BLOCKS_MAX)
        return EINVAL;
    if ((uint64_t)cap->max_send_wr * dt_front_blocks_per_wr(cap) > DT_RNIC_SQ_BLOCKS_MAX)
        return ENOMEM;
    return 0;
}

static uint32_t blocks_wanted(const struct ibv_qp_cap *cap)
{
    uint32_t per_wr = dt_front_blocks_per_wr(cap);

    return cap->max_send_wr ? cap->max_send_wr * per_wr : per_wr;
}

/* Creates the engine's QP and notes its ring. */
static int create_engine_qp(struct dt_front_qp *qp, struct dt_front_pd *pd)
{
    struct dt_rnic_qp_options options = {
        .pd = pd->number,
        .send_cq = dt_front_cq_of(qp->init.send_cq)->engine,
        .recv_cq = dt_front_cq_of(qp->init.recv_cq)->engine,
        .sq_blocks = blocks_wanted(&qp->init.cap),
        .rq_entries = qp->init.cap.max_recv_wr,
        .recv_sge_max = qp->init.cap.max_recv_sge,
        .context = qp,
        .is_unreliable = qp->init.qp_type == IBV_QPT_UC,
    };
    struct dt_rnic_sq sq;
    int error = 0;

    dt_driver_lock(qp->device);
    qp->engine = dt_rnic_qp_create(qp->device->rnic, &options);
    if (!qp->engine) {
        error = errno;
    } else {
        dt_rnic_qp_sq(qp->engine, &sq);
        qp->ring.buffer = sq.buffer;
        qp->ring.blocks = sq.blocks;
        qp->doorbell = sq.doorbell;
    }
    dt_driver_unlock(qp->device);
    return error;
}

static void destroy_engine_qp(struct dt_front_qp *qp)
{
    uint32_t qpn = dt_rnic_qp_number(qp->engine);

    dt_front_lock_cqs(qp);
    dt_driver_lock(qp->device);
    dt_rnic_qp_destroy(qp->engine);
    dt_rnic_cq_purge(dt_front_cq_of(qp->init.send_cq)->engine, qpn);
    dt_rnic_cq_purge(dt_front_cq_of(qp->init.recv_cq)->engine, qpn);
    dt_driver_unlock(qp->device);
    dt_front_unlock_cqs(qp);
}

static void init_public(struct dt_front_qp *qp, struct ibv_pd *pd)
{
    struct ibv_qp *base = &qp->ex.qp_base;

    base->context = pd->context;
    base->qp_context = qp->init.qp_context;
    base->pd = pd;
    base->send_cq = qp->init.send_cq;
    base->recv_cq = qp->init.recv_cq;
    base->qp_type = qp->init.qp_type;
    base->state = IBV_QPS_RESET;
    pthread_mutex_init(&base->mutex, NULL);
    pthread_cond_init(&base->cond, NULL);
    pthread_mutex_init(&qp->send_lock, NULL);
    pthread_mutex_init(&qp->recv_lock, NULL);
    qp->async_acks = (struct dt_front_acks){0, &base->mutex, &base->cond, &base->events_completed};
    dt_front_fill_wr_ops(qp);
}

static size_t sent_bytes(const struct dt_front_qp *qp)
{
    return (size_t)qp->ring.blocks * sizeof *qp->sent;
}

static void free_qp(struct dt_front_qp *qp)
{
    pthread_mutex_destroy(&qp->send_lock);
    pthread_mutex_destroy(&qp->recv_lock);
    pthread_mutex_destroy(&qp->ex.qp_base.mutex);
    pthread_cond_destroy(&qp->ex.qp_base.cond);
    dt_node_memory_free(qp->sent, sent_bytes(qp));
    free(qp);
}

static void destroy_left_qp(struct dt_front_object *object)
{
    struct dt_front_qp *qp = dt_container_of(object, struct dt_front_qp, object);

    dt_front_acks_cancel(&qp->async_acks);
    dt_soft_destroy_qp(&qp->ex.qp_base);
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init, uint64_t send_ops)
{
    int error = check_init(pd, init);
    struct dt_front_qp *qp = error ? NULL : calloc(1, sizeof *qp);

    if (!qp) {
        errno = error ? error : ENOMEM;
        return NULL;
    }
    qp->device = dt_front_context_of(pd->context)->device;
    qp->init = *init;
    qp->send_ops = send_ops;
    init_public(qp, pd);
    dt_driver_charge(qp->device);
    error = create_engine_qp(qp, dt_front_pd_of(pd));
    if (!error) {
        qp->sent = dt_node_memory_alloc(sent_bytes(qp), -1);
        if (!qp->sent) {
            destroy_engine_qp(qp);
            error = ENOMEM;
        }
    }
    if (error) {
        free_qp(qp);
        errno = error;
        return NULL;
    }
    qp->ex.qp_base.qp_num = dt_rnic_qp_number(qp->engine);
    qp->ex.qp_base.handle = qp->ex.qp_base.qp_num;
    qp->init.cap.max_send_wr = qp->ring.blocks / dt_front_blocks_per_wr(&qp->init.cap);
    init->cap = qp->init.cap;
    dt_front_enter_user(&dt_front_pd_of(pd)->objects);
    dt_front_add_object(pd->context, &qp->object, destroy_left_qp);
    return &qp->ex.qp_base;
}

struct ibv_qp *dt_soft_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    return create_qp(pd, init, 0);
}

struct ibv_qp *dt_front_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    uint64_t send_ops = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ? attr->send_ops_flags : 0;

    if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd || attr->pd->context != context) {
        errno = EINVAL;
        return NULL;
    }
    if ((attr->comp_mask & ~(uint32_t)INIT_MASK_KNOWN) || (send_ops & ~(uint64_t)SEND_OPS_KNOWN) ||
        (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    struct ibv_qp_init_attr init = {.qp_context = attr->qp_context,
                                    .send_cq = attr->send_cq,
                                    .recv_cq = attr->recv_cq,
                                    .srq = attr->srq,
                                    .cap = attr->cap,
                                    .qp_type = attr->qp_type,
                                    .sq_sig_all = attr->sq_sig_all};
    struct ibv_qp *qp = create_qp(attr->pd, &init, send_ops);
    if (qp)
        attr->cap = init.cap;
    return qp;
}

struct ibv_qp_ex *dt_soft_qp_to_qp_ex(struct ibv_qp *qp)
{
    return dt_front_qp_of(qp)->send_ops ? &dt_front_qp_of(qp)->ex : NULL;
}

int dt_soft_destroy_qp(struct ibv_qp *public_qp)
{
    struct dt_front_qp *qp = dt_front_qp_of(public_qp);

    dt_driver_charge(qp->device);
    destroy_engine_qp(qp);
    dt_front_events_forget(&dt_front_context_of(public_qp->context)->events, &qp->async_acks);
    dt_front_acks_wait(&qp->async_acks);
    dt_front_leave_user(&dt_front_pd_of(public_qp->pd)->objects);
    dt_front_remove_object(public_qp->context, &qp->object);
    free_qp(qp);
    return 0;
}

/* ---- modification and query ------------------------------------------------------------------------------
 */

/* The state that the application sees; the device's lock is held: one thread may modify and another query. */
static void publish_state(struct dt_front_qp *qp, enum ibv_qp_state state)
{
    qp->ex.qp_base.state = state;
}

/* Discards everything posted, with the engine's queues, and all completions that have not been polled. */
static int reset(struct dt_front_qp *qp, const struct ibv_qp_attr *attr, int attr_mask)
{
    dt_front_lock_cqs(qp);
    pthread_mutex_lock(&qp->send_lock);
    pthread_mutex_lock(&qp->recv_lock);
    uint64_t now_ns = dt_driver_lock(qp->device);
    int error = dt_rnic_qp_modify(qp->engine, attr, attr_mask, now_ns);
    if (!error) {
        dt_rnic_cq_purge(dt_front_cq_of(qp->init.send_cq)->engine, qp->ex.qp_base.qp_num);
        dt_rnic_cq_purge(dt_front_cq_of(qp->init.recv_cq)->engine, qp->ex.qp_base.qp_num);
        qp->head = 0;
        qp->wr_head = 0;
        dt_store_release(&qp->tail, 0);
        dt_store_release(&qp->wr_tail, 0);
        publish_state(qp, IBV_QPS_RESET);
    }
    dt_driver_unlock(qp->device);
    pthread_mutex_unlock(&qp->recv_lock);
    pthread_mutex_unlock(&qp->send_lock);
    dt_front_unlock_cqs(qp);
    return error;
}

int dt_soft_modify_qp(struct ibv_qp *public_qp, struct ibv_qp_attr *attr, int attr_mask)
{
    struct dt_front_qp *qp = dt_front_qp_of(public_qp);
    int error;

    if (attr_mask & IBV_QP_AV && (attr->ah_attr.port_num > 1 || attr->ah_attr.grh.sgid_index != 0))
        return EINVAL; /* one port, and one address on it */
    dt_driver_charge(qp->device);
    if (attr_mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET) {
        error = reset(qp, attr, attr_mask);
    } else {
        uint64_t now_ns = dt_driver_lock(qp->device);

        error = dt_rnic_qp_modify(qp->engine, attr, attr_mask, now_ns);
        if (!error && attr_mask & IBV_QP_STATE)
            publish_state(qp, attr->qp_state);
        dt_driver_unlock(qp->device);
    }
    return error;
}

int dt_soft_query_qp(struct ibv_qp *public_qp, struct ibv_qp_attr *attr, int attr_mask,
                     struct ibv_qp_init_attr *init_attr)
{
    struct dt_front_qp *qp = dt_front_qp_of(public_qp);

    (void)attr_mask; /* a hint about what the caller will look at */
    memset(attr, 0, sizeof *attr);
    dt_driver_lock(qp->device);
    dt_rnic_qp_query(qp->engine, attr);
    publish_state(qp, attr->qp_state);
    dt_driver_unlock(qp->device);
    attr->cap = qp->init.cap;
    if (init_attr)
        *init_attr = qp->init;
    return 0;
}

/* No guarantee: the local wire lands in order, other wires may not. */
int dt_soft_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    (void)qp;
    (void)op;
    (void)flags;
    return 0;
}

/* ---- the ring as the application's own
 * ----------------------------------------------------------------------------
 */

static void ring_doorbell(void *arg)
{
    struct dt_front_qp *qp = arg;

    dt_driver_ring(qp->device, qp->engine);
}

int dt_soft_query_qp_dv(struct ibv_qp *public_qp, struct dt_soft_dv_qp *dv)
{
    struct dt_front_qp *qp = dt_front_qp_of(public_qp);

    pthread_mutex_lock(&qp->send_lock);
    /* The front's own elements complete with the application's wr_ids, so the two ways of posting do not mix.
     */
    bool is_fresh = dt_load_relaxed(&qp->is_dv) || qp->wr_head == 0;
    if (is_fresh)
        dt_store_release(&qp->is_dv, 1);
    pthread_mutex_unlock(&qp->send_lock);
    if (!is_fresh)
        return EBUSY;
    dv->sq_buf = qp->ring.buffer;
    dv->sq_wqe_count = qp->ring.blocks;
    dv->sq_stride = DT_WQE_BLOCK_BYTES;
    dv->dbrec = (__be32 *)qp->doorbell;
    dv->bf_reg = &qp->bf_reg;
    dv->ring = ring_doorbell;
    dv->ring_arg = qp;
    return 0;
}
