/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/fault_layer.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "verbs/fault_personality.h"
#include "verbs/object.h"

static pthread_mutex_t layers_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct dt_list layers = {&layers, &layers};

struct dt_fault_layer *dt_fault_layer_find(const struct ibv_context *context)
{
    struct dt_fault_layer *found = NULL;

    pthread_mutex_lock(&layers_mutex);
    dt_list_for_each(node, &layers)
    {
        struct dt_fault_layer *layer = dt_container_of(node, struct dt_fault_layer, node);

        if (layer->context == context)
            found = layer;
    }
    pthread_mutex_unlock(&layers_mutex);
    return found;
}

struct dt_fault_layer *dt_fault_layer_of(const struct ibv_context *context)
{
    struct dt_fault_layer *layer = dt_fault_layer_find(context);

    DT_CHECK(layer);
    return layer;
}

/* ------------------------------------------------------------------------------------------------------------
 * Opening
 */
static bool open_fds(struct dt_fault_layer *layer)
{
    struct epoll_event event = {.events = EPOLLIN};

    layer->event_fd = epoll_create1(EPOLL_CLOEXEC);
    layer->raised_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return layer->event_fd >= 0 && layer->raised_fd >= 0 &&
           epoll_ctl(layer->event_fd, EPOLL_CTL_ADD, layer->raised_fd, &event) == 0 &&
           epoll_ctl(layer->event_fd, EPOLL_CTL_ADD, layer->context->async_fd, &event) == 0;
}

static void close_fds(struct dt_fault_layer *layer)
{
    if (layer->event_fd >= 0)
        close(layer->event_fd);
    if (layer->raised_fd >= 0)
        close(layer->raised_fd);
}

enum dt_status dt_fault_layer_open(struct dt_fault_layer *layer, const struct dt_verbs_table *below,
                                   struct ibv_context *context, uint32_t port)
{
    *layer = (struct dt_fault_layer){.below = below,
                                     .context = context,
                                     .port = port,
                                     .poll_cq = context->ops.poll_cq,
                                     .post_send = context->ops.post_send,
                                     .post_recv = context->ops.post_recv};
    if (!open_fds(layer)) {
        dt_warn("fault-events", "no descriptor for a device's events: %s", strerror(errno));
        close_fds(layer);
        return DT_SYSTEM;
    }
    pthread_mutex_init(&layer->mutex, NULL);
    pthread_cond_init(&layer->gone, NULL);
    dt_list_init(&layer->qps);
    for (size_t i = 0; i < DT_FAULT_BUCKETS; i++)
        dt_list_init(&layer->bucket[i]);
    pthread_mutex_lock(&layers_mutex);
    dt_list_push_back(&layers, &layer->node);
    pthread_mutex_unlock(&layers_mutex);
    return DT_OK;
}

void dt_fault_layer_forget_events(struct dt_fault_layer *layer)
{
    epoll_ctl(layer->event_fd, EPOLL_CTL_DEL, layer->context->async_fd, NULL);
}

void dt_fault_layer_close(struct dt_fault_layer *layer)
{
    DT_CHECK(dt_list_is_empty(&layer->qps) && layer->broken_count == 0);
    pthread_mutex_lock(&layers_mutex);
    dt_list_remove(&layer->node);
    pthread_mutex_unlock(&layers_mutex);
    pthread_cond_destroy(&layer->gone);
    pthread_mutex_destroy(&layer->mutex);
    close_fds(layer);
}

/* ------------------------------------------------------------------------------------------------------------
 * Looking for faults; with the mutex held
 */
struct dt_fault_state *dt_fault_find(struct dt_fault_layer *layer, enum dt_device_fault_kind kind)
{
    for (size_t i = 0; i < layer->count; i++) {
        if (layer->state[i].fault.kind == kind && layer->state[i].left > 0)
            return &layer->state[i];
    }
    return NULL;
}

struct dt_fault_state *dt_fault_find_call(struct dt_fault_layer *layer, enum dt_device_fault_kind kind,
                                          enum dt_device_call call)
{
    for (size_t i = 0; i < layer->count; i++) {
        const struct dt_fault_state *state = &layer->state[i];

        if (state->fault.kind == kind && state->fault.call == call && state->left > 0)
            return &layer->state[i];
    }
    return NULL;
}

void dt_fault_acts(struct dt_fault_state *state)
{
    DT_CHECK(state->left > 0);
    dt_fetch_add_relaxed(state->fault.fired, 1);
    if (state->left != UINT64_MAX)
        state->left--;
}

