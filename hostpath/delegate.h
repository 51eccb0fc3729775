/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delegates: threads, bound to a NUMA node, that make copies which are too large for NCCL's progress thread.
 * Each has a lock-free queue of jobs and sleeps while the queue is empty.
 *
 * A copy is made in pieces from the front. The delegates that received a job for it claim pieces, and the
 * copy's owner may help while it waits. So a copy does not depend on the wake-up of one thread.
 *
 * dt_host_copy_done_bytes() reports the contiguous prefix that is complete. Before it claims a piece, each
 * copier stores the current `claimed_bytes` in its own `from_bytes`: its piece begins there or later. It
 * raises the value, with release, only after the piece is complete. So a reader that loads `claimed_bytes`
 * and then all `from_bytes` (acquire) is certain that every byte before the minimum is complete.
 *
 * Without threads (simulations) jobs are done in dt_delegates_run().
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

/* Bytes per dt_host_copy_help() call unless piece_bytes is smaller: some microseconds. */
#define DT_COPY_PIECE_BYTES (64u << 10)

#define DT_COPY_JOBS_MAX 4

struct dt_host_copy;

/* A delegate's job: its part in one copy. */
struct dt_copy_job {
    struct dt_copy_job *next; /* in the queue */
    struct dt_host_copy *copy;
    uint64_t from_bytes; /* this delegate copies no byte before [atomic] */
};

/*
 * A copy. Both memories must stay valid until *left was decremented for each piece, this struct until *held
 * was decremented for each job.
 */
struct dt_host_copy {
    void *to;
    const void *from;
    uint64_t bytes;
    uint32_t piece_bytes;
    uint32_t job_count; /* 1 to DT_COPY_JOBS_MAX: delegates that copy at the same time */
    uint32_t *left;     /* decremented, with release, for each completed piece [atomic] */
    uint32_t *held;     /* decremented, with release, when a delegate has finished its job [atomic] */
    bool is_polled;     /* the destination may be polled during the copy: base/ascending.h */
    /* Set by dt_delegates_push(). */
    uint64_t claimed_bytes; /* claimed from the start; may exceed `bytes` [atomic] */
    uint64_t helped_bytes;  /* the `from_bytes` of the helping owner [atomic] */
    struct dt_copy_job job[DT_COPY_JOBS_MAX];
};

/* The number of pieces, by which *left decreases. */
static inline uint32_t dt_copy_pieces(uint64_t bytes, uint32_t piece_bytes)
{
    return (uint32_t)((bytes + piece_bytes - 1) / piece_bytes);
}

struct dt_delegate {
    struct dt_copy_job *jobs; /* newest first [atomic] */
    sem_t wake;               /* jobs or stop */
    uint32_t is_stopping;     /* [atomic] */
    int numa_node;
    pthread_t thread;
};

struct dt_delegates {
    uint32_t count; /* 0: not open */
    uint32_t next;  /* delegate for the next job [atomic] */
    bool has_threads;
    struct dt_delegate delegate[DT_DELEGATES_MAX];
};

/* numa_node: where the threads run; -1: any. DT_SYSTEM (one WARN): a thread cannot be started. */
enum dt_status dt_delegates_open(struct dt_delegates *delegates, uint32_t count, int numa_node,
                                 bool has_threads);

/* Completes the pushed copies, then stops the threads. No further push is allowed. No effect if not open. */
void dt_delegates_close(struct dt_delegates *delegates);

/* Any thread; never blocks. One system call per sleeping delegate. */
void dt_delegates_push(struct dt_delegates *delegates, struct dt_host_copy *copy);

/* Copies one unclaimed piece. False: all are claimed. One thread at a time, while the struct is valid. */
bool dt_host_copy_help(struct dt_host_copy *copy);

/* Complete bytes, contiguous from the start, that may be read. Any thread, while the struct is valid. */
uint64_t dt_host_copy_done_bytes(const struct dt_host_copy *copy);

/* Without threads: does the pushed jobs. Returns their number. */
uint32_t dt_delegates_run(struct dt_delegates *delegates);

#ifdef __cplusplus
}
#endif

#endif
