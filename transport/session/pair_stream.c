/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of the connections on their carrier, and the network that makes them. */
#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/util.h"
#include "transport/session/listener.h"
#include "transport/session/pair_state.h"

static struct dt_pair_stream *stream_of(struct dt_stream *stream)
{
    return dt_container_of(stream, struct dt_pair_stream, stream);
}

static struct dt_pairs *pairs_of(struct dt_network *network)
{
    return dt_container_of(network, struct dt_pairs, network);
}

/* Without the thread the calls do its work. */
static void progress_inline(struct dt_pairs *pairs)
{
    if (!dt_load_acquire(&pairs->has_thread))
        dt_pairs_progress(pairs);
}

static void give_news(struct dt_pair_stream *s)
{
    if (s->poller)
        s->poller->ops->wake(s->poller);
}

/* ------------------------------------------------------------------------------------------------------------
 * Streams of a pair
 */
static const struct dt_stream_ops stream_ops;

static struct dt_pair_stream *stream_create(struct dt_pair *pair, uint32_t number)
{
    struct dt_pair_stream *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->stream.ops = &stream_ops;
    s->pairs = pair->pairs;
    s->pair = pair;
    s->number = number;
    s->credit = DT_PAIR_WINDOW_BYTES;
    dt_list_init(&s->opened);
    dt_list_push_back(&pair->bucket[number / 2 % DT_PAIR_BUCKETS], &s->node);
    pair->stream_count++;
    pair->pairs->stats.streams++;
    return s;
}

/* Takes it from the pair; the owner still has it. */
static void detach(struct dt_pair_stream *s)
{
    DT_CHECK(s->pair->stream_count > 0 && s->pair->waiting_count >= (s->is_waiting ? 1u : 0u));
    dt_list_remove(&s->node);
    s->pair->stream_count--;
    s->pair->waiting_count -= s->is_waiting ? 1 : 0;
    s->is_waiting = false;
    s->pair = NULL;
}

static struct dt_pair_stream *find(struct dt_pair *pair, uint32_t number)
{
    dt_list_for_each(node, &pair->bucket[number / 2 % DT_PAIR_BUCKETS])
    {
        struct dt_pair_stream *s = dt_container_of(node, struct dt_pair_stream, node);

        if (s->number == number)
            return s;
    }
    return NULL;
}

void dt_pair_streams_joined(struct dt_pair *pair)
{
    for (uint32_t i = 0; i < DT_PAIR_BUCKETS; i++) {
        dt_list_for_each(node, &pair->bucket[i])
        {
            struct dt_pair_stream *s = dt_container_of(node, struct dt_pair_stream, node);

            DT_CHECK(s->is_waiting); /* streams of a lost carrier are not on the list any more */
            s->is_waiting = false;
            s->has_joined = true;
            give_news(s);
        }
    }
    pair->waiting_count = 0;
}

static void end_stream(struct dt_pair_stream *s, enum dt_status status)
{
    if (!s->has_ended)
        s->ended = status;
    dt_store_release(&s->has_ended, 1u);
    give_news(s);
}

void dt_pair_streams_lost(struct dt_pair *pair, enum dt_status status)
{
    for (uint32_t i = 0; i < DT_PAIR_BUCKETS; i++) {
        dt_list_for_each(node, &pair->bucket[i])
        {
            struct dt_pair_stream *s = dt_container_of(node, struct dt_pair_stream, node);

            detach(s);
            end_stream(s, status);
        }
    }
    DT_CHECK(pair->stream_count == 0 && pair->waiting_count == 0);
}

/* ------------------------------------------------------------------------------------------------------------
 * Records that come in
 */
static void append(struct dt_pair *pair, uint32_t number, enum dt_record_kind kind, uint32_t count)
{
    struct dt_record record = {.stream = number, .kind = (uint16_t)kind, .number = (uint16_t)count};

    pair->pairs->stats.records++;
    if (dt_record_append(&pair->out, &record) != DT_OK)
        pair->is_broken = true; /* the other end would miss it */
}

static enum dt_status take_data(struct dt_pair_stream *s, const struct dt_record *record)
{
    uint32_t at = (s->in_begin + s->in_used) % DT_PAIR_WINDOW_BYTES;
    uint32_t first = (uint32_t)dt_min_u64(record->number, DT_PAIR_WINDOW_BYTES - at);

