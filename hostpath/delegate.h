/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delegates: threads that copy what is too much for NCCL's progress thread, bound to a NUMA node. Each has a
 * queue of its own, into which jobs are pushed without a lock; it sleeps while there is none.
 *
 * A job is copied in pieces, each by who claims it first: the delegate, or the job's owner, who may help
 * while it waits for the job anyway. So a copy does not wait for a thread to wake up, and cores that would
 * only look whether it is done share the work.
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

/* What dt_copy_job_help() copies in one call: microseconds. */
#define DT_COPY_PIECE_BYTES (64u << 10)

/*
 * Memory to copy. The memory must stay until *left was decremented for each piece, the job itself until *held
 * was.
 */
struct dt_copy_job {
    struct dt_copy_job *next; /* the queue's */
    void *to;
    const void *from;
    uint64_t bytes;
    uint64_t claimed_bytes; /* from the start on, by whoever copies them; may go beyond `bytes`. 0 [atomic] */
    uint32_t *left;         /* decremented, with release, for each piece that is there [atomic] */
    uint32_t *held;         /* decremented, with release, when the delegate has let go of the job [atomic] */
};

/* By how much *left goes down. */
static inline uint32_t dt_copy_job_pieces(uint64_t bytes)
{
    return (uint32_t)((bytes + DT_COPY_PIECE_BYTES - 1) / DT_COPY_PIECE_BYTES);
}

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

/* Copies a piece that nobody has claimed. False: there is none. Any thread, while the job stays. */
bool dt_copy_job_help(struct dt_copy_job *job);

/* Without threads: does what was pushed. Returns how many jobs. */
uint32_t dt_delegates_run(struct dt_delegates *delegates);

#ifdef __cplusplus
}
#endif

#endif
