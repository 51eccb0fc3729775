/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delegates: threads that copy what is too much for NCCL's progress thread, bound to a NUMA node. Each has a
 * queue of its own, into which jobs are pushed without a lock; it sleeps while there is none.
 *
 * A copy is made in pieces, from the front on, each by who claims it first: one of the delegates that were
 * given a job of it, or the copy's owner, who may help while it waits anyway. So a copy does not wait for a
 * thread to wake up, and cores that would only look whether it is done share the work.
 *
 * How much of it is there, without a gap, can be asked meanwhile (dt_host_copy_done_bytes()). Whoever is
 * about to claim a piece first notes what is claimed so far, in `from_bytes` of its own: the piece begins
 * there or behind it. The note stands until the piece is there, and is raised with release. So who reads
 * `claimed_bytes` first and all notes then (with acquire) knows that every byte before the least of them was
 * claimed by somebody who has noted something later since, and is there.
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

/* What dt_host_copy_help() copies in one call, unless it is told less: microseconds. */
#define DT_COPY_PIECE_BYTES (64u << 10)

#define DT_COPY_JOBS_MAX 4

struct dt_host_copy;

/* One delegate's part in a copy. */
struct dt_copy_job {
    struct dt_copy_job *next; /* the queue's */
    struct dt_host_copy *copy;
    uint64_t from_bytes; /* nothing before is still being copied by it [atomic] */
};

/*
 * Memory to copy. The memory must stay until *left was decremented for each piece, the rest of this until
 * *held was for each job.
 */
struct dt_host_copy {
    void *to;
    const void *from;
    uint64_t bytes;
    uint32_t piece_bytes;
    uint32_t job_count; /* 1 to DT_COPY_JOBS_MAX: so many delegates may copy at a time */
    uint32_t *left;     /* decremented, with release, for each piece that is there [atomic] */
    uint32_t *held;     /* decremented, with release, when a delegate has let go of its job [atomic] */
    bool is_polled;     /* somebody may read the destination meanwhile: base/ascending.h */
    /* Set by dt_delegates_push(). */
    uint64_t claimed_bytes; /* from the start on, by whoever copies them; may go beyond `bytes` [atomic] */
    uint64_t helped_bytes;  /* the `from_bytes` of who helps [atomic] */
    struct dt_copy_job job[DT_COPY_JOBS_MAX];
};

/* By how much *left goes down. */
static inline uint32_t dt_copy_pieces(uint64_t bytes, uint32_t piece_bytes)
{
    return (uint32_t)((bytes + piece_bytes - 1) / piece_bytes);
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

/* Any thread; never blocks. A system call for each delegate that sleeps. */
void dt_delegates_push(struct dt_delegates *delegates, struct dt_host_copy *copy);

/* Copies a piece that nobody has claimed. False: there is none. One thread at a time, while the copy stays.
 */
bool dt_host_copy_help(struct dt_host_copy *copy);

/* Bytes from the start on that are there, and may be read. Any thread, while the copy stays. */
uint64_t dt_host_copy_done_bytes(const struct dt_host_copy *copy);

/* Without threads: does what was pushed. Returns how many jobs. */
uint32_t dt_delegates_run(struct dt_delegates *delegates);

#ifdef __cplusplus
}
#endif

#endif
