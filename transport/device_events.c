/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/device_events.h"

#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "transport/message/connection.h"
#include "transport/device_thread.h"
#include "transport/path/path.h"

/* Does the event concern this path? One CQ or queue pair names its path as `user`. */
static bool concerns(const struct dt_device_event *event, const struct dt_path *path)
{
    switch (event->type) {
    case DT_EVENT_DEVICE_FATAL:
        return true;
    case DT_EVENT_CQ_ERROR:
    case DT_EVENT_QP_FATAL:
        return event->user == path;
    case DT_EVENT_PORT_ERROR:
        return event->port == path->nic->info.port;
    default:
        return false;
    }
}

/* A path that failed may work again: the port has its link, or other addresses, which the control thread
 * looks up before it makes queue pairs (dt_device_refresh()). */
static bool may_help(const struct dt_device_event *event)
{
    return event->type == DT_EVENT_PORT_ACTIVE || event->type == DT_EVENT_GID_CHANGE;
}

static void apply(struct dt_connection *c, const struct dt_nic *nic, const struct dt_device_event *event)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (c->path[p].nic == nic && may_help(event) && event->port == nic->info.port) {
            __atomic_fetch_or(&c->hints, 1u << p, __ATOMIC_ACQ_REL);
            dt_nic_wake(c->nic);
        }
        if (c->path[p].nic != nic || !concerns(event, &c->path[p]))
            continue;
        DT_CHECK(c->path[p].connection == c && c->path[p].index == p);
        c->path[p].device_event = *event;
        dt_connection_suspect(c, &c->path[p], DT_FAULT_EVENT);
    }
}

/* All connections, whatever their default device. Called without a mutex. */
static void apply_to_all(struct dt_nic *nic, const struct dt_device_event *event)
{
    struct dt_net *net = nic->net;

    for (size_t i = 0; i < net->nic_count; i++) {
        pthread_mutex_lock(&net->nic[i].mutex);
        dt_list_for_each(node, &net->nic[i].service->connections)
            apply(dt_container_of(node, struct dt_connection, node), nic, event);
        pthread_mutex_unlock(&net->nic[i].mutex);
    }
}

static void write_event(const struct dt_nic *nic, const struct dt_device_event *event, uint64_t now_ns)
{
    struct dt_event_record record = dt_event_of(DT_EVENT_KIND_DEVICE, now_ns);

    if (!nic->environment->page)
        return;
    snprintf(record.nic, sizeof record.nic, "%.31s", nic->name);
    dt_event_write(dt_page_events(nic->environment->page), &record, "%s: %s", nic->name,
                   dt_event_type_text(event->type));
}

/* A device whose events cannot be read any more is gone, whether it has reported that or not. */
static bool next_event(const struct dt_nic *nic, struct dt_device *device, struct dt_device_event *event)
{
    enum dt_status status = dt_device_next_event(device, event);

    if (status != DT_SYSTEM || dt_load_relaxed(&nic->is_dead))
        return status == DT_OK;
    *event = (struct dt_device_event){.type = DT_EVENT_DEVICE_FATAL, .name = "its events have ended"};
    return true;
}

void dt_device_events_read(struct dt_nic *nic, uint64_t now_ns)
{
    struct dt_device *device = dt_load_acquire(&nic->device);
    struct dt_device_event event;

    nic->service->is_event_ready = false;
    while (device && next_event(nic, device, &event)) {
        dt_log(event.type == DT_EVENT_DEVICE_FATAL ? DT_LOG_WARN : DT_LOG_INFO, "device-event", "%s: %s (%s)",
               nic->name, dt_event_type_text(event.type), event.name);
        write_event(nic, &event, now_ns);
        if (event.type == DT_EVENT_DEVICE_FATAL)
            dt_store_relaxed(&nic->is_dead, 1u);
        apply_to_all(nic, &event);
    }
}

void dt_device_events_hint(struct dt_nic *nic, uint64_t now_ns)
{
    struct dt_device_event event = {
        .type = DT_EVENT_PORT_ACTIVE, .port = nic->info.port, .name = "the device is back"};

    write_event(nic, &event, now_ns);
    apply_to_all(nic, &event);
}
