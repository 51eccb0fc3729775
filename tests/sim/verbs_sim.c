/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/verbs_sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "softrnic/softrnic.h"
#include "tests/sim/gpu_writes.h"
#include "tests/sim/trace.h"
#include "verbs/table.h"

#define REFUSED_MAX 16
#define QPS_MAX     2048

/* In the handle of a completion queue, beside its number. */
#define OF_RECEIVES 0x80000000u

static struct {
    struct dt_verbs_table soft;
    int (*poll_cq)(struct ibv_cq *cq, int count, struct ibv_wc *wcs);
    uint32_t qp_wr_max;
    uint32_t faults[DT_SOFT_NAMES_MAX];
    bool may_have_event[DT_SOFT_NAMES_MAX];
    const struct ibv_context *newest[DT_SOFT_NAMES_MAX]; /* of each device */
    uint32_t cq_count;
    struct ibv_qp *qp[QPS_MAX]; /* those for data: they have one completion queue for receives alone */
    uint32_t qp_count;
    struct {
        uintptr_t at;
        size_t bytes;
        uint32_t device_mask;
    } refused[REFUSED_MAX];
    uint32_t refused_count;
} sim;

void dt_verbs_sim_start(uint32_t qp_wr_max)
{
    sim.qp_wr_max = qp_wr_max;
    sim.cq_count = 0;
    sim.qp_count = 0;
    memset(sim.faults, 0, sizeof sim.faults);
    memset(sim.may_have_event, 0, sizeof sim.may_have_event);
    sim.refused_count = 0;
}

void dt_verbs_sim_refuse(const void *memory, size_t bytes, uint32_t device_mask)
{
    DT_CHECK(sim.refused_count < REFUSED_MAX);
    sim.refused[sim.refused_count].at = (uintptr_t)memory;
    sim.refused[sim.refused_count].bytes = bytes;
    sim.refused[sim.refused_count++].device_mask = device_mask;
}

void dt_verbs_sim_set(uint32_t device, uint32_t faults)
{
    sim.faults[device] = faults;
}

uint32_t dt_verbs_sim_get(uint32_t device)
{
    return sim.faults[device];
}

void dt_verbs_sim_event(uint32_t device)
{
    sim.may_have_event[device] = true;
}

/* "soft3" */
static uint32_t device_of(const struct ibv_context *context)
{
    uint32_t device = 0;

    for (const char *digit = sim.soft.get_device_name(context->device) + strlen("soft"); *digit; digit++)
        device = 10 * device + (uint32_t)(*digit - '0');
    return device;
}

static bool is_refused(const struct ibv_pd *pd, const void *addr)
{
    uint32_t device, bit;

    if (!sim.refused_count)
        return false;
    device = device_of(pd->context);
    DT_CHECK(device < 32); /* a mask has a bit for it */
    bit = 1u << device;
    for (uint32_t i = 0; i < sim.refused_count; i++) {
        if (sim.refused[i].device_mask & bit && (uintptr_t)addr - sim.refused[i].at < sim.refused[i].bytes) {
            errno = EFAULT;
            return true;
        }
    }
    return false;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
    return is_refused(pd, addr) ? NULL : sim.soft.reg_mr(pd, addr, bytes, access);
}

static struct ibv_mr *reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova,
                                   unsigned access)
{
    return is_refused(pd, addr) ? NULL : sim.soft.reg_mr_iova2(pd, addr, bytes, iova, access);
}

static bool is_creating(const struct ibv_qp_attr *attr)
{
    return attr->qp_state == IBV_QPS_INIT || attr->qp_state == IBV_QPS_RTR || attr->qp_state == IBV_QPS_RTS;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    uint32_t faults = sim.faults[device_of(qp->context)];
    bool to_error = mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR;

    if (faults && to_error)
        dt_say("    modify_qp(%u, ERR) with faults %u", qp->qp_num, faults);
    if (to_error && faults & DT_VERBS_MODIFY_FAILS)
        return EIO;
    if (to_error && faults & DT_VERBS_MODIFY_LIES)
        return 0;
    if (to_error && faults & DT_VERBS_MODIFY_DENIES) {
        sim.soft.modify_qp(qp, attr, mask);
        return EIO;
    }
    if (faults & DT_VERBS_CREATE_FAILS && mask & IBV_QP_STATE && is_creating(attr))
        return EIO;
    return sim.soft.modify_qp(qp, attr, mask);
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp *qp;

    if (sim.faults[device_of(pd->context)] & DT_VERBS_CREATE_FAILS) {
        errno = EIO;
        return NULL;
    }
    qp = sim.soft.create_qp(pd, attr);
    if (!qp || attr->send_cq == attr->recv_cq)
        return qp;
    DT_CHECK(sim.qp_count < QPS_MAX);
    sim.qp[sim.qp_count++] = qp;
    attr->recv_cq->handle |= OF_RECEIVES;
    return qp;
}

