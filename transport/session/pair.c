/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/session/pair.h"

#include <stdlib.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/log.h"
#include "transport/session/listener.h"
#include "transport/session/pair_state.h"

/* ------------------------------------------------------------------------------------------------------------
 * States
 */
#define TO(state) (1u << DT_PAIR_##state)

static const uint32_t next_states[DT_PAIR_STATE_COUNT] = {
    [DT_PAIR_IDLE] = TO(CONNECTING) | TO(UP),
    [DT_PAIR_CONNECTING] = TO(JOINING) | TO(UP) | TO(IDLE),
    [DT_PAIR_JOINING] = TO(UP) | TO(IDLE),
    [DT_PAIR_UP] = TO(IDLE),
};

static void enter(struct dt_pair *pair, enum dt_pair_state state)
{
    static const char *const text[DT_PAIR_STATE_COUNT] = {"IDLE", "CONNECTING", "JOINING", "UP"};

    DT_CHECK(pair->state < DT_PAIR_STATE_COUNT && next_states[pair->state] & 1u << state);
    dt_trace("process %016llx: carrier %s -> %s", (unsigned long long)pair->identity, text[pair->state],
             text[state]);
    pair->pairs->stats.carriers += (state == DT_PAIR_UP) - (pair->state == DT_PAIR_UP);
    pair->state = state;
}

struct dt_pair *dt_pair_of(struct dt_pairs *pairs, uint64_t identity)
{
    struct dt_pair *pair;

    dt_list_for_each(node, &pairs->pairs)
    {
        pair = dt_container_of(node, struct dt_pair, node);
        if (pair->identity == identity)
            return pair;
    }
    DT_CHECK(identity != 0 && identity != pairs->identity);
    pair = calloc(1, sizeof *pair);
    if (!pair)
        return NULL;
    pair->pairs = pairs;
    pair->identity = identity;
    for (uint32_t i = 0; i < DT_PAIR_BUCKETS; i++)
        dt_list_init(&pair->bucket[i]);
    dt_list_push_back(&pairs->pairs, &pair->node);
    pairs->stats.pairs++;
    return pair;
}

/* Without the mutex while the socket is closed: only progress uses the carrier. */
static void close_carrier(struct dt_pair *pair)
{
    struct dt_stream *stream = pair->carrier.stream;

    dt_pair_unwatch(pair);
    pair->carrier.stream = NULL;
    if (stream) {
        pthread_mutex_unlock(&pair->pairs->mutex);
        stream->ops->close(stream);
        pthread_mutex_lock(&pair->pairs->mutex);
    }
    pair->out.used = pair->writing.used = pair->written = pair->in_used = 0;
    pair->is_broken = pair->is_blocked = false;
}

static void close_parked(struct dt_pair *pair)
{
    dt_channel_free(pair->parked);
    pair->parked = NULL;
}

static void pair_free(struct dt_pair *pair)
{
    DT_CHECK(pair->stream_count == 0 && pair->waiting_count == 0 && !pair->carrier.stream && !pair->parked);
    dt_list_remove(&pair->node);
    pair->pairs->stats.pairs--;
    free(pair->out.bytes);
    free(pair->writing.bytes);
    free(pair);
}

/* ------------------------------------------------------------------------------------------------------------
 * UP
 */
static void go_up(struct dt_pair *pair, uint32_t round)
{
    pair->round = round;
    pair->is_readable = true;
    enter(pair, DT_PAIR_UP);
    dt_pair_streams_joined(pair);
}

/* The carrier of the other process becomes this one's; PAIRED is the first thing on it. */
static void accept_carrier(struct dt_pair *pair, struct dt_channel *channel, uint32_t round)
{
    uint8_t bytes[DT_FRAME_HEADER_BYTES + 16];
    struct dt_writer w = {bytes, sizeof bytes, 0, false};
    struct dt_paired paired = {.is_accepted = true, .round = round};

    if (pair->round > paired.round)
        paired.round = pair->round;
    if (pair->offered > paired.round)
        paired.round = pair->offered;
    DT_CHECK(!pair->carrier.stream && pair->out.used == 0);
    dt_channel_move(&pair->carrier, channel);
    free(channel);
    dt_paired_encode(&paired, &w);
    DT_CHECK(!w.is_full);
    pair->pairs->stats.accepted++;
    pair->is_broken = dt_record_append_bytes(&pair->out, bytes, w.used) != DT_OK;
    go_up(pair, paired.round);
}

/* The line is written without the mutex: NCCL's logger may block. */
static void lose(struct dt_pair *pair, enum dt_status status)
{
    uint32_t streams = pair->stream_count;

    pair->pairs->stats.lost++;
    close_carrier(pair);
    enter(pair, DT_PAIR_IDLE);
    dt_pair_streams_lost(pair, status);
    if (streams == 0)
        return;
    pthread_mutex_unlock(&pair->pairs->mutex);
    dt_info("carrier-lost", "process %016llx: the control channel of %u connections is lost (%s)",
            (unsigned long long)pair->identity, streams, dt_status_text(status));
    pthread_mutex_lock(&pair->pairs->mutex);
}

