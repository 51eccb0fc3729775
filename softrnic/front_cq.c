/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "base/check.h"
#include "softrnic/front.h"

/* ---- channels -------------------------------------------------------------------------------------------
 */

static void destroy_channel(struct dt_front_object *object)
{
    int error =
        dt_soft_destroy_comp_channel(&dt_container_of(object, struct dt_front_channel, object)->channel);

    DT_CHECK(!error);
}

struct ibv_comp_channel *dt_soft_create_comp_channel(struct ibv_context *context)
{
    struct dt_front_channel *channel = calloc(1, sizeof *channel);
    int error;

    if (!channel)
        return NULL;
    error = dt_front_events_init(&channel->events);
    if (error) {
        free(channel);
        errno = error;
        return NULL;
    }
    channel->channel.context = context;
    channel->channel.fd = channel->events.fd;
    dt_front_add_object(context, &channel->object, destroy_channel);
    return &channel->channel;
}

int dt_soft_destroy_comp_channel(struct ibv_comp_channel *public_channel)
{
    struct dt_front_channel *channel = dt_front_channel_of(public_channel);

    if (dt_load_acquire(&channel->objects))
        return EBUSY;
    dt_front_remove_object(public_channel->context, &channel->object);
    dt_front_events_free(&channel->events);
    free(channel);
    return 0;
}

void dt_front_notify(void *device, struct dt_rnic_cq *engine)
{
    struct dt_front_cq *cq = dt_rnic_cq_context(engine);
    struct ibv_async_event event = {.element.cq = &cq->cq};

    (void)device;
    DT_CHECK_HOT(cq->cq.channel); /* only a CQ with a channel can be armed */
    dt_store_relaxed(&cq->is_armed, 0);
    dt_front_events_push(&dt_front_channel_of(cq->cq.channel)->events, &cq->comp_acks, &event);
}

int dt_soft_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    struct ibv_async_event event;
    int error = dt_front_events_pop(&dt_front_channel_of(channel)->events, &event);

    if (error) {
        errno = error;
        return -1;
    }
    *cq = event.element.cq;
    *cq_context = event.element.cq->cq_context;
    return 0;
}

void dt_soft_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
    if (nevents)
        dt_front_acks_done(&dt_front_cq_of(cq)->comp_acks, nevents);
}

/* ---- creation and destruction ---------------------------------------------------------------------------
 */

static void init_public(struct dt_front_cq *cq, struct ibv_context *context, struct ibv_comp_channel *channel,
                        void *cq_context)
{
    cq->cq.context = context;
    cq->cq.channel = channel;
    cq->cq.cq_context = cq_context;
    pthread_mutex_init(&cq->cq.mutex, NULL);
    pthread_cond_init(&cq->cq.cond, NULL);
    pthread_mutex_init(&cq->lock, NULL);
    cq->comp_acks = (struct dt_front_acks){0, &cq->cq.mutex, &cq->cq.cond, &cq->cq.comp_events_completed};
    cq->async_acks = (struct dt_front_acks){0, &cq->cq.mutex, &cq->cq.cond, &cq->cq.async_events_completed};
}

static void free_cq(struct dt_front_cq *cq)
{
    pthread_mutex_destroy(&cq->lock);
    pthread_mutex_destroy(&cq->cq.mutex);
    pthread_cond_destroy(&cq->cq.cond);
    free(cq);
}

static void destroy_left_cq(struct dt_front_object *object)
{
    struct dt_front_cq *cq = dt_container_of(object, struct dt_front_cq, object);

    dt_front_acks_cancel(&cq->comp_acks);
    dt_front_acks_cancel(&cq->async_acks);
    int error = dt_soft_destroy_cq(&cq->cq);
    DT_CHECK(!error);
}

static struct dt_front_cq *create_cq(struct ibv_context *context, uint32_t cqe, void *cq_context,
                                     struct ibv_comp_channel *channel)
{
    struct dt_front_cq *cq;

    if (cqe < 1 || cqe > DT_RNIC_CQ_ENTRIES_MAX) {
        errno = EINVAL;
        return NULL;
    }
    cq = calloc(1, sizeof *cq);
    if (!cq)
        return NULL;
    init_public(cq, context, channel, cq_context);
    cq->device = dt_front_context_of(context)->device;
    dt_driver_lock(cq->device);
    cq->engine = dt_rnic_cq_create(cq->device->rnic, cqe, channel != NULL, cq);
    int error = cq->engine ? 0 : errno;
    dt_driver_unlock(cq->device);
    if (error) {
        free_cq(cq);
        errno = error;
        return NULL;
    }
    cq->cq.cqe = (int)dt_rnic_cq_entries(cq->engine);
    dt_front_add_object(context, &cq->object, destroy_left_cq);
    if (channel)
        dt_front_enter_user(&dt_front_channel_of(channel)->objects);
    return cq;
}