    if (record->number > DT_PAIR_WINDOW_BYTES - s->in_used)
        return DT_PROTOCOL; /* beyond its window */
    memcpy(s->in + at, record->payload, first);
    memcpy(s->in, record->payload + first, record->number - first);
    dt_store_release(&s->in_used, s->in_used + record->number);
    give_news(s);
    return DT_OK;
}

static enum dt_status take_open(struct dt_pair *pair, const struct dt_record *record)
{
    struct dt_pairs *pairs = pair->pairs;
    bool is_peers = (record->stream & 1u) == (pair->identity > pairs->identity);
    struct dt_pair_stream *s = NULL;

    if (!is_peers || find(pair, record->stream))
        return DT_PROTOCOL;
    if (pairs->has_port && pairs->opened_count < DT_PAIR_OPENED_MAX)
        s = stream_create(pair, record->stream);
    if (!s) {
        append(pair, record->stream, DT_RECORD_END, 0);
        return DT_OK;
    }
    s->is_opened = s->has_joined = true;
    s->peer.process = pair->identity;
    dt_list_push_back(&pairs->opened, &s->opened);
    pairs->opened_count++;
    return take_data(s, record);
}

enum dt_status dt_pair_take_record(struct dt_pair *pair, const struct dt_record *record)
{
    struct dt_pair_stream *s = record->kind == DT_RECORD_OPEN ? NULL : find(pair, record->stream);

