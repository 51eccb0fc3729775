/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "softrnic/engine_state.h"

struct dt_rnic_cq *dt_rnic_cq_create(struct dt_rnic *rnic, uint32_t entries, bool can_notify, void *context)
{
    struct dt_rnic_cq *cq;
    uint32_t count;

    if (!entries || entries > DT_RNIC_CQ_ENTRIES_MAX) {
        errno = EINVAL;
        return NULL;
    }
    if (rnic->is_fatal) {
        errno = EIO;
        return NULL;
    }
    count = (uint32_t)dt_round_up_power_of_two(entries);
    cq = calloc(1, sizeof *cq);
    if (cq)
        cq->cqes = malloc(count * sizeof *cq->cqes);
    if (!cq || !cq->cqes) {
        free(cq);
        errno = ENOMEM;
        return NULL;
    }
    cq->rnic = rnic;
    cq->context = context;
    cq->can_notify = can_notify;
    dt_ring_init(&cq->ring, count);
    dt_list_push_back(&rnic->cqs, &cq->node);
    return cq;
}

int dt_rnic_cq_destroy(struct dt_rnic_cq *cq)
{
    if (cq->users)
        return EBUSY;
    DT_CHECK(!dt_list_is_empty(&cq->node)); /* destroyed once */
    dt_list_remove(&cq->node);
    free(cq->cqes);
    free(cq);
    return 0;
}

void *dt_rnic_cq_context(const struct dt_rnic_cq *cq)
{
    return cq->context;
}

uint32_t dt_rnic_cq_entries(const struct dt_rnic_cq *cq)
{
    return cq->ring.count;
}

uint32_t dt_rnic_cq_poll(struct dt_rnic_cq *cq, struct dt_cqe *cqes, uint32_t count)
{
    uint32_t used = dt_ring_used(&cq->ring);
    uint32_t n = used < count ? used : count;

    DT_CHECK_HOT(used <= cq->ring.count);
    for (uint32_t i = 0; i < n; i++) {
        cqes[i] = cq->cqes[dt_ring_front(&cq->ring)];
        dt_ring_pop(&cq->ring);
    }
    return n;
}

bool dt_rnic_cq_has_some(const struct dt_rnic_cq *cq)
{
    return dt_ring_used(&cq->ring) > 0;
}

/*
 * Arming and completing synchronize on `armed`: both use a read-modify-write (notify() adds 0), so the second
 * sees the first. Either the application's next poll sees the completion, or notify() sees that the CQ is
 * armed.
 */
void dt_rnic_cq_arm(struct dt_rnic_cq *cq, bool solicited_only)
{
    uint32_t wanted = solicited_only ? DT_CQ_ARMED_SOLICITED : DT_CQ_ARMED_ANY;
    uint32_t armed = dt_load_relaxed(&cq->armed);

    DT_CHECK_HOT(armed <= DT_CQ_ARMED_ANY);
    /* The stronger request stays in effect until it has fired. */
    while (!dt_compare_swap(&cq->armed, &armed, armed > wanted ? armed : wanted)) {
    }
}

static void notify(struct dt_rnic_cq *cq, bool is_solicited)
{
    uint32_t armed = dt_fetch_add_acq_rel(&cq->armed, 0);

    if (armed == DT_CQ_DISARMED || (armed == DT_CQ_ARMED_SOLICITED && !is_solicited))
        return;
    if (dt_exchange_acq_rel(&cq->armed, DT_CQ_DISARMED) && cq->rnic->options.notify)
        cq->rnic->options.notify(cq->rnic->options.context, cq);
}

bool dt_cq_push(struct dt_rnic_cq *cq, const struct dt_cqe *cqe)
{
    if (cq->is_broken)
        return false;
    if (!dt_ring_room(&cq->ring)) {
        cq->is_broken = true;
        dt_rnic_raise(cq->rnic, IBV_EVENT_CQ_ERR, NULL, cq);
        return false;
    }
    DT_CHECK_HOT(dt_qp_find(cq->rnic, cqe->qpn) && cq->users > 0);
    cq->cqes[dt_ring_back(&cq->ring)] = *cqe;
    dt_ring_push(&cq->ring);
    if (cqe->status != IBV_WC_SUCCESS)
        cq->rnic->counters.completions_failed++;
    if (cq->can_notify)
        notify(cq, cqe->status != IBV_WC_SUCCESS || cqe->flags & DT_CQE_SOLICITED);
    return true;
}

void dt_rnic_cq_purge(struct dt_rnic_cq *cq, uint32_t qpn)
{
    uint32_t mask = cq->ring.count - 1, to = cq->ring.tail;

    for (uint32_t from = cq->ring.tail; from != cq->ring.head; from++) {
        if (cq->cqes[from & mask].qpn != qpn)
            cq->cqes[to++ & mask] = cq->cqes[from & mask];
    }
    DT_CHECK(to - cq->ring.tail <= cq->ring.count);
    dt_store_release(&cq->ring.head, to);
}
