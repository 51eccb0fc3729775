/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the counters of connections have grown by since the previous look at them. A process's counters only
 * grow (detour/stat.h); an agent reports the difference, whose mean is more recent than a verdict.
 *
 *     dt_window_begin(&window);
 *     for each sending connection: dt_window_take(...)
 *     dt_window_end(&window, time_ns);
 *
 * Pure. Owner: one thread.
 */
#ifndef DETOUR_CONTROLLER_WINDOW_H
#define DETOUR_CONTROLLER_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "controller/run_queue.h"
#include "detour/stat.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_window_counts {
    uint64_t messages;
    uint64_t bytes;
    uint64_t service_ns; /* sum over the messages */
};

struct dt_window_entry {
    uint64_t connection;
    int32_t pid;
    struct dt_window_counts counts;
    struct dt_run_queue run_queue; /* of a process */
};

/* Starts zeroed. */
struct dt_window {
    struct dt_window_entry *before; /* of the previous look, in order */
    size_t before_count;
    struct dt_window_entry *now;
    size_t now_count, now_room;
    int64_t time_ns; /* of the previous look; 0: there was none */
};

void dt_window_begin(struct dt_window *window);

/* False when out of memory: the connection then has no difference the next time either. */
bool dt_window_take(struct dt_window *window, int32_t pid, const struct detour_stat_connection *connection,
                    struct dt_window_counts *grown);

/* Of a process, since the previous look. */
struct dt_window_process {
    uint64_t iterations;    /* of the job, completed */
    double processor_share; /* run_queue.h */
};

/* Otherwise the same. `run_queue`: sums of its threads now. */
bool dt_window_take_process(struct dt_window *window, const struct detour_stat_process *process,
                            const struct dt_run_queue *run_queue, struct dt_window_process *grown);

void dt_window_end(struct dt_window *window, int64_t time_ns);

/* Since the previous look; 0: there was none. */
int64_t dt_window_length_ns(const struct dt_window *window, int64_t time_ns);

void dt_window_free(struct dt_window *window);

#ifdef __cplusplus
}
#endif

#endif