    if (record->kind == DT_RECORD_OPEN)
        return take_open(pair, record);
    if (!s)
        return DT_OK; /* closed here already */
    switch ((enum dt_record_kind)record->kind) {
    case DT_RECORD_DATA:
        return s->has_ended ? DT_PROTOCOL : take_data(s, record);
    case DT_RECORD_CREDIT:
        if (record->number > DT_PAIR_WINDOW_BYTES - s->credit)
            return DT_PROTOCOL;
        s->credit += record->number;
        if (s->is_starved)
            give_news(s);
        s->is_starved = false;
        return DT_OK;
    default: /* END */
        end_stream(s, DT_CLOSED);
        return DT_OK;
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * Calls of a stream's owner
 */
static enum dt_status stream_state(struct dt_stream *stream)
{
    struct dt_pair_stream *s = stream_of(stream);
    enum dt_status status =
        DT_OK; /* also of a carrier that is lost since: only a refused dial is a refusal */

    progress_inline(s->pairs);
    pthread_mutex_lock(&s->pairs->mutex);
    if (s->is_waiting)
        status = DT_AGAIN;
    else if (!s->has_joined)
        status = s->ended;
    pthread_mutex_unlock(&s->pairs->mutex);
    return status;
}

/* With the mutex. As TCP, it takes what the peer will not read any more. */
static enum dt_status send_bytes(struct dt_pair_stream *s, const void *from, size_t bytes, size_t *sent)
{
    struct dt_record record = {.stream = s->number, .payload = from};

    if (s->is_waiting)
        return DT_AGAIN;
    if (!s->pair)
        return s->ended;
    *sent = s->has_ended ? bytes : (size_t)dt_min_u64(bytes, s->credit);
    if (s->has_ended)
        return DT_OK;
    record.kind = s->is_opened ? DT_RECORD_DATA : DT_RECORD_OPEN;
    record.number = (uint16_t)*sent;
    s->is_starved = *sent == 0;
    if (s->is_starved || dt_record_append(&s->pair->out, &record) != DT_OK)
        return DT_AGAIN;
    s->is_opened = true;
    s->credit -= (uint32_t)*sent;
    s->pairs->stats.records++;
    dt_pairs_wake(s->pairs);
    return DT_OK;
}

static enum dt_status stream_send(struct dt_stream *stream, const void *from, size_t bytes, size_t *sent)
{
    struct dt_pair_stream *s = stream_of(stream);
    enum dt_status status;

    pthread_mutex_lock(&s->pairs->mutex);
    status = send_bytes(s, from, bytes, sent);
    pthread_mutex_unlock(&s->pairs->mutex);
    progress_inline(s->pairs);
    return status;
}

/* With the mutex. */
static enum dt_status receive_bytes(struct dt_pair_stream *s, uint8_t *to, size_t bytes, size_t *received)
{
    uint32_t count = (uint32_t)dt_min_u64(bytes, s->in_used);
    uint32_t first = (uint32_t)dt_min_u64(count, DT_PAIR_WINDOW_BYTES - s->in_begin);

    if (count == 0)
        return s->has_ended ? s->ended : DT_AGAIN;
    memcpy(to, s->in + s->in_begin, first);
    memcpy(to + first, s->in, count - first);
    s->in_begin = (s->in_begin + count) % DT_PAIR_WINDOW_BYTES;
    dt_store_release(&s->in_used, s->in_used - count);
    s->consumed += count;
    *received = count;
    if (s->consumed < DT_PAIR_WINDOW_BYTES / 2 || !s->pair || s->has_ended)
        return DT_OK;
    append(s->pair, s->number, DT_RECORD_CREDIT, s->consumed);
    s->consumed = 0;
    dt_pairs_wake(s->pairs);
    return DT_OK;
}

static enum dt_status stream_receive(struct dt_stream *stream, void *to, size_t bytes, size_t *received)
{
    struct dt_pair_stream *s = stream_of(stream);
    enum dt_status status;

    if (!dt_load_acquire(&s->has_ended) && dt_load_acquire(&s->in_used) == 0) {
        if (dt_load_acquire(&s->pairs->has_thread))
            return DT_AGAIN;
        dt_pairs_progress(s->pairs);
    }
    pthread_mutex_lock(&s->pairs->mutex);
    status = receive_bytes(s, to, bytes, received);
    pthread_mutex_unlock(&s->pairs->mutex);
    return status;
}

static void stream_peer(struct dt_stream *stream, struct dt_address *address)
{
    *address = stream_of(stream)->peer;
}

static int no_fd(struct dt_stream *stream)
{
    (void)stream;
    return -1;
}

static void stream_set_poller(struct dt_stream *stream, struct dt_poller *poller)
{
    struct dt_pair_stream *s = stream_of(stream);

    pthread_mutex_lock(&s->pairs->mutex);
    s->poller = poller;
    pthread_mutex_unlock(&s->pairs->mutex);
}

static void stream_close(struct dt_stream *stream)
{
    struct dt_pair_stream *s = stream_of(stream);
    struct dt_pairs *pairs = s->pairs;

    pthread_mutex_lock(&pairs->mutex);
    if (!dt_list_is_empty(&s->opened)) {
        dt_list_remove(&s->opened);
        pairs->opened_count--;
    }
    if (s->pair && s->is_opened && !s->has_ended)
        append(s->pair, s->number, DT_RECORD_END, 0);
    if (s->pair)
        detach(s);
    DT_CHECK(pairs->stats.streams > 0);
    pairs->stats.streams--;
    dt_pairs_wake(pairs);
    pthread_mutex_unlock(&pairs->mutex);
    free(s);
    progress_inline(pairs);
}

static const struct dt_stream_ops stream_ops = {
    .state = stream_state,
    .send = stream_send,
    .receive = stream_receive,
    .peer = stream_peer,
    .fd = no_fd,
    .set_poller = stream_set_poller,
    .close = stream_close,
};

bool dt_pairs_use_carrier(struct dt_stream *stream, void (*use)(int fd, void *arg), void *arg)
{
    struct dt_pair_stream *s = stream_of(stream);
    struct dt_stream *carrier;

    if (stream->ops != &stream_ops) {
        use(stream->ops->fd(stream), arg);
        return true;
    }
    pthread_mutex_lock(&s->pairs->mutex);
    carrier = s->pair && !s->is_waiting ? s->pair->carrier.stream : NULL;
    if (carrier)
        use(carrier->ops->fd(carrier), arg);
    pthread_mutex_unlock(&s->pairs->mutex);
    return carrier != NULL;
}

/* ------------------------------------------------------------------------------------------------------------
 * The network
 */
static struct dt_pair_port *port_of(struct dt_stream_port *port)
{
    return dt_container_of(port, struct dt_pair_port, port);
}

static enum dt_status network_listen(struct dt_network *network, struct dt_address *address,
                                     struct dt_stream_port **out)
{
    struct dt_pairs *pairs = pairs_of(network);
    struct dt_pair_port *port = calloc(1, sizeof *port);
    enum dt_status status;

    if (!port)
        return DT_NO_MEMORY;
    status = pairs->real->ops->listen(pairs->real, address, &port->real);
    if (status != DT_OK) {
        free(port);
        return status;
    }
    DT_CHECK(!pairs->has_port); /* a process has one */
    address->process = pairs->identity;
    port->port.ops = &dt_pair_network_ops;
    port->pairs = pairs;
    pthread_mutex_lock(&pairs->mutex);
    pairs->has_port = true;
    pthread_mutex_unlock(&pairs->mutex);
    *out = &port->port;
    return DT_OK;
}

/* The oldest stream of a peer that waits for accept, or NULL. */
static struct dt_stream *take_opened(struct dt_pairs *pairs)
{
    struct dt_list *node;

    pthread_mutex_lock(&pairs->mutex);
    node = dt_list_pop_front(&pairs->opened);
    pairs->opened_count -= node ? 1 : 0;
    pthread_mutex_unlock(&pairs->mutex);
    return node ? &dt_container_of(node, struct dt_pair_stream, opened)->stream : NULL;
}

static enum dt_status network_accept(struct dt_stream_port *base, struct dt_stream **stream)
{
    struct dt_pair_port *port = port_of(base);
    struct dt_stream *opened;

    progress_inline(port->pairs);
    opened = take_opened(port->pairs);
    if (!opened)
        return port->real->ops->accept(port->real, stream);
    *stream = opened;
    return DT_OK;
}

static int network_port_fd(struct dt_stream_port *port)
{
    return port_of(port)->real->ops->port_fd(port_of(port)->real);
}

static void network_close_port(struct dt_stream_port *base)
{
    struct dt_pair_port *port = port_of(base);
    struct dt_stream *stream;

    port->real->ops->close_port(port->real);
    pthread_mutex_lock(&port->pairs->mutex);
    port->pairs->has_port = false;
    pthread_mutex_unlock(&port->pairs->mutex);
    while ((stream = take_opened(port->pairs)))
        stream->ops->close(stream);
    free(port);
}

/* With the mutex. */
static struct dt_pair_stream *open_stream(struct dt_pairs *pairs, const struct dt_address *address)
{
    struct dt_pair *pair = dt_pair_of(pairs, address->process);
    struct dt_pair_stream *s = NULL;

    if (pair)
        s = stream_create(pair, pair->stream_next++ << 1 | (pairs->identity > pair->identity));
    if (!s)
        return NULL;
    pair->address = s->peer = *address;
    s->is_waiting = pair->state != DT_PAIR_UP;
    s->has_joined = !s->is_waiting;
    pair->waiting_count += s->is_waiting ? 1 : 0;
    dt_pairs_wake(pairs);
    return s;
}

static enum dt_status network_dial(struct dt_network *network, const struct dt_address *address,
                                   struct dt_stream **stream)
{
    struct dt_pairs *pairs = pairs_of(network);
    struct dt_pair_stream *s;

    if (address->process == 0 || address->process == pairs->identity)
        return pairs->real->ops->dial(pairs->real, address, stream);
    pthread_mutex_lock(&pairs->mutex);
    s = open_stream(pairs, address);
    pthread_mutex_unlock(&pairs->mutex);
    progress_inline(pairs);
    if (!s)
        return DT_NO_MEMORY;
    *stream = &s->stream;
    return DT_OK;
}

static void network_adopt(struct dt_network *network, struct dt_channel *channel,
                          const struct dt_pair_frame *frame)
{
    struct dt_pairs *pairs = pairs_of(network);
    struct dt_pair_arrival *arrival = NULL;

    if (frame->to != pairs->identity || frame->from == pairs->identity ||
        channel->stream->ops == &stream_ops) {
        dt_listener_reject(channel, "another process listens here now");
    } else {
        arrival = calloc(1, sizeof *arrival);
    }
    if (!arrival) {
        dt_channel_free(channel);
        return;
    }
    arrival->channel = channel;
    arrival->frame = *frame;
    pthread_mutex_lock(&pairs->mutex);
    dt_list_push_back(&pairs->arrivals, &arrival->node);
    dt_pairs_wake(pairs);
    pthread_mutex_unlock(&pairs->mutex);
    progress_inline(pairs);
}

const struct dt_network_ops dt_pair_network_ops = {
    .listen = network_listen,
    .accept = network_accept,
    .port_fd = network_port_fd,
    .close_port = network_close_port,
    .dial = network_dial,
    .adopt = network_adopt,
};
