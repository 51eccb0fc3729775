/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves the data of one rank, on its progress thread. There are two engines: the step engine plays the GPU
 * and NCCL's proxies (slots, slices, a kernel that reduces and copies); the raw engine sends whole messages
 * from user buffers and keeps a window of them in flight. Both poll as NCCL does: at most one post and one
 * test per connection and pass, the oldest request first, sched_yield when nothing moved.
 */
#ifndef DETOUR_CLI_PERF_ENGINE_H
#define DETOUR_CLI_PERF_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/error.h"
#include "cli/perf/options.h"
#include "cli/perf/ring.h"
#include "cli/perf/tally.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A number of iterations; the same on every rank. */
struct dt_perf_run {
    uint64_t iterations;
    uint64_t first_iteration; /* numbers the data, so that no two iterations of a process send the same */
    bool checked;
    bool in_place;
};

struct dt_perf_engine;

struct dt_perf_engine_funcs {
    /* Prepares for messages of `count` elements (at most the number that the options allow). */
    bool (*prepare)(struct dt_perf_engine *engine, size_t count);
    /* Runs the iterations and returns when no request of them is outstanding on this rank. */
    bool (*run)(struct dt_perf_engine *engine, const struct dt_perf_run *run);
    /* After a checked run, once all ranks have finished: counts writes into the idle buffers. */
    void (*sweep)(struct dt_perf_engine *engine);
    void (*destroy)(struct dt_perf_engine *engine);
};

struct dt_perf_engine {
    const struct dt_perf_engine_funcs *funcs;
    struct dt_perf_ring *ring;
    const struct dt_job_plugin *plugin; /* of the ring's net */
    const struct dt_perf_options *options;
    struct dt_perf_tally *tally;
    struct dt_job_error *error;
    uint64_t iterations_done; /* of the run; relaxed, any thread may read */
    uint64_t *bytes_received; /* in receives that are done; relaxed, any thread may read */
};

/*
 * Engines for a ring that is connected; NULL with an error. `base` holds all members but funcs; what it
 * points to stays the caller's.
 */
struct dt_perf_engine *dt_perf_step_engine_create(const struct dt_perf_engine *base);
struct dt_perf_engine *dt_perf_raw_engine_create(const struct dt_perf_engine *base);

/* The bytes that each connection's buffer needs. */
size_t dt_perf_step_buffer_bytes(const struct dt_perf_options *options);
size_t dt_perf_raw_buffer_bytes(const struct dt_perf_options *options);

/* ---- Checks of receive buffers, for both engines. ---- */

/* Before a buffer is posted, and at the end: it must still hold poison. */
void dt_perf_check_idle(struct dt_perf_engine *engine, const struct dt_job_connection *connection,
                        uint64_t sequence, const char *buffer, size_t bytes);

/* When its receive is done: the size must be right and no byte written beyond the message. */
void dt_perf_check_received(struct dt_perf_engine *engine, const struct dt_job_connection *connection,
                            uint64_t sequence, const char *buffer, size_t bytes, size_t bytes_expected,
                            size_t capacity);

/* Counts a step of progress, for the watchdog. */
void dt_perf_engine_beat(struct dt_perf_engine *engine);

/* Counts the bytes of a receive that is done, its flush included. */
void dt_perf_engine_received(struct dt_perf_engine *engine, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
