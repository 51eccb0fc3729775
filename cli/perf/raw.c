/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The raw engine: message n of a connection goes from user buffer n to user buffer n, modulo the window, as
 * one isend and one irecv, with up to a window of them in flight. An iteration is one message per rank; the
 * channels take them in turn. Receives are posted with a capacity larger than the message.
 */
#include "cli/perf/engine.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "base/util.h"
#include "base/exit.h"
#include "cli/perf/pattern.h"

#define PAGE_BYTES 4096
#define GUARD_BYTES \
    128 /* behind the largest message in a receive buffer: part of the capacity, never written */

/* One direction of one channel. Counters run from the connection's first message on. */
struct lane {
    struct dt_job_connection *connection;
    uint64_t goal; /* value of the counters at the end of this run */
    uint64_t filled;
    uint64_t posted;
    uint64_t completed;
    bool flushing;
    void *requests[DT_PERF_WINDOW_MAX];
    size_t bytes[DT_PERF_WINDOW_MAX]; /* received; known once the request is done, kept while it is flushed */
};

struct raw_engine {
    struct dt_perf_engine base;
    size_t message_bytes;
    size_t capacity;
    size_t stride; /* from buffer to buffer */
    unsigned window;
    bool checked;
    struct lane *sends;    /* one per channel */
    struct lane *receives; /* one per channel */
};

static struct raw_engine *raw_engine_of(struct dt_perf_engine *base)
{
    return dt_container_of(base, struct raw_engine, base);
}

static char *buffer_of(const struct raw_engine *engine, const struct lane *lane, uint64_t sequence)
{
    return lane->connection->buffer + sequence % engine->window * engine->stride;
}

/* The data of a message: unique per sender, channel and sequence number. */
static uint64_t stream_of(const struct raw_engine *engine, unsigned sender, const struct lane *lane,
                          uint64_t sequence)
{
    return dt_perf_stream(sender, sequence * engine->base.ring->channels +
                                      dt_perf_ring_channel(engine->base.ring, lane->connection));
}

/* ---- Sending. ---- */

static bool post_send(struct raw_engine *engine, struct lane *lane, bool *moved)
{
    const struct dt_job_connection *connection = lane->connection;
    void **request = &lane->requests[lane->posted % engine->window];
    char *buffer = buffer_of(engine, lane, lane->posted);

    if (lane->posted == lane->goal || lane->posted - lane->completed == engine->window)
        return true;
    if (engine->checked && lane->filled == lane->posted) {
        dt_perf_pattern_fill(buffer, engine->message_bytes,
                             stream_of(engine, engine->base.ring->net->rank, lane, lane->posted), 0);
        lane->filled++;
    }
    if (!dt_job_isend(engine->base.plugin, connection->comm, buffer, engine->message_bytes,
                      connection->mhandle, request, engine->base.error))
        return false;
    if (*request) {
        lane->posted++;
        lane->filled = lane->posted;
        *moved = true;
    }
    return true;
}

static bool test_send(struct raw_engine *engine, struct lane *lane, bool *moved)
{
    size_t bytes_ignored;
    bool done;

    if (lane->completed == lane->posted)
        return true;
    if (!dt_job_test(engine->base.plugin, lane->requests[lane->completed % engine->window], &done,
                     &bytes_ignored, engine->base.error))
        return false;
    if (done) {
        lane->completed++;
        dt_perf_engine_beat(&engine->base);
        *moved = true;
    }
    return true;
}

/* ---- Receiving. ---- */

static bool post_receive(struct raw_engine *engine, struct lane *lane, bool *moved)
{
    const struct dt_job_connection *connection = lane->connection;
    void **request = &lane->requests[lane->posted % engine->window];
    char *buffer = buffer_of(engine, lane, lane->posted);

    if (lane->posted == lane->goal || lane->posted - lane->completed == engine->window)
        return true;
    if (engine->checked)
        dt_perf_check_idle(&engine->base, connection, lane->posted, buffer, engine->capacity);
    if (!dt_job_irecv(engine->base.plugin, connection->comm, buffer, engine->capacity, (int)connection->peer,
                      connection->mhandle, request, engine->base.error))
        return false;
    if (*request) {
        lane->posted++;
        *moved = true;
    }
    return true;
}

static void check_message(struct raw_engine *engine, const struct lane *lane, char *buffer)
{
    const struct dt_job_connection *connection = lane->connection;
    uint64_t stream = stream_of(engine, connection->peer, lane, lane->completed);
    uint64_t expected[512];

    dt_perf_check_received(&engine->base, connection, lane->completed, buffer,
                           lane->bytes[lane->completed % engine->window], engine->message_bytes,
                           engine->capacity);
    for (size_t at = 0; at < engine->message_bytes; at += sizeof expected) {
        size_t bytes = dt_min_u64(sizeof expected, engine->message_bytes - at);
        size_t first = 0;

        dt_perf_pattern_fill(expected, bytes, stream, at);
        size_t count =
            dt_perf_count_differing(buffer + at, expected, bytes, engine->base.options->type->bytes, &first);
        dt_perf_tally_add(engine->base.tally, DT_PERF_WRONG_RESULT, count,
                          "rank %u, channel %u, from rank %u: message %" PRIu64
                          " is wrong from byte %zu of %zu on",
                          engine->base.ring->net->rank, dt_perf_ring_channel(engine->base.ring, connection),
                          connection->peer, lane->completed, at + first, engine->message_bytes);
    }
    dt_perf_poison(buffer, engine->capacity);
}