static struct dt_fault_state *find_down(struct dt_fault_layer *layer)
{
    struct dt_fault_state *dead = dt_fault_find(layer, DT_DEVICE_FAULT_DEAD);

    return dead ? dead : dt_fault_find(layer, DT_DEVICE_FAULT_DOWN);
}

bool dt_fault_layer_is_down(struct dt_fault_layer *layer)
{
    bool is_down;

    pthread_mutex_lock(&layer->mutex);
    is_down = find_down(layer) != NULL;
    pthread_mutex_unlock(&layer->mutex);
    return is_down;
}

bool dt_fault_has_name_down(const char *name)
{
    bool is_down = false;

    pthread_mutex_lock(&layers_mutex);
    dt_list_for_each(node, &layers)
    {
        struct dt_fault_layer *layer = dt_container_of(node, struct dt_fault_layer, node);

        if (strcmp(layer->below->get_device_name(layer->context->device), name) == 0)
            is_down |= dt_fault_layer_is_down(layer);
    }
    pthread_mutex_unlock(&layers_mutex);
    return is_down;
}

void dt_fault_layer_exchange(struct dt_fault_layer *layer)
{
    struct ibv_context_ops *ops = &layer->context->ops;
    bool polls = layer->broken_count > 0 || dt_fault_find(layer, DT_DEVICE_FAULT_SILENT) ||
                 dt_fault_find(layer, DT_DEVICE_FAULT_STATUS) ||
                 dt_fault_find_call(layer, DT_DEVICE_FAULT_FAIL, DT_DEVICE_CALL_POLL_CQ) ||
                 dt_fault_personality_polls(layer);
    bool posts = dt_fault_personality_posts(layer);
    bool sends = posts || dt_fault_find_call(layer, DT_DEVICE_FAULT_FAIL, DT_DEVICE_CALL_POST_SEND);
    bool recvs = posts || dt_fault_find_call(layer, DT_DEVICE_FAULT_FAIL, DT_DEVICE_CALL_POST_RECV) ||
                 dt_fault_personality_receives(layer);

    dt_store_relaxed(&ops->poll_cq, polls ? dt_fault_poll_cq : layer->poll_cq);
    dt_store_relaxed(&ops->post_send, sends ? dt_fault_post_send : layer->post_send);
    dt_store_relaxed(&ops->post_recv, recvs ? dt_fault_post_recv : layer->post_recv);
}

/* ------------------------------------------------------------------------------------------------------------
 * Events; with the mutex held
 */
static void raise_event(struct dt_fault_layer *layer, const struct ibv_async_event *event)
{
    uint64_t one = 1;

    layer->is_fatal |= event->event_type == IBV_EVENT_DEVICE_FATAL;
    if (layer->event_count == DT_FAULT_EVENTS_MAX)
        return;
    layer->events[layer->event_count++] = *event;
    /* The counter cannot be full. */
    DT_CHECK(write(layer->raised_fd, &one, sizeof one) == sizeof one);
}

static void raise_port_event(struct dt_fault_layer *layer, enum ibv_event_type type)
{
    struct ibv_async_event event = {.event_type = type};

    event.element.port_num = (int)layer->port;
    raise_event(layer, &event);
}

static struct ibv_qp *oldest_connected(const struct dt_fault_layer *layer)
{
    dt_list_for_each(node, &layer->qps)
    {
        struct dt_fault_qp *qp = dt_container_of(node, struct dt_fault_qp, node);

        if (qp->is_connected)
            return qp->ibv;
    }
    return NULL;
}

/* Raises the event that a fault is, if there is what it is about. */
static void raise_wanted(struct dt_fault_layer *layer, struct dt_fault_state *state)
{
    struct ibv_async_event event = {.event_type = IBV_EVENT_DEVICE_FATAL};
    struct ibv_qp *qp = oldest_connected(layer);

    switch (state->fault.event) {
    case DT_EVENT_PORT_ACTIVE:
    case DT_EVENT_PORT_ERROR:
    case DT_EVENT_GID_CHANGE:
        event.event_type = state->fault.event == DT_EVENT_PORT_ACTIVE  ? IBV_EVENT_PORT_ACTIVE
                           : state->fault.event == DT_EVENT_PORT_ERROR ? IBV_EVENT_PORT_ERR
                                                                       : IBV_EVENT_GID_CHANGE;
        event.element.port_num = (int)layer->port;
        break;
    case DT_EVENT_CQ_ERROR:
    case DT_EVENT_QP_FATAL:
        if (!qp)
            return;
        event.event_type = state->fault.event == DT_EVENT_CQ_ERROR ? IBV_EVENT_CQ_ERR : IBV_EVENT_QP_FATAL;
        if (state->fault.event == DT_EVENT_CQ_ERROR)
            event.element.cq = qp->send_cq;
        else
            event.element.qp = qp;
        break;
    case DT_EVENT_DEVICE_FATAL:
    case DT_EVENT_OTHER:
        break;
    }
    raise_event(layer, &event);
    dt_fault_acts(state);
}

