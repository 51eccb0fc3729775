/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that does one job at a time and sleeps in between: a rank has one for what NCCL's proxy service
 * thread calls and one for its proxy progress thread. Jobs are given by the rank's main thread, which
 * meanwhile watches that they get on.
 */
#ifndef DETOUR_CLI_PERF_WORKER_H
#define DETOUR_CLI_PERF_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/perf_error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void dt_perf_job_func(void *arg);

struct dt_perf_worker {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    dt_perf_job_func *job; /* NULL: idle */
    void *arg;
    bool stop;
    int done_fd; /* eventfd: becomes readable when a job is done */
};

/* Starts the thread under `name` (seen in ps and gdb; at most 15 characters). */
bool dt_perf_worker_start(struct dt_perf_worker *worker, const char *name, struct dt_perf_error *error);

/* Gives a job to an idle worker. */
void dt_perf_worker_give(struct dt_perf_worker *worker, dt_perf_job_func *job, void *arg);

/*
 * Waits up to `timeout_ms` for the job to be done or for `other_fd` to become readable. Returns true when the
 * job is done; *other_readable says about the other.
 */
bool dt_perf_worker_wait(struct dt_perf_worker *worker, int other_fd, int timeout_ms, bool *other_readable);

/* Ends and joins the thread of an idle worker. */
void dt_perf_worker_stop(struct dt_perf_worker *worker);

#ifdef __cplusplus
}
#endif

#endif