static bool test_receive(struct raw_engine *engine, struct lane *lane, bool *moved)
{
    const struct dt_job_plugin *plugin = engine->base.plugin;
    const struct dt_job_connection *connection = lane->connection;
    size_t index = lane->completed % engine->window;
    char *buffer = buffer_of(engine, lane, lane->completed);
    bool was_flushing = lane->flushing;
    bool done;

    if (lane->completed == lane->posted)
        return true;
    if (!dt_job_test(plugin, lane->requests[index], &done, was_flushing ? NULL : &lane->bytes[index],
                     engine->base.error))
        return false;
    if (!done)
        return true;
    lane->flushing = false;
    if (engine->base.options->flush && !was_flushing && lane->bytes[index]) {
        if (!dt_job_iflush(plugin, connection->comm, buffer, lane->bytes[index], connection->mhandle,
                           &lane->requests[index], engine->base.error))
            return false;
        lane->flushing = lane->requests[index] != NULL;
    }
    *moved = true;
    if (lane->flushing)
        return true;
    dt_perf_engine_received(&engine->base, lane->bytes[index]);
    if (engine->checked)
        check_message(engine, lane, buffer);
    lane->completed++;
    dt_store_relaxed(&engine->base.iterations_done, dt_load_relaxed(&engine->base.iterations_done) + 1);
    dt_perf_engine_beat(&engine->base);
    return true;
}

/* ---- Runs. ---- */

/* Channel c of n takes messages c, c + n, c + 2n, ... of the run. */
static void set_goals(struct raw_engine *engine, uint64_t iterations)
{
    unsigned channels = engine->base.ring->channels;

    for (unsigned channel = 0; channel < channels; channel++) {
        uint64_t share = iterations / channels + (channel < iterations % channels);

        engine->sends[channel].goal = engine->sends[channel].posted + share;
        engine->receives[channel].goal = engine->receives[channel].posted + share;
    }
}

static void poison_buffers(struct raw_engine *engine)
{
    for (unsigned channel = 0; channel < engine->base.ring->channels; channel++) {
        const struct dt_job_connection *connection = engine->receives[channel].connection;

        dt_perf_poison(connection->buffer, connection->buffer_bytes);
    }
}

static bool progress(struct raw_engine *engine, unsigned channel, bool *moved)
{
    struct lane *receive = &engine->receives[channel];
    struct lane *send = &engine->sends[channel];

    return post_receive(engine, receive, moved) && test_receive(engine, receive, moved) &&
           post_send(engine, send, moved) && test_send(engine, send, moved);
}

static bool raw_run(struct dt_perf_engine *base, const struct dt_perf_run *run)
{
    struct raw_engine *engine = raw_engine_of(base);
    bool finished;

    engine->checked = run->checked;
    dt_store_relaxed(&base->iterations_done, 0);
    set_goals(engine, run->iterations);
    if (run->checked)
        poison_buffers(engine);
    do {
        bool moved = false;

        finished = true;
        for (unsigned channel = 0; channel < base->ring->channels; channel++) {
            if (!progress(engine, channel, &moved))
                return false;
            finished = finished && engine->receives[channel].completed == engine->receives[channel].goal &&
                       engine->sends[channel].completed == engine->sends[channel].goal;
        }
        if (!moved)
            sched_yield();
    } while (!finished);
    return true;
}

static void raw_sweep(struct dt_perf_engine *base)
{
    struct raw_engine *engine = raw_engine_of(base);

    for (unsigned channel = 0; channel < base->ring->channels; channel++) {
        const struct lane *lane = &engine->receives[channel];

        dt_perf_check_idle(base, lane->connection, lane->posted, lane->connection->buffer,
                           lane->connection->buffer_bytes);
    }
}

static bool raw_prepare(struct dt_perf_engine *base, size_t count)
{
    struct raw_engine *engine = raw_engine_of(base);

    engine->message_bytes = count * base->options->type->bytes;
    engine->capacity = dt_min_u64(engine->message_bytes + GUARD_BYTES, NCCL_NET_MAX_SIZE_V8);
    return true;
}

/* ---- Life. ---- */

static size_t stride_of(const struct dt_perf_options *options)
{
    return dt_align_up(options->bytes_max + GUARD_BYTES, PAGE_BYTES);
}

size_t dt_perf_raw_buffer_bytes(const struct dt_perf_options *options)
{
    return stride_of(options) * options->window;
}

static void raw_destroy(struct dt_perf_engine *base)
{
    struct raw_engine *engine = raw_engine_of(base);

    free(engine->sends);
    free(engine->receives);
    free(engine);
}

static const struct dt_perf_engine_funcs raw_funcs = {raw_prepare, raw_run, raw_sweep, raw_destroy};

struct dt_perf_engine *dt_perf_raw_engine_create(const struct dt_perf_engine *base)
{
    struct raw_engine *engine = calloc(1, sizeof *engine);
    struct dt_perf_ring *ring = base->ring;

    if (engine) {
        engine->base = *base;
        engine->base.funcs = &raw_funcs;
        engine->sends = calloc(ring->channels, sizeof *engine->sends);
        engine->receives = calloc(ring->channels, sizeof *engine->receives);
    }
    if (!engine || !engine->sends || !engine->receives) {
        dt_job_fail(base->error, DT_EXIT_FAILED, "rank %u: out of memory", ring->net->rank);
        if (engine)
            raw_destroy(&engine->base);
        return NULL;
    }
    engine->window = base->options->window;
    engine->stride = stride_of(base->options);
    for (unsigned channel = 0; channel < ring->channels; channel++) {
        engine->sends[channel].connection = dt_perf_ring_sending(ring, channel, 1);
        engine->receives[channel].connection = dt_perf_ring_receiving(ring, channel, 1);
    }
    return &engine->base;
}
