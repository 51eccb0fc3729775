/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/provider/events.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/ib_user_verbs.h>

#define UNREAD_MAX 256

int dt_uverbs_events_open(struct dt_uverbs_context *context, int *provider_fd)
{
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
        return errno;
    context->events_fd = fds[0];
    context->unread_fd = fcntl(fds[1], F_DUPFD_CLOEXEC, 0);
    *provider_fd = fds[1];
    return 0;
}

void dt_uverbs_events_close(struct dt_uverbs_context *context)
{
    if (context->events_fd < 0)
        return;
    close(context->events_fd);
    close(context->unread_fd);
}

static bool send_one(struct dt_uverbs_context *context, const struct ib_uverbs_async_event_desc *record)
{
    return send(context->events_fd, record, sizeof *record, MSG_DONTWAIT | MSG_NOSIGNAL) ==
           (ssize_t)sizeof *record;
}

static void pass_one(struct dt_uverbs_context *context, const struct ibv_async_event *event)
{
    struct ib_uverbs_async_event_desc record = {.event_type = event->event_type};
    struct dt_uverbs_object *object = NULL;

    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        object = event->element.cq->cq_context;
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
        object = event->element.qp->qp_context;
        break;
    default:
        break;
    }
    record.element = object ? object->user_handle : (uint64_t)event->element.port_num;
    if (!send_one(context, &record))
        dt_uverbs_refuse("event %d: too many unread ones", (int)event->event_type);
    else if (object)
        object->events_given++;
}

void dt_uverbs_events_pass(struct dt_uverbs_context *context)
{
    struct ibv_async_event event;

    while (!dt_soft_get_async_event(context->soft, &event)) {
        pass_one(context, &event);
        dt_soft_ack_async_event(&event);
    }
}

uint32_t dt_uverbs_events_forget(struct dt_uverbs_object *object)
{
    struct ib_uverbs_async_event_desc unread[UNREAD_MAX];
    struct dt_uverbs_context *context = object->context;
    int count = 0;

    dt_uverbs_events_pass(context);
    while (count < UNREAD_MAX && recv(context->unread_fd, &unread[count], sizeof unread[0], MSG_DONTWAIT) ==
                                     (ssize_t)sizeof unread[0])
        count++;
    for (int i = 0; i < count; i++) {
        if (unread[i].element == object->user_handle)
            object->events_given--;
        else
            send_one(context, &unread[i]);
    }
    return object->events_given;
}
