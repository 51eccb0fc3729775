/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/listener.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"

struct stranger {
    struct dt_channel *channel; /* or NULL: free place */
    uint64_t deadline_ns;
};

struct dt_listener {
    struct dt_network *network;
    struct dt_stream_port *port;
    struct dt_list listens;
    struct stranger stranger[DT_STRANGERS_MAX];
    struct dt_listener_stats stats;
};

enum dt_status dt_listener_create(struct dt_network *network, struct dt_address *address,
                                  struct dt_listener **out)
{
    struct dt_listener *listener = calloc(1, sizeof *listener);
    enum dt_status status;

    if (!listener)
        return DT_NO_MEMORY;
    listener->network = network;
    dt_list_init(&listener->listens);
    status = network->ops->listen(network, address, &listener->port);
    if (status != DT_OK) {
        free(listener);
        return status;
    }
    *out = listener;
    return DT_OK;
}

static void drop(struct dt_listener *listener, struct stranger *stranger)
{
    dt_channel_close(stranger->channel);
    free(stranger->channel);
    stranger->channel = NULL;
    listener->stats.strangers--;
}

void dt_listener_destroy(struct dt_listener *listener)
{
    for (int i = 0; i < DT_STRANGERS_MAX; i++) {
        if (listener->stranger[i].channel)
            drop(listener, &listener->stranger[i]);
    }
    listener->network->ops->close_port(listener->port);
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

/* Somebody has said HELLO: to one of ours? */
static void introduce(struct dt_listener *listener, struct stranger *stranger, const struct dt_hello *hello)
{
    dt_list_for_each(node, &listener->listens)
    {
        struct dt_listen *listen = dt_container_of(node, struct dt_listen, node);

        if (listen->id != hello->listen_id || listen->nonce != hello->nonce || listen->incoming ||
            listen->setup)
            continue;
        listen->incoming = stranger->channel;
        listen->hello = *hello;
        stranger->channel = NULL;
        listener->stats.strangers--;
        return;
    }
    listener->stats.rejected++;
    dt_listener_reject(stranger->channel, "nobody listens for this connection any more");
    drop(listener, stranger);
}

static void hear(struct dt_listener *listener, struct stranger *stranger, uint64_t now_ns)
{
    struct dt_frame frame;
    struct dt_hello hello;
    enum dt_status status = dt_channel_receive(stranger->channel, &frame);

    if (status == DT_AGAIN && now_ns < stranger->deadline_ns)
        return;
    if (status == DT_OK && frame.type == DT_FRAME_HELLO &&
        dt_hello_decode(frame.body, frame.bytes, &hello) == DT_OK) {
        introduce(listener, stranger, &hello);
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