static int destroy_qp(struct ibv_qp *qp)
{
    for (uint32_t i = 0; i < sim.qp_count; i++) {
        if (sim.qp[i] == qp) {
            sim.qp[i] = sim.qp[--sim.qp_count];
            break;
        }
    }
    return sim.soft.destroy_qp(qp);
}

void dt_verbs_sim_fail_qps(uint32_t device)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    for (uint32_t i = 0; i < sim.qp_count; i++) {
        if (device_of(sim.qp[i]->context) == device)
            sim.soft.modify_qp(sim.qp[i], &attr, IBV_QP_STATE);
    }
}

/* Only asks when there may be one: asking costs a system call. A context of before, which is asked until the
 * device is opened again, does not answer for the newest. */
static int get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    uint32_t device = device_of(context);
    bool is_newest = context == sim.newest[device];
    int error;

    if ((is_newest && !sim.may_have_event[device]) || sim.faults[device] & DT_VERBS_EVENTS_HELD) {
        errno = EAGAIN;
        return -1;
    }
    error = sim.soft.get_async_event(context, event);
    if (error && is_newest)
        sim.may_have_event[device] = false;
    return error;
}

static int take_completions(struct ibv_cq *cq, int count, struct ibv_wc *wcs, uint32_t device)
{
    int taken = sim.poll_cq(cq, count, wcs);

    for (int i = 0; i < taken; i++)
        if (wcs[i].status == IBV_WC_SUCCESS && wcs[i].opcode == IBV_WC_RDMA_READ)
            dt_gpu_writes_flush(device);
    return taken;
}

/* Each has a number, in the order of their creation. */
static struct ibv_cq *create_cq(struct ibv_context *context, int cqe, void *arg,
                                struct ibv_comp_channel *channel, int vector)
{
    struct ibv_cq *cq = sim.soft.create_cq(context, cqe, arg, channel, vector);

    if (cq)
        cq->handle = sim.cq_count++;
    return cq;
}

/* As good as drawn: the queues of a path are created one after the other. */
static bool is_of_silent_half(const struct ibv_cq *cq)
{
    return ((cq->handle & ~OF_RECEIVES) * 2654435761u) >> 31;
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wcs)
{
    uint32_t device = device_of(cq->context), faults = sim.faults[device];
    int taken, kept = 0;

    if (!faults)
        return take_completions(cq, count, wcs, device);
    if (faults & DT_VERBS_CQ_SILENT || (faults & DT_VERBS_HALF_SILENT && is_of_silent_half(cq)) ||
        (faults & DT_VERBS_RECEIVES_LATE && cq->handle & OF_RECEIVES))
        return 0;
    taken = take_completions(cq, count, wcs, device);
    for (int i = 0; i < taken; i++) {
        if (faults & DT_VERBS_CQ_LOST || (faults & DT_VERBS_NO_FLUSH && wcs[i].status == IBV_WC_WR_FLUSH_ERR))
            continue;
        wcs[kept++] = wcs[i];
    }
    return taken < 0 ? taken : kept;
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    int error = sim.soft.query_device(context, attr);

    if (!error && sim.qp_wr_max)
        attr->max_qp_wr = (int)sim.qp_wr_max;
    return error;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
    struct ibv_context *context = sim.soft.open_device(device);

    if (!context)
        return NULL;
    sim.poll_cq = context->ops.poll_cq;
    context->ops.poll_cq = poll_cq;
    sim.newest[device_of(context)] = context;
    return context;
}

enum dt_status dt_verbs_sim_open(uint32_t device_count, struct dt_verbs **verbs)
{
    char reason[128];
    struct dt_verbs_table table;
    enum dt_status status = dt_table_soft(device_count, 0, &sim.soft, reason, sizeof reason);

    if (status != DT_OK)
        return status;
    table = sim.soft;
    table.query_device = query_device;
    table.reg_mr = reg_mr;
    table.reg_mr_iova2 = reg_mr_iova2;
    table.modify_qp = modify_qp;
    table.create_qp = create_qp;
    table.destroy_qp = destroy_qp;
    table.create_cq = create_cq;
    table.get_async_event = get_async_event;
    table.open_device = open_device;
    return dt_verbs_open_table(&table, verbs);
}
