/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delegates: threads that copy what is too much for NCCL's progress thread, bound to a NUMA node. Each has a
 * queue of its own, into which jobs are pushed without a lock; it sleeps while there is none.
 *
 * Without threads (simulations) the jobs wait for dt_delegates_run().
 */
#ifndef DETOUR_HOSTPATH_DELEGATE_H
#define DETOUR_HOSTPATH_DELEGATE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_DELEGATES_MAX 16

/* Memory to copy. Stays the caller's, and where it is, until *left was decremented for it. */
struct dt_copy_job {
    struct dt_copy_job *next; /* the queue's */
    void *to;
    const void *from;
    size_t bytes;
    uint32_t *left; /* decremented, with release, when the bytes are there [atomic] */
};

struct dt_delegate {
    struct dt_copy_job *jobs; /* the newest first [atomic] */
    sem_t wake;               /* jobs, or the end */
    uint32_t is_stopping;     /* [atomic] */
    int numa_node;
    pthread_t thread;
};

struct dt_delegates {
    uint32_t count; /* 0: not open */
    uint32_t next;  /* queue for the next job [atomic] */
    bool has_threads;
    struct dt_delegate delegate[DT_DELEGATES_MAX];
};

/* numa_node: where they run; -1: anywhere. DT_SYSTEM (one WARN): a thread cannot be started. */
enum dt_status dt_delegates_open(struct dt_delegates *delegates, uint32_t count, int numa_node,
                                 bool has_threads);

/* What was pushed is copied first. Nothing is pushed any more. Harmless when it is not open. */
void dt_delegates_close(struct dt_delegates *delegates);

/* Any thread; never blocks. A system call if the delegate sleeps. */
void dt_delegates_push(struct dt_delegates *delegates, struct dt_copy_job *job);

/* Without threads: does what was pushed. Returns how many jobs. */
uint32_t dt_delegates_run(struct dt_delegates *delegates);

#ifdef __cplusplus
}
#endif

#endif