void dt_fault_layer_note_fatal(struct dt_fault_layer *layer)
{
    pthread_mutex_lock(&layer->mutex);
    layer->is_fatal = true;
    pthread_mutex_unlock(&layer->mutex);
}

bool dt_fault_layer_event(struct dt_fault_layer *layer, dt_fault_copy_event *copy, void *arg)
{
    uint64_t count;
    bool has_one;

    pthread_mutex_lock(&layer->mutex);
    has_one = layer->event_count > 0;
    DT_CHECK(layer->event_count <= DT_FAULT_EVENTS_MAX);
    if (has_one) {
        copy(arg, &layer->events[0]);
        memmove(&layer->events[0], &layer->events[1], --layer->event_count * sizeof layer->events[0]);
        if (layer->event_count == 0)
            DT_CHECK(read(layer->raised_fd, &count, sizeof count) == sizeof count);
    }
    pthread_mutex_unlock(&layer->mutex);
    return has_one;
}

/* ------------------------------------------------------------------------------------------------------------
 * Changes
 */
static const struct dt_fault_state *find_id(const struct dt_fault_state *states, size_t count, uint32_t id)
{
    for (size_t i = 0; i < count; i++) {
        if (states[i].fault.id == id)
            return &states[i];
    }
    return NULL;
}

/* A fault that was not there before. */
static void begin(struct dt_fault_layer *layer, struct dt_fault_state *state, bool was_down)
{
    state->left = state->fault.limit ? state->fault.limit : UINT64_MAX;
    if (state->fault.kind == DT_DEVICE_FAULT_EVENT) {
        state->left = 1;
        raise_wanted(layer, state);
    } else if (state->fault.kind == DT_DEVICE_FAULT_DEAD) {
        raise_event(layer, &(struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL});
    } else if (state->fault.kind == DT_DEVICE_FAULT_DOWN && !was_down) {
        raise_port_event(layer, IBV_EVENT_PORT_ERR);
    }
}

bool dt_device_set_faults(struct dt_device *device, const struct dt_device_fault *faults, size_t count)
{
    struct dt_fault_layer *layer = &device->faults;
    struct dt_fault_state old[DT_DEVICE_FAULTS_MAX];
    size_t old_count;
    bool was_down, is_down;

    DT_CHECK(count <= DT_DEVICE_FAULTS_MAX);
    pthread_mutex_lock(&layer->mutex);
    was_down = find_down(layer) != NULL;
    old_count = layer->count;
    memcpy(old, layer->state, sizeof old);
    layer->count = count;
    for (size_t i = 0; i < count; i++) {
        const struct dt_fault_state *known = find_id(old, old_count, faults[i].id);

        layer->state[i] = (struct dt_fault_state){faults[i], known ? known->left : 0};
        if (!known)
            begin(layer, &layer->state[i], was_down);
    }
    is_down = find_down(layer) != NULL;
    if (was_down && !is_down)
        raise_port_event(layer, IBV_EVENT_PORT_ACTIVE);
    dt_fault_layer_exchange(layer);
    pthread_cond_broadcast(&layer->gone);
    pthread_mutex_unlock(&layer->mutex);
    return is_down && !was_down;
}

void dt_device_break(struct dt_device *device)
{
    struct dt_fault_layer *layer = &device->faults;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct dt_fault_state *down;

    pthread_mutex_lock(&layer->mutex);
    down = find_down(layer);
    dt_list_for_each(node, &layer->qps)
    {
        struct dt_fault_qp *qp = dt_container_of(node, struct dt_fault_qp, node);
        int error;

        if (!down || !qp->is_connected)
            continue;
        error = layer->below->modify_qp(qp->ibv, &attr, IBV_QP_STATE);
        if (error)
            dt_info("fault-down", "%s: QP %u: an injected fault could not move it to ERR: %s",
                    device->info.name, qp->ibv->qp_num, strerror(error));
        else
            dt_fault_acts(down);
        qp->is_connected = error != 0;
    }
    pthread_mutex_unlock(&layer->mutex);
}
