/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous events of a device: the library's, and those that a fault raises. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "verbs/object.h"

static enum dt_event_type event_type_of(enum ibv_event_type type)
{
    switch (type) {
    case IBV_EVENT_PORT_ACTIVE:
        return DT_EVENT_PORT_ACTIVE;
    case IBV_EVENT_PORT_ERR:
        return DT_EVENT_PORT_ERROR;
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
        return DT_EVENT_GID_CHANGE;
    case IBV_EVENT_DEVICE_FATAL:
        return DT_EVENT_DEVICE_FATAL;
    case IBV_EVENT_CQ_ERR:
        return DT_EVENT_CQ_ERROR;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        return DT_EVENT_QP_FATAL;
    default:
        return DT_EVENT_OTHER;
    }
}

/* The object of an event may be destroyed once the event is acknowledged, so everything is copied here. */
static void copy_event(const struct dt_verbs_table *table, const struct ibv_async_event *from,
                       struct dt_device_event *to)
{
    memset(to, 0, sizeof *to);
    to->type = event_type_of(from->event_type);
    snprintf(to->name, sizeof to->name, "%s", table->event_type_str(from->event_type));
    switch (to->type) {
    case DT_EVENT_PORT_ACTIVE:
    case DT_EVENT_PORT_ERROR:
    case DT_EVENT_GID_CHANGE:
        to->port = (uint32_t)from->element.port_num;
        break;
    case DT_EVENT_CQ_ERROR:
        to->user = from->element.cq->cq_context;
        break;
    case DT_EVENT_QP_FATAL:
        to->qpn = from->element.qp->qp_num;
        to->user = from->element.qp->qp_context;
        break;
    case DT_EVENT_DEVICE_FATAL:
    case DT_EVENT_OTHER:
        break;
    }
}

struct copy {
    const struct dt_verbs_table *table;
    struct dt_device_event *to;
};

static void copy_raised(void *arg, const struct ibv_async_event *event)
{
    const struct copy *copy = (const struct copy *)arg;

    copy_event(copy->table, event, copy->to);
}

int dt_device_event_fd(const struct dt_device *device)
{
    return device->faults.event_fd;
}

/*
 * The kernel gives the descriptor of a removed device an error that stays, whatever reading it answers. A
 * software RNIC reports its removal as an event; simulations read the events of one in each round.
 */
static bool is_hung_up(const struct dt_device *device)
{
    struct pollfd poll_fd = {.fd = device->context->async_fd, .events = POLLIN};

    return !device->info.is_soft && poll(&poll_fd, 1, 0) > 0 && !(poll_fd.revents & POLLIN) &&
           poll_fd.revents & (POLLERR | POLLHUP);
}

/* Nothing may wait for a descriptor any more that is always ready and has nothing to read. */
static enum dt_status lose_events(struct dt_device *device, int error)
{
    device->has_lost_events = true;
    dt_fault_layer_forget_events(&device->faults);
    dt_warn("device-events-lost", "%s: events cannot be read any more: %s", device->info.name,
            strerror(error));
    return DT_SYSTEM;
}

enum dt_status dt_device_next_event(struct dt_device *device, struct dt_device_event *event)
{
    const struct dt_verbs_table *table = &device->verbs->table;
    struct copy copy = {table, event};
    struct ibv_async_event raw;

    if (dt_fault_layer_event(&device->faults, copy_raised, &copy))
        return DT_OK;
    if (device->has_lost_events)
        return DT_AGAIN;
    if (table->get_async_event(device->context, &raw)) {
        bool is_none = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;

        return is_none && !is_hung_up(device) ? DT_AGAIN : lose_events(device, is_none ? EPIPE : errno);
    }
    if (raw.event_type == IBV_EVENT_DEVICE_FATAL)
        dt_fault_layer_note_fatal(&device->faults);
    copy_event(table, &raw, event);
    table->ack_async_event(&raw);
    return DT_OK;
}