struct ibv_cq *dt_soft_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                 struct ibv_comp_channel *channel, int comp_vector)
{
    if (comp_vector < 0 || comp_vector >= context->num_comp_vectors || cqe < 1) {
        errno = EINVAL;
        return NULL;
    }
    struct dt_front_cq *cq = create_cq(context, (uint32_t)cqe, cq_context, channel);

    return cq ? &cq->cq : NULL;
}

int dt_soft_resize_cq(struct ibv_cq *cq, int cqe)
{
    (void)cq;
    (void)cqe;
    return EOPNOTSUPP;
}

int dt_soft_destroy_cq(struct ibv_cq *public_cq)
{
    struct dt_front_cq *cq = dt_front_cq_of(public_cq);
    struct dt_front_context *context = dt_front_context_of(public_cq->context);
    struct ibv_comp_channel *channel = public_cq->channel;

    dt_driver_lock(cq->device);
    int error = dt_rnic_cq_destroy(cq->engine);
    dt_driver_unlock(cq->device);
    if (error)
        return error;
    dt_front_events_forget(&context->events, &cq->async_acks);
    if (channel)
        dt_front_events_forget(&dt_front_channel_of(channel)->events, &cq->comp_acks);
    dt_front_acks_wait(&cq->comp_acks);
    dt_front_acks_wait(&cq->async_acks);
    if (channel)
        dt_front_leave_user(&dt_front_channel_of(channel)->objects);
    dt_front_remove_object(public_cq->context, &cq->object);
    free_cq(cq);
    return 0;
}

void dt_front_lock_cqs(struct dt_front_qp *qp)
{
    struct dt_front_cq *a = dt_front_cq_of(qp->ex.qp_base.send_cq);
    struct dt_front_cq *b = dt_front_cq_of(qp->ex.qp_base.recv_cq);

    pthread_mutex_lock(&(a < b ? a : b)->lock);
    if (a != b)
        pthread_mutex_lock(&(a < b ? b : a)->lock);
}

void dt_front_unlock_cqs(struct dt_front_qp *qp)
{
    struct dt_front_cq *a = dt_front_cq_of(qp->ex.qp_base.send_cq);
    struct dt_front_cq *b = dt_front_cq_of(qp->ex.qp_base.recv_cq);

    if (a != b)
        pthread_mutex_unlock(&b->lock);
    pthread_mutex_unlock(&a->lock);
}

/* ---- polling --------------------------------------------------------------------------------------------
 */

static enum ibv_wc_opcode wc_opcode(uint8_t op)
{
    switch (op) {
    case DT_CQE_WRITE:
        return IBV_WC_RDMA_WRITE;
    case DT_CQE_READ:
        return IBV_WC_RDMA_READ;
    case DT_CQE_RECV:
        return IBV_WC_RECV;
    case DT_CQE_RECV_WRITE_IMM:
        return IBV_WC_RECV_RDMA_WITH_IMM;
    default:
        return IBV_WC_SEND; /* and NOP, for which verbs have no opcode */
    }
}

/* The consumer lock is held. */
static void fill_wc(const struct dt_cqe *cqe, struct ibv_wc *wc)
{
    bool is_recv = cqe->flags & DT_CQE_IS_RECV;

    memset(wc, 0, sizeof *wc);
    wc->wr_id = is_recv ? cqe->wr_id : dt_front_retire(cqe->qp_context, cqe->wqe_counter);
    wc->status = (enum ibv_wc_status)cqe->status;
    wc->opcode = wc_opcode(cqe->op);
    wc->vendor_err = cqe->vendor_err;
    wc->byte_len = cqe->byte_len;
    wc->qp_num = cqe->qpn;
    if (cqe->flags & DT_CQE_HAS_IMM) {
        wc->imm_data = cqe->imm;
        wc->wc_flags = IBV_WC_WITH_IMM;
    }
}

#define POLL_BATCH 16u

static int take(struct dt_front_cq *cq, int num_entries, struct ibv_wc *wc)
{
    struct dt_cqe cqes[POLL_BATCH];
    uint32_t wanted, got;
    int count = 0;

    if (!dt_rnic_cq_has_some(cq->engine))
        return 0;
    pthread_mutex_lock(&cq->lock);
    do {
        wanted = (uint32_t)dt_min_u64((uint64_t)(num_entries - count), POLL_BATCH);
        got = dt_rnic_cq_poll(cq->engine, cqes, wanted);
        for (uint32_t i = 0; i < got; i++)
            fill_wc(&cqes[i], &wc[count++]);
    } while (got == POLL_BATCH && count < num_entries);
    DT_CHECK_HOT(count <= num_entries);
    pthread_mutex_unlock(&cq->lock);
    return count;
}

static void step_for(struct dt_front_cq *cq)
{
    /* After arming the CQ an application polls once more and sleeps, so polling is not expected to continue.
     */
    dt_driver_poll(cq->device, !dt_load_relaxed(&cq->is_armed));
}

