/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the threads of a process ran, and how long they were ready and waited for a processor: the
 * kernel's sums (/proc/PID/task/TID/schedstat). An agent reports the part of waiting, so that the controller
 * knows busy hosts at both ends of a link, and in a process without a verdict of its own.
 *
 * Reads files of /proc; any thread.
 */
#ifndef DETOUR_CONTROLLER_RUN_QUEUE_H
#define DETOUR_CONTROLLER_RUN_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_RUN_QUEUE_THREADS_MAX 4096 /* of a process that are read */

/* Sums over the threads that the process has now. */
struct dt_run_queue {
    uint64_t run_ns;
    uint64_t wait_ns;
};

/* False: no such process, or the kernel has no schedstat. */
bool dt_run_queue_read(int32_t pid, struct dt_run_queue *sums);

/*
 * The part of the time in which the threads wanted to run that they waited, 0 to 1. Sums that decrease (a
 * thread has ended) and a process that slept give 0.
 */
double dt_run_queue_share(const struct dt_run_queue *before, const struct dt_run_queue *now);

#ifdef __cplusplus
}
#endif

#endif
