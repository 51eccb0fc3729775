/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "softrnic/front.h"

/* ---- queues ---------------------------------------------------------------------------------------------
 */

int dt_front_events_init(struct dt_front_events *events)
{
    events->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    if (events->fd < 0)
        return errno;
    pthread_mutex_init(&events->lock, NULL);
    dt_list_init(&events->entries);
    events->count = 0;
    return 0;
}

void dt_front_events_free(struct dt_front_events *events)
{
    struct dt_list *node;

    while ((node = dt_list_pop_front(&events->entries)))
        free(dt_container_of(node, struct dt_front_event, node));
    pthread_mutex_destroy(&events->lock);
    close(events->fd);
}

/* False when the queue is full of unread events. */
static bool append(struct dt_front_events *events, struct dt_front_event *event)
{
    uint64_t one = 1;

    pthread_mutex_lock(&events->lock);
    DT_CHECK((events->count == 0) == dt_list_is_empty(&events->entries));
    bool has_room = events->count < DT_FRONT_EVENTS_MAX;
    if (has_room) {
        dt_list_push_back(&events->entries, &event->node);
        events->count++;
        ssize_t ignored = write(events->fd, &one, sizeof one);
        (void)ignored; /* far from the counter's limit */
    }
    pthread_mutex_unlock(&events->lock);
    return has_room;
}

void dt_front_events_push(struct dt_front_events *events, struct dt_front_acks *acks,
                          const struct ibv_async_event *async)
{
    struct dt_front_event *event = malloc(sizeof *event);

    if (event) {
        event->acks = acks;
        event->async = *async;
        if (append(events, event))
            return;
        free(event);
    }
    dt_warn("soft-event-lost",
            "software RNIC: an event is lost (type %d): out of memory, or %u of them were never read",
            (int)async->event_type, DT_FRONT_EVENTS_MAX);
}

/* Oldest entry, or NULL when it was removed after its count had been read from the descriptor. */
static struct dt_front_event *take(struct dt_front_events *events)
{
    struct dt_front_event *event = NULL;

    pthread_mutex_lock(&events->lock);
    struct dt_list *node = dt_list_pop_front(&events->entries);
    if (node) {
        event = dt_container_of(node, struct dt_front_event, node);
        DT_CHECK(events->count > 0);
        events->count--;
        if (event->acks) {
            pthread_mutex_lock(event->acks->mutex);
            event->acks->given++;
            pthread_mutex_unlock(event->acks->mutex);
        }
    }
    pthread_mutex_unlock(&events->lock);
    return event;
}

int dt_front_events_pop(struct dt_front_events *events, struct ibv_async_event *async)
{
    struct dt_front_event *event;
    uint64_t one;

    do {
        if (read(events->fd, &one, sizeof one) != (ssize_t)sizeof one)
            return errno;
        event = take(events);
    } while (!event);
    *async = event->async;
    free(event);
    return 0;
}

void dt_front_events_forget(struct dt_front_events *events, const struct dt_front_acks *acks)
{
    uint64_t one;
    struct iovec iov = {.iov_base = &one, .iov_len = sizeof one};

    pthread_mutex_lock(&events->lock);
    dt_list_for_each(node, &events->entries)
    {
        struct dt_front_event *event = dt_container_of(node, struct dt_front_event, node);

        if (event->acks != acks)
            continue;
        DT_CHECK(events->count > 0);
        dt_list_remove(node);
        free(event);
        events->count--;
        /* Independent of the descriptor's flags. On failure a reader has taken the count already and will
         * find no entry. */
        ssize_t ignored = preadv2(events->fd, &iov, 1, -1, RWF_NOWAIT);
        (void)ignored;
    }
    pthread_mutex_unlock(&events->lock);
}

/* ---- acknowledgements -----------------------------------------------------------------------------------
 */

void dt_front_acks_done(struct dt_front_acks *acks, uint32_t count)
{
    pthread_mutex_lock(acks->mutex);
    *acks->done += count;
    pthread_cond_signal(acks->cond);
    pthread_mutex_unlock(acks->mutex);
}

void dt_front_acks_wait(struct dt_front_acks *acks)
{
    pthread_mutex_lock(acks->mutex);
    while (*acks->done != acks->given)
        pthread_cond_wait(acks->cond, acks->mutex);
    pthread_mutex_unlock(acks->mutex);
}

void dt_front_acks_cancel(struct dt_front_acks *acks)
{
    pthread_mutex_lock(acks->mutex);
    acks->given = *acks->done;
    pthread_mutex_unlock(acks->mutex);
}

/* ---- asynchronous events --------------------------------------------------------------------------------
 */

/* Passes an event about the device or its port to every context of the device. */
static void push_to_all(struct dt_soft_device *device, const struct ibv_async_event *async)
{
    dt_list_for_each(node, &device->contexts)
        dt_front_events_push(&dt_container_of(node, struct dt_front_context, node)->events, NULL, async);
}

void dt_front_async(void *device, const struct dt_rnic_event *event)
{
    struct ibv_async_event async = {.event_type = event->type};

    if (event->cq) {
        struct dt_front_cq *cq = dt_rnic_cq_context(event->cq);

        async.element.cq = &cq->cq;
        dt_front_events_push(&dt_front_context_of(cq->cq.context)->events, &cq->async_acks, &async);
    } else if (event->qp) {
        struct dt_front_qp *qp = dt_rnic_qp_context(event->qp);

        async.element.qp = &qp->ex.qp_base;
        dt_front_events_push(&dt_front_context_of(qp->ex.qp_base.context)->events, &qp->async_acks, &async);
    } else {
        async.element.port_num = 1;
        push_to_all(device, &async);
    }
}

int dt_soft_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    int error = dt_front_events_pop(&dt_front_context_of(context)->events, event);

    if (error)
        errno = error;
    return error ? -1 : 0;
}

void dt_soft_ack_async_event(struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        dt_front_acks_done(&dt_front_cq_of(event->element.cq)->async_acks, 1);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        dt_front_acks_done(&dt_front_qp_of(event->element.qp)->async_acks, 1);
        break;
    default:
        break; /* device events need no acknowledgement */
    }
}
