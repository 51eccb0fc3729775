/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a connection slow because the processors of a host are busy? A thread that is ready and waits for a
 * processor delays its messages, which looks like a slow link from the times of messages alone.
 *
 * The kernel counts for each thread how long it ran and how long it waited on a run queue (schedstat). Both
 * are summed up with a half-life of DT_PROCESSOR_HALF_S, as is the time in which the connection had messages
 * in flight. Of the latter the part 1 - 1/factor is more than a healthy connection takes. If the waits of the
 * threads at both ends explain at least DT_PROCESSOR_PART of it, the cause is the processor and not the
 * network.
 *
 * A thread that runs all the time also waits while no message is in flight; of its waits only as large a part
 * counts as messages were in flight of the time in which it wanted to run. A thread that sleeps until there
 * is work waits because of the work: its waits count whole.
 *
 * Pure, no allocation.
 */
#ifndef DETOUR_DETECT_PROCESSOR_H
#define DETOUR_DETECT_PROCESSOR_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PROCESSOR_HALF_S 1.0
#define DT_PROCESSOR_PART   0.5

/* Of a thread, since it started. */
struct dt_processor_times {
    uint64_t run_ns;
    uint64_t wait_ns; /* ready to run, without a processor */
};

/* A sum that forgets: of seconds of some time, and of the time itself. {0}: nothing was added. */
struct dt_processor_thread {
    struct dt_processor_times last;
    uint64_t last_ns; /* when `last` was read; 0: never */
    double run_s, wait_s, window_s;
};

struct dt_processor_flight {
    uint64_t last_service_ns;
    uint64_t last_ns; /* 0: never */
    double busy_s, window_s;
};

/* Adds what a thread did since the last call. Times that decrease belong to another thread: it starts anew.
 */
void dt_processor_thread_add(struct dt_processor_thread *thread, const struct dt_processor_times *times,
                             uint64_t now_ns);

/*
 * Adds the time since the last call in which messages were in flight: by the sum of their service times, or
 * all of it while one is overdue. Messages that overlap count at most once.
 */
void dt_processor_flight_add(struct dt_processor_flight *flight, uint64_t service_ns, bool is_overdue,
                             uint64_t now_ns);

/*
 * The part that the waits of these threads explain of the time by which a connection that takes `factor`
 * times its healthy time is longer; 0: none, more than 1: all of it. Parts of other threads may be added.
 */
double dt_processor_part(const struct dt_processor_thread *const *threads, uint32_t count,
                         const struct dt_processor_flight *flight, double factor);

#ifdef __cplusplus
}
#endif

#endif
