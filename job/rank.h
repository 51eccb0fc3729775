/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of a job that drives a plugin: a main thread that exchanges frames with the launcher and watches
 * for progress, and the two threads that call the plugin as NCCL's proxies do (service: set-up and teardown;
 * progress: data). A command embeds this and adds its work.
 *
 * Order of calls, all on the main thread: load, [exchanges], connect with the list of connections, do_work as
 * needed, close. After a failure nothing is released: the worker may still be inside the plugin.
 */
#ifndef DETOUR_JOB_RANK_H
#define DETOUR_JOB_RANK_H

#include "job/job.h"
#include "job/net.h"
#include "job/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_JOB_TICK_MS 100

struct dt_job_rank {
    /* The caller sets these. */
    const struct dt_job_options *options;
    struct dt_job_link *link;
    struct dt_job_error *error;
    /* Main thread, while work is in progress: every DT_JOB_TICK_MS, and once at its end. NULL: none. */
    void (*tick)(void *context, uint64_t now_ns);
    void *context;
    /* dt_job_rank_*() set these. */
    struct dt_job_net net;
    struct dt_job_worker service;
    struct dt_job_worker progress;
    char doing[96];                 /* the work in progress, for messages */
    struct dt_job_error work_error; /* for the work to fill in; the main thread reads it afterwards */
};

/*
 * The watch over work that advances a heartbeat. Only time in which the watching thread runs as well counts:
 * a process that is stopped, or starved by other processes, does not stall by that.
 */
struct dt_job_watch {
    uint64_t heartbeat;
    uint64_t seen_ns;
    uint64_t idle_ns; /* without an advance */
};

void dt_job_watch_begin(struct dt_job_watch *watch, uint64_t heartbeat, uint64_t now_ns);

/* Called every DT_JOB_TICK_MS or so. False: no advance for `limit_ns`. */
bool dt_job_watch_continue(struct dt_job_watch *watch, uint64_t heartbeat, uint64_t now_ns,
                           uint64_t limit_ns);

/* Loads and initializes the plugin: rank->net.plugin. */
bool dt_job_rank_load(struct dt_job_rank *rank);

/* Opens `count` connections (job/net.h), which stay the caller's. */
bool dt_job_rank_connect(struct dt_job_rank *rank, struct dt_job_connection *connections, size_t count);

/* Sets rank->doing. */
void dt_job_rank_doing(struct dt_job_rank *rank, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Runs `work` on the progress thread and waits. Fails when the work sets rank->work_error, when
 * rank->net.heartbeat does not advance for options->timeout_s, or when the launcher ends the job.
 */
bool dt_job_rank_do_work(struct dt_job_rank *rank, dt_job_func *work, void *arg);

/* Joins the progress thread and closes everything, in NCCL's order. */
bool dt_job_rank_close(struct dt_job_rank *rank);

#ifdef __cplusplus
}
#endif

#endif
