/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread of a device: runs jobs one after the other, in the order they came. Verbs that may block
 * (create, modify, destroy, register) are such jobs; whoever wants the result polls for it.
 *
 * The thread starts with the first job. An executor without a thread runs its jobs when dt_executor_run() is
 * called, for simulations.
 */
#ifndef DETOUR_TRANSPORT_EXECUTOR_H
#define DETOUR_TRANSPORT_EXECUTOR_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"
#include "base/list.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Embedded in what it works on; must stay until it is done. `run` may free it. */
struct dt_job {
    void (*run)(struct dt_job *job);
    struct dt_list node;
};

struct dt_executor {
    pthread_mutex_t mutex;
    pthread_cond_t wake; /* a job came, or stop */
    struct dt_list jobs;
    pthread_t thread;
    bool has_thread; /* may start one */
    bool is_started;
    bool is_stopping;
};

/* DT_SYSTEM when the system has no room for the lock. */
enum dt_status dt_executor_init(struct dt_executor *executor, bool has_thread);

/*
 * Any thread. DT_SYSTEM (one WARN) when the thread cannot be started: the job was then not taken.
 */
enum dt_status dt_executor_submit(struct dt_executor *executor, struct dt_job *job);

/* Without a thread: runs what is waiting, also what those jobs submit. Returns how many ran. */
unsigned dt_executor_run(struct dt_executor *executor);

/* Finishes what was submitted, then ends the thread. Nothing may be submitted any more. */
void dt_executor_stop(struct dt_executor *executor);

#ifdef __cplusplus
}
#endif

#endif