/* ------------------------------------------------------------------------------------------------------------
 * Dialing
 */

/* The attempt has ended without PAIRED: the parked carrier is taken, or the streams that wait end with
 * `status`. */
static void end_attempt(struct dt_pair *pair, enum dt_status status)
{
    struct dt_channel *parked = pair->parked;

    close_carrier(pair);
    if (parked) {
        pair->parked = NULL;
        accept_carrier(pair, parked, pair->parked_round);
        return;
    }
    enter(pair, DT_PAIR_IDLE);
    dt_pair_streams_lost(pair, status);
}

static void dial(struct dt_pair *pair)
{
    struct dt_network *network = pair->pairs->real;
    struct dt_address address = pair->address;
    struct dt_stream *stream = NULL;
    enum dt_status status;

    DT_CHECK(pair->state == DT_PAIR_IDLE && !pair->carrier.stream);
    pair->pairs->stats.dials++;
    pthread_mutex_unlock(&pair->pairs->mutex);
    status = network->ops->dial(network, &address, &stream);
    pthread_mutex_lock(&pair->pairs->mutex);
    if (status != DT_OK) {
        dt_pair_streams_lost(pair, status);
        return;
    }
    dt_channel_open(&pair->carrier, stream);
    enter(pair, DT_PAIR_CONNECTING);
}

static void progress_connecting(struct dt_pair *pair)
{
    struct dt_stream *stream = pair->carrier.stream;
    enum dt_status status = stream->ops->state(stream);
    struct dt_pair_frame frame = {.from = pair->pairs->identity, .to = pair->identity};

    if (status == DT_AGAIN)
        return;
    if (status != DT_OK) {
        end_attempt(pair, status);
        return;
    }
    pair->offered = (pair->round > pair->offered ? pair->round : pair->offered) + 1;
    frame.round = pair->offered;
    dt_pair_frame_encode(&frame, &pair->carrier.out);
    enter(pair, DT_PAIR_JOINING);
}

static void take_answer(struct dt_pair *pair, const struct dt_frame *frame)
{
    struct dt_paired paired;

    if (frame->type == DT_FRAME_REJECT) { /* another process listens there now: the peer is dead */
        end_attempt(pair, DT_PEER_ERROR);
        return;
    }
    if (frame->type != DT_FRAME_PAIRED || dt_paired_decode(frame->body, frame->bytes, &paired) != DT_OK ||
        (paired.is_accepted && paired.round < pair->offered)) {
        end_attempt(pair, DT_TIMED_OUT);
        return;
    }
    if (paired.is_accepted) {
        close_parked(pair);
        go_up(pair, paired.round);
        return;
    }
    if (paired.round > pair->offered)
        pair->offered = paired.round;
    pair->pairs->stats.stale++;
    if (pair->parked) {
        end_attempt(pair, DT_TIMED_OUT);
    } else { /* the streams go on waiting: the next attempt offers more */
        close_carrier(pair);
        enter(pair, DT_PAIR_IDLE);
        dial(pair);
    }
}

/* An end without an answer: the listener has dropped this peer, or the network has. Nothing is known. */
static void progress_joining(struct dt_pair *pair)
{
    struct dt_frame frame;
    enum dt_status status;

    pthread_mutex_unlock(&pair->pairs->mutex);
    status = dt_channel_flush(&pair->carrier);
    if (status == DT_OK)
        status = dt_channel_receive(&pair->carrier, &frame);
    pthread_mutex_lock(&pair->pairs->mutex);
    if (status == DT_OK)
        take_answer(pair, &frame);
    else if (status != DT_AGAIN)
        end_attempt(pair, DT_TIMED_OUT);
}

/* ------------------------------------------------------------------------------------------------------------
 * The other process has dialed
 */
static void answer_stale(struct dt_pair *pair, struct dt_channel *channel)
{
    struct dt_paired paired = {.is_accepted = false, .round = pair->round};

    pair->pairs->stats.stale++;
    dt_paired_encode(&paired, &channel->out);
    dt_channel_free(channel);
}

static bool is_stronger(const struct dt_pair *pair, uint32_t round)
{
    return round != pair->offered ? round > pair->offered : pair->identity > pair->pairs->identity;
}

static void take_pair(struct dt_pair *pair, struct dt_channel *channel, uint32_t round)
{
    if (round <= pair->round) {
        answer_stale(pair, channel);
        return;
    }
    if (pair->state == DT_PAIR_JOINING && !is_stronger(pair, round)) {
        close_parked(pair);
        pair->parked = channel;
        pair->parked_round = round;
        pair->pairs->stats.parked++;
        return;
    }
    if (pair->state == DT_PAIR_UP)
        lose(pair, DT_PEER_ERROR);
    else
        close_carrier(pair);
    close_parked(pair);
    accept_carrier(pair, channel, round);
}

