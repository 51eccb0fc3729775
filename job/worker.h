/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that runs one job at a time and sleeps in between. A rank has two: one makes the calls of NCCL's
 * proxy service thread, the other those of its proxy progress thread. The rank's main thread gives the jobs
 * and watches their progress.
 */
#ifndef DETOUR_JOB_WORKER_H
#define DETOUR_JOB_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "job/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void dt_job_func(void *arg);

struct dt_job_worker {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    dt_job_func *job; /* NULL: idle */
    void *arg;
    bool stop;
    int done_fd; /* eventfd: becomes readable when a job is done */
};

/* Starts the thread under `name` (shown by ps and gdb; at most 15 characters). */
bool dt_job_worker_start(struct dt_job_worker *worker, const char *name, struct dt_job_error *error);

/* Gives a job to an idle worker. */
void dt_job_worker_give(struct dt_job_worker *worker, dt_job_func *job, void *arg);

/*
 * Waits up to `timeout_ms` for the job to be done or for `other_fd` to become readable. Returns true when
 * the job is done; *other_readable: whether the other descriptor is readable.
 */
bool dt_job_worker_wait(struct dt_job_worker *worker, int other_fd, int timeout_ms, bool *other_readable);

/* Ends and joins the thread of an idle worker. */
void dt_job_worker_stop(struct dt_job_worker *worker);

#ifdef __cplusplus
}
#endif

#endif
