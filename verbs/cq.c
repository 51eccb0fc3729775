/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues: from the library's completions to ours. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

#include "base/atomics.h"
#include "base/log.h"
#include "verbs/mlx5_cq.h"
#include "verbs/object.h"

#define BATCH 16

enum dt_status dt_cq_create(struct dt_device *device, uint32_t entries, const void *user, struct dt_cq **cq)
{
    struct dt_cq *created;

    if (!entries || entries > INT_MAX || entries > device->info.cqe_max) {
        dt_warn("cq-size", "%s: a CQ of %u entries was asked for, it can have 1 to %u", device->info.name,
                entries, device->info.cqe_max);
        return DT_INVALID;
    }
    created = calloc(1, sizeof *created);
    if (!created)
        return DT_NO_MEMORY;
    created->ibv = dt_fault_table.create_cq(device->context, (int)entries, (void *)(uintptr_t)user, NULL, 0);
    if (!created->ibv) {
        dt_warn("cq-create", "%s: no CQ of %u entries: %s", device->info.name, entries, strerror(errno));
        free(created);
        return DT_SYSTEM;
    }
    created->device = device;
    dt_fetch_add_acq_rel(&device->objects, 1);
    pthread_mutex_init(&created->lock, NULL);
    *cq = created;
    return DT_OK;
}

void dt_cq_destroy(struct dt_cq *cq)
{
    int error = dt_fault_table.destroy_cq(cq->ibv);

    if (error)
        dt_warn("cq-destroy", "%s: a CQ cannot be destroyed: %s", cq->device->info.name, strerror(error));
    pthread_mutex_destroy(&cq->lock);
    free(cq->mlx5);
    dt_fetch_sub_acq_rel(&cq->device->objects, 1);
    free(cq);
}

/* ------------------------------------------------------------------------------------------------------------
 * Which QP a completion belongs to
 */
enum dt_status dt_cq_attach(struct dt_cq *cq, struct dt_qp *qp, bool is_recv, uint32_t *key)
{
    enum dt_status status = DT_FULL;

    pthread_mutex_lock(&cq->lock);
    if (cq->is_dv)
        status = DT_INVALID;
    for (uint32_t entry = 0; entry < DT_CQ_QPS_MAX && status == DT_FULL; entry++) {
        if (cq->qps[entry])
            continue;
        *key = dt_key_make(is_recv, ++cq->generations[entry], entry);
        DT_CHECK(dt_key_entry(*key) == entry);
        dt_store_release(&cq->qps[entry], qp);
        status = DT_OK;
    }
    pthread_mutex_unlock(&cq->lock);
    if (status == DT_INVALID)
        dt_warn("cq-taken", "%s: a CQ that belongs to the send queue of a dv QP was given to another one",
                qp->device->info.name);
    else if (status == DT_FULL)
        dt_warn("cq-crowded", "%s: more than %d QPs on one CQ", qp->device->info.name, DT_CQ_QPS_MAX);
    return status;
}

void dt_cq_detach(struct dt_cq *cq, uint32_t key)
{
    pthread_mutex_lock(&cq->lock);
    DT_CHECK(dt_key_entry(key) < DT_CQ_QPS_MAX && cq->qps[dt_key_entry(key)]);
    dt_store_release(&cq->qps[dt_key_entry(key)], NULL);
    pthread_mutex_unlock(&cq->lock);
}

/* Does, or did, any QP use this CQ? Under its lock. */
static bool was_used(const struct dt_cq *cq)
{
    for (uint32_t entry = 0; entry < DT_CQ_QPS_MAX; entry++) {
        if (cq->generations[entry])
            return true;
    }
    return cq->is_dv;
}

enum dt_status dt_cq_attach_dv(struct dt_cq *cq, struct dt_qp *qp)
{
    bool used;

    pthread_mutex_lock(&cq->lock);
    used = was_used(cq);
    if (!used) {
        cq->is_dv = true;
        dt_store_release(&cq->dv_qp, qp);
    }
    pthread_mutex_unlock(&cq->lock);
    if (!used)
        return DT_OK;
    dt_warn("cq-used", "%s: a dv QP needs a send CQ that no other QP uses or has used",
            qp->device->info.name);
    return DT_INVALID;
}

