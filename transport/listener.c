/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/listener.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/planted.h"

struct stranger {
    struct dt_channel *channel; /* or NULL: free place */
    uint64_t deadline_ns;
};

struct dt_listener {
    struct dt_network *network;
    struct dt_stream_port *port;
    struct dt_list listens;
    struct dt_list doors;
    int epoll_fd; /* the port and the strangers; -1: they are looked at now and then */
    struct stranger stranger[DT_STRANGERS_MAX];
    struct dt_listener_stats stats;
};

/* Whatever cannot be watched is looked at now and then. */
static void watch(const struct dt_listener *listener, int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};

    if (fd >= 0 && listener->epoll_fd >= 0)
        epoll_ctl(listener->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

/* The system does not forget a descriptor before all of its copies are closed, and a child may have one. */
static void unwatch(const struct dt_listener *listener, int fd)
{
    if (fd >= 0 && listener->epoll_fd >= 0)
        epoll_ctl(listener->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

enum dt_status dt_listener_create(struct dt_network *network, struct dt_address *address,
                                  struct dt_listener **out)
{
    struct dt_listener *listener = calloc(1, sizeof *listener);
    enum dt_status status;

    if (!listener)
        return DT_NO_MEMORY;
    listener->network = network;
    dt_list_init(&listener->listens);
    dt_list_init(&listener->doors);
    status = network->ops->listen(network, address, &listener->port);
    if (status != DT_OK) {
        free(listener);
        return status;
    }
    listener->epoll_fd = network->ops->port_fd(listener->port) >= 0 ? epoll_create1(EPOLL_CLOEXEC) : -1;
    watch(listener, network->ops->port_fd(listener->port));
    *out = listener;
    return DT_OK;
}

int dt_listener_fd(const struct dt_listener *listener)
{
    return listener->epoll_fd;
}

/* Its channel is somebody else's now, or is about to be closed. */
static struct dt_channel *release(struct dt_listener *listener, struct stranger *stranger)
{
    struct dt_channel *channel = stranger->channel;

    if (channel->stream)
        unwatch(listener, channel->stream->ops->fd(channel->stream));
    stranger->channel = NULL;
    listener->stats.strangers--;
    return channel;
}

static void drop(struct dt_listener *listener, struct stranger *stranger)
{
    dt_channel_free(release(listener, stranger));
}

void dt_listener_destroy(struct dt_listener *listener)
{
    for (int i = 0; i < DT_STRANGERS_MAX; i++) {
        if (listener->stranger[i].channel)
            drop(listener, &listener->stranger[i]);
    }
    listener->network->ops->close_port(listener->port);
    if (listener->epoll_fd >= 0)
        close(listener->epoll_fd);
    free(listener);
}

void dt_listener_add(struct dt_listener *listener, struct dt_listen *listen)
{
    dt_list_push_back(&listener->listens, &listen->node);
}

void dt_listener_remove(struct dt_listener *listener, struct dt_listen *listen)
{
    (void)listener;
    dt_list_remove(&listen->node);
}

void dt_listener_add_door(struct dt_listener *listener, struct dt_door *door)
{
    dt_list_push_back(&listener->doors, &door->node);
}

void dt_listener_remove_door(struct dt_listener *listener, struct dt_door *door)
{
    (void)listener;
    dt_list_remove(&door->node);
}

/* ------------------------------------------------------------------------------------------------------------
 * Strangers
 */

/* A free place; the oldest stranger's if there is none. */
static struct stranger *place_for_one(struct dt_listener *listener)
{
    struct stranger *oldest = &listener->stranger[0];

    for (int i = 0; i < DT_STRANGERS_MAX; i++) {
        struct stranger *stranger = &listener->stranger[i];

        if (!stranger->channel)
            return stranger;
        if (stranger->deadline_ns < oldest->deadline_ns)
            oldest = stranger;
    }
    listener->stats.dropped_crowd++;
    drop(listener, oldest);
    return oldest;
}

void dt_listener_reject(struct dt_channel *channel, const char *reason)
{
    struct dt_reject reject;

    snprintf(reject.reason, sizeof reject.reason, "%s", reason);
    dt_reject_encode(&reject, &channel->out);
    dt_channel_close(channel);
}

static void reject(struct dt_listener *listener, struct stranger *stranger, const char *reason)
{
    listener->stats.rejected++;
    dt_listener_reject(stranger->channel, reason);
    drop(listener, stranger);
}

/* Somebody has said HELLO: to one of ours? */
static void introduce(struct dt_listener *listener, struct stranger *stranger, const struct dt_hello *hello)
{
    dt_list_for_each(node, &listener->listens)
    {
        struct dt_listen *listen = dt_container_of(node, struct dt_listen, node);

        if (listen->id != hello->listen_id || listen->nonce != hello->nonce || listen->incoming ||
            listen->setup)
            continue;
        listen->incoming = release(listener, stranger);
        listen->hello = *hello;
        return;
    }
    reject(listener, stranger, "nobody listens for this connection any more");
}

/* ------------------------------------------------------------------------------------------------------------
 * Peers that have lost their channel
 */

/* The peer's new channel; older ones are no more. */
static void let_in(struct dt_listener *listener, struct stranger *stranger, struct dt_door *door,
                   const struct dt_rejoin *rejoin)
{
    if (rejoin->round <= dt_load_relaxed(&door->round)) {
        reject(listener, stranger, "a newer channel of this connection is there already");
        return;
    }
    listener->stats.rejoined++;
    dt_store_relaxed(&door->round, rejoin->round);
    dt_channel_free(dt_exchange_acq_rel(&door->incoming, release(listener, stranger)));
    dt_nic_wake(door->nic);
}

/* The peer has lost the channel and wants to know whether this process lives. */
static void answer_knock(struct dt_listener *listener, struct stranger *stranger, struct dt_door *door,
                         const struct dt_rejoin *rejoin)
{
    listener->stats.knocked++;
    if (rejoin->round >= dt_load_relaxed(&door->round)) {
        dt_store_release(&door->is_lost, 1u);
        dt_nic_wake(door->nic);
    }
    dt_word_encode(DT_FRAME_WELCOME, &stranger->channel->out);
    drop(listener, stranger);
}

static bool is_peer_of(const struct dt_door *door, const struct dt_rejoin *rejoin)
{
    bool is_known = door->connection_id == rejoin->connection_id && door->nonce == rejoin->nonce;

    return door->is_sender != rejoin->is_sender && (is_known || DT_PLANTED(ANY_PEER));
}

/* Somebody has said REJOIN: the peer of one of ours? */
static void bring_together(struct dt_listener *listener, struct stranger *stranger,
                           const struct dt_rejoin *rejoin)
{
    dt_list_for_each(node, &listener->doors)
    {
        struct dt_door *door = dt_container_of(node, struct dt_door, node);

        if (!is_peer_of(door, rejoin))
            continue;
        if (rejoin->is_sender)
            let_in(listener, stranger, door, rejoin);
        else
            answer_knock(listener, stranger, door, rejoin);
        return;
    }
    reject(listener, stranger, "there is no such connection");
}

static void hear(struct dt_listener *listener, struct stranger *stranger, uint64_t now_ns)
{
    struct dt_frame frame;
    struct dt_hello hello;
    struct dt_rejoin rejoin;
    enum dt_status status = dt_channel_receive(stranger->channel, &frame);

    if (status == DT_AGAIN && now_ns < stranger->deadline_ns)
        return;
    if (status == DT_OK && frame.type == DT_FRAME_HELLO &&
        dt_hello_decode(frame.body, frame.bytes, &hello) == DT_OK) {
        introduce(listener, stranger, &hello);
        return;
    }
    if (status == DT_OK && frame.type == DT_FRAME_REJOIN &&
        dt_rejoin_decode(frame.body, frame.bytes, &rejoin) == DT_OK) {
        bring_together(listener, stranger, &rejoin);
        return;
    }
    if (status == DT_OK || status == DT_PROTOCOL)
        listener->stats.dropped_garbage++;
    else
        listener->stats.dropped_silent++;
    drop(listener, stranger);
}

/* Takes a stream in and listens at once: a peer that has spoken already never waits for a place. */
static void take_in(struct dt_listener *listener, struct dt_stream *stream, uint64_t now_ns)
{
    struct dt_channel *channel = calloc(1, sizeof *channel);
    struct stranger *stranger;

    if (!channel) {
        stream->ops->close(stream);
        return;
    }
    dt_channel_open(channel, stream);
    stranger = place_for_one(listener);
    stranger->channel = channel;
    watch(listener, stream->ops->fd(stream));
    stranger->deadline_ns = dt_deadline_ns(now_ns, DT_STRANGER_NS);
    listener->stats.strangers++;
    hear(listener, stranger, now_ns);
}

void dt_listener_progress(struct dt_listener *listener, uint64_t now_ns)
{
    struct dt_stream *stream;

    for (int i = 0; i < DT_STRANGERS_MAX; i++) {
        if (listener->stranger[i].channel)
            hear(listener, &listener->stranger[i], now_ns);
    }
    for (int i = 0; i < DT_STREAMS_PER_ROUND; i++) {
        if (listener->network->ops->accept(listener->port, &stream) != DT_OK)
            break;
        take_in(listener, stream, now_ns);
    }
}

void dt_listener_query_stats(const struct dt_listener *listener, struct dt_listener_stats *stats)
{
    *stats = listener->stats;
}