int dt_front_poll_cq(struct ibv_cq *public_cq, int num_entries, struct ibv_wc *wc)
{
    struct dt_front_cq *cq = dt_front_cq_of(public_cq);

    if (num_entries < 0)
        return -EINVAL;
    if (num_entries == 0)
        return 0;
    int count = take(cq, num_entries, wc);
    if (count == 0) {
        step_for(cq);
        count = take(cq, num_entries, wc);
    }
    return count;
}

int dt_front_req_notify_cq(struct ibv_cq *public_cq, int solicited_only)
{
    struct dt_front_cq *cq = dt_front_cq_of(public_cq);

    if (!public_cq->channel)
        return 0; /* no channel to notify */
    pthread_mutex_lock(&cq->lock);
    dt_store_relaxed(&cq->is_armed, 1);
    dt_rnic_cq_arm(cq->engine, solicited_only != 0);
    pthread_mutex_unlock(&cq->lock);
    dt_driver_leave(cq->device);
    return 0;
}

/* ---- the extended CQ: one completion at a time, read field by field
 * ---------------------------------------- */

static int take_one(struct dt_front_cq *cq)
{
    struct dt_cqe cqe;

    if (dt_rnic_cq_poll(cq->engine, &cqe, 1) == 0)
        return ENOENT;
    fill_wc(&cqe, &cq->now);
    cq->ex.wr_id = cq->now.wr_id;
    cq->ex.status = cq->now.status;
    return 0;
}

/* The consumer lock is kept from here to end_poll, unless there is nothing. */
static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
    struct dt_front_cq *cq = dt_front_cq_of_ex(ex);

    if (attr && attr->comp_mask)
        return EINVAL;
    pthread_mutex_lock(&cq->lock);
    int error = take_one(cq);
    if (error) {
        step_for(cq);
        error = take_one(cq);
    }
    if (error)
        pthread_mutex_unlock(&cq->lock);
    return error;
}

static int next_poll(struct ibv_cq_ex *ex)
{
    return take_one(dt_front_cq_of_ex(ex));
}

static void end_poll(struct ibv_cq_ex *ex)
{
    pthread_mutex_unlock(&dt_front_cq_of_ex(ex)->lock);
}

#define READER(name, type, value)                               \
    static type name(struct ibv_cq_ex *ex)                      \
    {                                                           \
        const struct ibv_wc *now = &dt_front_cq_of_ex(ex)->now; \
                                                                \
        (void)now;                                              \
        return value;                                           \
    }

READER(read_opcode, enum ibv_wc_opcode, now->opcode)
READER(read_vendor_err, uint32_t, now->vendor_err)
READER(read_byte_len, uint32_t, now->byte_len)
READER(read_imm_data, __be32, now->imm_data)
READER(read_qp_num, uint32_t, now->qp_num)
READER(read_src_qp, uint32_t, now->src_qp)
READER(read_wc_flags, unsigned int, now->wc_flags)
/* Ethernet has none of these, and the device has no clock, VLAN or flow tag: its CQs are never created with
 * them. */
READER(read_slid, uint32_t, 0)
READER(read_sl, uint8_t, 0)
READER(read_dlid_path_bits, uint8_t, 0)
READER(read_completion_ts, uint64_t, 0)
READER(read_cvlan, uint16_t, 0)
READER(read_flow_tag, uint32_t, 0)
READER(read_completion_wallclock_ns, uint64_t, 0)

static void read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *info)
{
    (void)ex;
    memset(info, 0, sizeof *info);
}

static void fill_ex_ops(struct ibv_cq_ex *ex)
{
    ex->start_poll = start_poll;
    ex->next_poll = next_poll;
    ex->end_poll = end_poll;
    ex->read_opcode = read_opcode;
    ex->read_vendor_err = read_vendor_err;
    ex->read_byte_len = read_byte_len;
    ex->read_imm_data = read_imm_data;
    ex->read_qp_num = read_qp_num;
    ex->read_src_qp = read_src_qp;
    ex->read_wc_flags = read_wc_flags;
    ex->read_slid = read_slid;
    ex->read_sl = read_sl;
    ex->read_dlid_path_bits = read_dlid_path_bits;
    ex->read_completion_ts = read_completion_ts;
    ex->read_cvlan = read_cvlan;
    ex->read_flow_tag = read_flow_tag;
    ex->read_tm_info = read_tm_info;
    ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
}

#define FLAGS_KNOWN (IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)

struct ibv_cq_ex *dt_front_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
    if ((attr->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS) ||
        (attr->comp_mask & ~IBV_CQ_INIT_ATTR_MASK_FLAGS) ||
        ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) && (attr->flags & ~FLAGS_KNOWN))) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (attr->comp_vector >= (uint32_t)context->num_comp_vectors) {
        errno = EINVAL;
        return NULL;
    }
    struct dt_front_cq *cq = create_cq(context, attr->cqe, attr->cq_context, attr->channel);
    if (!cq)
        return NULL;
    fill_ex_ops(&cq->ex);
    return &cq->ex;
}