void dt_cq_detach_dv(struct dt_cq *cq)
{
    DT_CHECK(cq->is_dv && cq->dv_qp);
    dt_store_release(&cq->dv_qp, NULL);
}

/* ------------------------------------------------------------------------------------------------------------
 * Polling
 */

/*
 * Marks the work request in `slot` and all before it complete. False when that work request is not
 * outstanding: a completion of something else, which is left out.
 */
static inline bool complete_send(struct dt_qp *qp, const struct dt_send_slot *slot, struct dt_completion *out)
{
    if (__builtin_expect(slot->ordinal - qp->completed >= qp->posted - qp->completed, 0))
        return false;
    DT_CHECK_HOT(qp->posted - slot->ordinal <= qp->sq_depth);
    qp->completed = slot->ordinal + 1;
    out->wr_id = slot->wr_id;
    out->direction = DT_WC_SEND;
    return true;
}

static inline bool match(struct dt_cq *cq, const struct ibv_wc *wc, struct dt_completion *out)
{
    uint32_t key = (uint32_t)(wc->wr_id >> 32);
    uint32_t ordinal = (uint32_t)wc->wr_id;
    struct dt_qp *qp;

    if (__builtin_expect(dt_key_entry(key) >= DT_CQ_QPS_MAX, 0))
        return false;
    qp = dt_load_acquire(&cq->qps[dt_key_entry(key)]);
    if (__builtin_expect(!qp, 0))
        return false;
    if (key & DT_KEY_RECV) {
        if (key != qp->recv_key)
            return false;
        qp->recv_completed++;
        out->wr_id = qp->recv_wr_id;
        out->direction = DT_WC_RECV;
        return true;
    }
    return key == qp->send_key && qp->slots[ordinal & qp->slot_mask].ordinal == ordinal &&
           complete_send(qp, &qp->slots[ordinal & qp->slot_mask], out);
}

static inline bool translate(struct dt_cq *cq, const struct ibv_wc *wc, struct dt_completion *out)
{
    struct dt_qp *dv_qp = dt_load_acquire(&cq->dv_qp);

    out->status = wc->status;
    out->vendor_err = wc->vendor_err;
    out->qpn = wc->qp_num;
    out->has_imm = wc->status == IBV_WC_SUCCESS && (wc->wc_flags & IBV_WC_WITH_IMM);
    out->bytes = wc->byte_len;
    out->imm = ntohl(wc->imm_data);
    if (dv_qp)
        return complete_send(dv_qp, &dv_qp->slots[wc->wr_id & dv_qp->slot_mask], out);
    return match(cq, wc, out);
}

__attribute__((cold)) static int poll_failed(struct dt_cq *cq)
{
    dt_warn("cq-failed", "%s: a CQ failed: it can no longer be polled", cq->device->info.name);
    cq->failed = true;
    return -1;
}

/* From the library, or from the queue itself where Detour owns that, and by way of the faults either way. */
static inline int take(struct dt_cq *cq, int count, struct ibv_wc *wcs)
{
    struct dt_mlx5_cq *mlx5 = dt_load_acquire(&cq->mlx5);

    if (__builtin_expect(!mlx5, 1))
        return dt_ibv_poll_cq(cq->ibv, count, wcs);
    if (__builtin_expect(dt_load_relaxed(&cq->ibv->context->ops.poll_cq) == dt_fault_poll_cq, 0))
        return dt_fault_poll_mlx5_cq(cq->ibv, mlx5, count, wcs);
    return dt_mlx5_poll_cq(mlx5, count, wcs);
}

/* Continues while no completion of a full batch belonged to an existing QP, so that 0 means that the CQ is
 * empty. */
int dt_cq_poll(struct dt_cq *cq, struct dt_completion *completions, unsigned count_max)
{
    struct ibv_wc wcs[BATCH];
    int batch = count_max < BATCH ? (int)count_max : BATCH;
    int taken;
    int count = 0;

    if (__builtin_expect(cq->failed || !batch, 0))
        return cq->failed ? -1 : 0;
    do {
        taken = take(cq, batch, wcs);
        if (__builtin_expect(taken < 0, 0))
            return poll_failed(cq);
        for (int i = 0; i < taken; i++)
            count += translate(cq, &wcs[i], &completions[count]);
    } while (__builtin_expect(!count && taken == batch, 0));
    return count;
}