static void take_arrivals(struct dt_pairs *pairs)
{
    struct dt_list *node;

    while ((node = dt_list_pop_front(&pairs->arrivals))) {
        struct dt_pair_arrival *arrival = dt_container_of(node, struct dt_pair_arrival, node);
        struct dt_pair *pair = dt_pair_of(pairs, arrival->frame.from);

        if (pair)
            take_pair(pair, arrival->channel, arrival->frame.round);
        else
            dt_channel_free(arrival->channel);
        free(arrival);
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * Progress
 */
static void progress_up(struct dt_pair *pair)
{
    bool is_readable =
        pair->is_readable || !dt_load_relaxed(&pair->pairs->has_thread) || !dt_channel_has_fd(&pair->carrier);
    enum dt_status status = pair->is_broken ? DT_SYSTEM : dt_pair_write(pair);

    pair->is_readable = false;
    if (status == DT_PEER_ERROR || ((status == DT_OK || status == DT_AGAIN) && is_readable)) {
        enum dt_status read = dt_pair_read(pair);

        status = status == DT_PEER_ERROR ? status : read; /* what came before a reset still counts */
    }
    if (status == DT_OK || status == DT_AGAIN)
        status = dt_pair_write(pair); /* the CREDIT of what was read, and answers of other threads */
    if (status != DT_OK && status != DT_AGAIN)
        lose(pair, status == DT_PROTOCOL ? DT_PEER_ERROR : status);
}

void dt_pair_progress(struct dt_pair *pair)
{
    if (pair->waiting_count == 0 && (pair->state == DT_PAIR_CONNECTING || pair->state == DT_PAIR_JOINING))
        end_attempt(pair, DT_TIMED_OUT); /* who waits since a moment ago dials again */
    if (pair->state == DT_PAIR_IDLE && pair->waiting_count > 0)
        dial(pair);
    if (pair->state == DT_PAIR_CONNECTING)
        progress_connecting(pair);
    if (pair->state == DT_PAIR_JOINING)
        progress_joining(pair);
    if (pair->state == DT_PAIR_UP)
        progress_up(pair);
    if (pair->state == DT_PAIR_IDLE && pair->stream_count == 0)
        pair_free(pair);
    else
        dt_pair_watch(pair);
}

bool dt_pairs_progress(struct dt_pairs *pairs)
{
    bool has_opened;

    pthread_mutex_lock(&pairs->mutex);
    if (!pairs->is_progressing) { /* after the thread's end any thread may come here */
        pairs->is_progressing = true;
        take_arrivals(pairs);
        dt_list_for_each(node, &pairs->pairs)
        {
            dt_pair_progress(dt_container_of(node, struct dt_pair, node));
        }
        pairs->is_progressing = false;
    }
    has_opened = !dt_list_is_empty(&pairs->opened);
    pthread_mutex_unlock(&pairs->mutex);
    return has_opened;
}

/* ------------------------------------------------------------------------------------------------------------
 * Life
 */
struct dt_pairs *dt_pairs_create(struct dt_network *network, uint64_t identity)
{
    struct dt_pairs *pairs = calloc(1, sizeof *pairs);

    DT_CHECK(identity != 0);
    if (!pairs || pthread_mutex_init(&pairs->mutex, NULL) != 0) {
        free(pairs);
        return NULL;
    }
    pairs->network.ops = &dt_pair_network_ops;
    pairs->real = network;
    pairs->identity = identity;
    pairs->wake_fd = pairs->epoll_fd = -1;
    dt_list_init(&pairs->pairs);
    dt_list_init(&pairs->arrivals);
    dt_list_init(&pairs->opened);
    return pairs;
}

void dt_pairs_destroy(struct dt_pairs *pairs)
{
    if (!pairs)
        return;
    dt_pairs_stop(pairs);
    dt_pairs_progress(pairs);
    pthread_mutex_lock(&pairs->mutex);
    take_arrivals(pairs);
    dt_list_for_each(node, &pairs->pairs)
    {
        struct dt_pair *pair = dt_container_of(node, struct dt_pair, node);

        close_parked(pair);
        close_carrier(pair);
        pair_free(pair);
    }
    pthread_mutex_unlock(&pairs->mutex);
    DT_CHECK(pairs->opened_count == 0 && pairs->stats.streams == 0);
    pthread_mutex_destroy(&pairs->mutex);
    free(pairs);
}

struct dt_network *dt_pairs_network(struct dt_pairs *pairs)
{
    return &pairs->network;
}

uint64_t dt_pairs_identity(const struct dt_pairs *pairs)
{
    return pairs->identity;
}

void dt_pairs_query_stats(struct dt_pairs *pairs, struct dt_pairs_stats *stats)
{
    pthread_mutex_lock(&pairs->mutex);
    *stats = pairs->stats;
    pthread_mutex_unlock(&pairs->mutex);
}
