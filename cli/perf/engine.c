/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/engine.h"

#include <inttypes.h>

#include "base/atomics.h"
#include "cli/perf/pattern.h"

void dt_perf_check_idle(struct dt_perf_engine *engine, const struct dt_job_connection *connection,
                        uint64_t sequence, const char *buffer, size_t bytes)
{
    size_t at = 0;
    size_t count = dt_perf_count_unpoisoned(buffer, bytes, &at);

    dt_perf_tally_add(
        engine->tally, DT_PERF_WRONG_LATE, count,
        "rank %u, channel %u, from rank %u: %zu bytes written into the idle receive buffer before "
        "message %" PRIu64 ", first at offset %zu",
        engine->ring->net->rank, dt_perf_ring_channel(engine->ring, connection), connection->peer, count,
        sequence, at);
}

void dt_perf_check_received(struct dt_perf_engine *engine, const struct dt_job_connection *connection,
                            uint64_t sequence, const char *buffer, size_t bytes, size_t bytes_expected,
                            size_t capacity)
{
    size_t at = 0;
    size_t count = dt_perf_count_unpoisoned(buffer + bytes_expected, capacity - bytes_expected, &at);

    dt_perf_tally_add(engine->tally, DT_PERF_WRONG_SIZE, bytes != bytes_expected,
                      "rank %u, channel %u, from rank %u: message %" PRIu64
                      " has %zu bytes, test reported %zu",
                      engine->ring->net->rank, dt_perf_ring_channel(engine->ring, connection),
                      connection->peer, sequence, bytes_expected, bytes);
    dt_perf_tally_add(engine->tally, DT_PERF_WRONG_BEYOND, count,
                      "rank %u, channel %u, from rank %u: message %" PRIu64
                      " wrote %zu bytes beyond its end, "
                      "first at offset %zu of %zu",
                      engine->ring->net->rank, dt_perf_ring_channel(engine->ring, connection),
                      connection->peer, sequence, count, bytes_expected + at, bytes_expected);
}

void dt_perf_engine_beat(struct dt_perf_engine *engine)
{
    uint64_t *heartbeat = &engine->ring->net->heartbeat;

    dt_store_relaxed(heartbeat, dt_load_relaxed(heartbeat) + 1);
}

void dt_perf_engine_received(struct dt_perf_engine *engine, size_t bytes)
{
    dt_store_relaxed(engine->bytes_received, dt_load_relaxed(engine->bytes_received) + bytes);
}
