/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/session/listener.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "failover/planted.h"

struct pending_peer {
    struct dt_channel *channel; /* NULL: this entry is free */
    uint64_t deadline_ns;
};

struct dt_listener {
    struct dt_network *network;
    struct dt_stream_port *port;
    struct dt_list listens;
    struct dt_list endpoints;
    int epoll_fd; /* watches the port and the pending peers; -1: they are polled */
    struct pending_peer pending_peer[DT_PENDING_PEERS_MAX];
    struct dt_listener_stats stats;
};

/* A stream without a descriptor is polled (dt_listener_progress). */
static void watch(const struct dt_listener *listener, int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};

    if (fd >= 0 && listener->epoll_fd >= 0)
        epoll_ctl(listener->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

/* Closing the descriptor does not end the watch while a child process has a copy of it. */
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
    dt_list_init(&listener->endpoints);
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

/* Frees the entry; the caller gets the channel. */
static struct dt_channel *release(struct dt_listener *listener, struct pending_peer *pending_peer)
{
    struct dt_channel *channel = pending_peer->channel;

    if (channel->stream)
        unwatch(listener, channel->stream->ops->fd(channel->stream));
    DT_CHECK(listener->stats.pending_peers > 0);
    pending_peer->channel = NULL;
    listener->stats.pending_peers--;
    return channel;
}

static void drop(struct dt_listener *listener, struct pending_peer *pending_peer)
{
    dt_channel_free(release(listener, pending_peer));
}

void dt_listener_destroy(struct dt_listener *listener)
{
    for (int i = 0; i < DT_PENDING_PEERS_MAX; i++) {
        if (listener->pending_peer[i].channel)
            drop(listener, &listener->pending_peer[i]);
    }
    DT_CHECK(listener->stats.pending_peers == 0);
    DT_CHECK(dt_list_is_empty(&listener->listens));
    DT_CHECK(dt_list_is_empty(&listener->endpoints)); /* each session removes its own before */
    listener->network->ops->close_port(listener->port);
    if (listener->epoll_fd >= 0)
        close(listener->epoll_fd);
    free(listener);
}

void dt_listener_add(struct dt_listener *listener, struct dt_listen *listen)
{
    DT_CHECK(!listen->node.next && !listen->incoming); /* on one list, once */
    dt_list_push_back(&listener->listens, &listen->node);
}

void dt_listener_remove(struct dt_listener *listener, struct dt_listen *listen)
{
    (void)listener;
    DT_CHECK(!dt_list_is_empty(&listen->node));
    dt_list_remove(&listen->node);
}

void dt_listener_add_endpoint(struct dt_listener *listener, struct dt_endpoint *endpoint)
{
    DT_CHECK(dt_list_is_empty(&endpoint->node));
    dt_list_push_back(&listener->endpoints, &endpoint->node);
}

void dt_listener_remove_endpoint(struct dt_listener *listener, struct dt_endpoint *endpoint)
{
    (void)listener;
    DT_CHECK(!dt_list_is_empty(&endpoint->node));
    dt_list_remove(&endpoint->node);
}

/* ------------------------------------------------------------------------------------------------------------
 * Pending peers
 */

/* A free entry; the oldest pending peer's if there is none. */
static struct pending_peer *free_entry(struct dt_listener *listener)
{
    struct pending_peer *oldest = &listener->pending_peer[0];

    for (int i = 0; i < DT_PENDING_PEERS_MAX; i++) {
        struct pending_peer *pending_peer = &listener->pending_peer[i];

        if (!pending_peer->channel)
            return pending_peer;
        if (pending_peer->deadline_ns < oldest->deadline_ns)
            oldest = pending_peer;
    }
    listener->stats.dropped_crowd++;
    DT_CHECK(listener->stats.pending_peers == DT_PENDING_PEERS_MAX); /* no entry was free */
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

static void reject(struct dt_listener *listener, struct pending_peer *pending_peer, const char *reason)
{
    listener->stats.rejected++;
    dt_listener_reject(pending_peer->channel, reason);
    drop(listener, pending_peer);
}

/* HELLO: hands the channel to the listen that it names. */
static void take_hello(struct dt_listener *listener, struct pending_peer *pending_peer,
                       const struct dt_hello *hello)
{
    dt_list_for_each(node, &listener->listens)
    {
        struct dt_listen *listen = dt_container_of(node, struct dt_listen, node);

        if (listen->id != hello->listen_id || listen->nonce != hello->nonce || listen->incoming ||
            listen->setup)
            continue;
        listen->incoming = release(listener, pending_peer);
        listen->hello = *hello;
        return;
    }
    reject(listener, pending_peer, "no listen waits for this connection any more");
}

/* ------------------------------------------------------------------------------------------------------------
 * Peers that have lost their channel
 */

/* The sender's new channel; it replaces an older one that the receiver has not taken yet. */
static void take_channel(struct dt_listener *listener, struct pending_peer *pending_peer,
                         struct dt_endpoint *endpoint, const struct dt_rejoin *rejoin)
{
    if (rejoin->round <= dt_load_relaxed(&endpoint->round)) {
        reject(listener, pending_peer, "a newer channel of this connection is there already");
        return;
    }
    DT_CHECK(!endpoint->is_sender);
    listener->stats.rejoined++;
    dt_store_relaxed(&endpoint->round, rejoin->round);
    dt_channel_free(dt_exchange_acq_rel(&endpoint->incoming, release(listener, pending_peer)));
    endpoint->poller->ops->wake(endpoint->poller);
}

/* Liveness probe: the receiver has lost the channel, and asks whether this process is alive. */
static void answer_liveness_dial(struct dt_listener *listener, struct pending_peer *pending_peer,
                                 struct dt_endpoint *endpoint, const struct dt_rejoin *rejoin)
{
    listener->stats.liveness_dials++;
    if (rejoin->round >= dt_load_relaxed(&endpoint->round)) {
        dt_store_release(&endpoint->is_lost, 1u);
        endpoint->poller->ops->wake(endpoint->poller);
    }
    dt_empty_frame_encode(DT_FRAME_WELCOME, &pending_peer->channel->out);
    drop(listener, pending_peer);
}

static bool is_peer_of(const struct dt_endpoint *endpoint, const struct dt_rejoin *rejoin)
{
    bool is_known = endpoint->connection_id == rejoin->connection_id && endpoint->nonce == rejoin->nonce;

    return endpoint->is_sender != rejoin->is_sender && (is_known || DT_PLANTED(ANY_PEER));
}

/* REJOIN: finds the endpoint that it names. */
static void take_rejoin(struct dt_listener *listener, struct pending_peer *pending_peer,
                        const struct dt_rejoin *rejoin)
{
    dt_list_for_each(node, &listener->endpoints)
    {
        struct dt_endpoint *endpoint = dt_container_of(node, struct dt_endpoint, node);

        if (!is_peer_of(endpoint, rejoin))
            continue;
        if (rejoin->is_sender)
            take_channel(listener, pending_peer, endpoint, rejoin);
        else
            answer_liveness_dial(listener, pending_peer, endpoint, rejoin);
        return;
    }
    reject(listener, pending_peer, "there is no such connection");
}

static void read_peer(struct dt_listener *listener, struct pending_peer *pending_peer, uint64_t now_ns)
{
    struct dt_frame frame;
    struct dt_hello hello;
    struct dt_rejoin rejoin;
    struct dt_pair_frame pair;
    enum dt_status status = dt_channel_receive(pending_peer->channel, &frame);

    if (status == DT_AGAIN && now_ns < pending_peer->deadline_ns)
        return;
    if (status == DT_OK && frame.type == DT_FRAME_HELLO &&
        dt_hello_decode(frame.body, frame.bytes, &hello) == DT_OK) {
        take_hello(listener, pending_peer, &hello);
        return;
    }
    if (status == DT_OK && frame.type == DT_FRAME_REJOIN &&
        dt_rejoin_decode(frame.body, frame.bytes, &rejoin) == DT_OK) {
        take_rejoin(listener, pending_peer, &rejoin);
        return;
    }
    if (status == DT_OK && frame.type == DT_FRAME_PAIR && listener->network->ops->adopt &&
        dt_pair_frame_decode(frame.body, frame.bytes, &pair) == DT_OK) {
        listener->stats.carriers++;
        listener->network->ops->adopt(listener->network, release(listener, pending_peer), &pair);
        return;
    }
    if (status == DT_OK || status == DT_PROTOCOL)
        listener->stats.dropped_garbage++;
    else
        listener->stats.dropped_silent++;
    drop(listener, pending_peer);
}

/* Reads at once: a peer whose HELLO is there already never occupies an entry. */
static void add_stream(struct dt_listener *listener, struct dt_stream *stream, uint64_t now_ns)
{
    struct dt_channel *channel = calloc(1, sizeof *channel);
    struct pending_peer *pending_peer;

    if (!channel) {
        stream->ops->close(stream);
        return;
    }
    dt_channel_open(channel, stream);
    pending_peer = free_entry(listener);
    pending_peer->channel = channel;
    watch(listener, stream->ops->fd(stream));
    pending_peer->deadline_ns = dt_deadline_ns(now_ns, DT_PENDING_PEER_NS);
    listener->stats.pending_peers++;
    DT_CHECK(listener->stats.pending_peers <= DT_PENDING_PEERS_MAX);
    read_peer(listener, pending_peer, now_ns);
}

bool dt_listener_progress(struct dt_listener *listener, uint64_t now_ns)
{
    struct dt_stream *stream;

    for (int i = 0; i < DT_PENDING_PEERS_MAX && listener->stats.pending_peers > 0; i++) {
        if (listener->pending_peer[i].channel)
            read_peer(listener, &listener->pending_peer[i], now_ns);
    }
    for (int i = 0; i < DT_STREAMS_PER_ROUND; i++) {
        if (listener->network->ops->accept(listener->port, &stream) != DT_OK)
            return false;
        add_stream(listener, stream, now_ns);
    }
    return true;
}

void dt_listener_query_stats(const struct dt_listener *listener, struct dt_listener_stats *stats)
{
    *stats = listener->stats;
}
