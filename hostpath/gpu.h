/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs of a process, for the host path: a thread that copies between their memory and the pool (pool.h).
 *
 * NCCL's progress thread must not call the CUDA driver, whose locks others may hold for long. So it pushes a
 * copy, without a lock, to a thread that owns the lanes of all GPUs (cuda.h), and looks at a counter.
 * Everything that may block or allocate happens when memory is registered (dt_gpus_find()).
 *
 * CUDA is loaded by the first dt_gpus_find(); a machine without it says so once, at INFO, and has no GPU
 * here.
 *
 * Without threads (simulations) copies wait for dt_gpus_run().
 */
#ifndef DETOUR_HOSTPATH_GPU_H
#define DETOUR_HOSTPATH_GPU_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "hostpath/copy.h"
#include "hostpath/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_gpu {
    struct dt_cuda_gpu *cuda;
    struct dt_copy_lane *lane[2]; /* by enum dt_cuda_direction */
};

/* What a copy is made in: it takes longer than the calls of the driver that start it. */
#define DT_GPU_CHUNK_BYTES (512u << 10)

/* A copy. Stays the caller's, and where it is, until *left was decremented for it. */
struct dt_gpu_copy {
    struct dt_gpu_copy *next; /* the queue's */
    struct dt_list node;      /* the thread's */
    struct dt_copy copy;      /* its dt_copy_done_bytes() may be asked for on the way */
    struct dt_gpu *gpu;
    enum dt_cuda_direction direction;
    void *to;
    const void *from;
    uint64_t bytes;
    uint32_t chunk_bytes; /* it is made in such pieces; 0: DT_GPU_CHUNK_BYTES */
    uint32_t flags;       /* enum dt_copy_flag */
    bool is_failed;       /* valid when it was counted: the bytes are not there; it was logged */
    uint32_t *left;       /* decremented, with release, when nothing is on its way any more [atomic] */
};

struct dt_gpus {
    const char *library;
    uint8_t *pool;
    size_t pool_bytes;
    bool has_threads;
    pthread_mutex_t mutex;                /* of opening */
    struct dt_cuda *cuda;                 /* or NULL */
    bool was_tried;                       /* to load CUDA */
    bool is_started;                      /* the thread */
    uint64_t unusable_mask;               /* GPUs, by ordinal, of which that was found out and logged */
    struct dt_cuda_gpu *pinned_by;        /* the pool; or NULL */
    struct dt_gpu *gpu[DT_CUDA_GPUS_MAX]; /* by ordinal [atomic pointers] */
    struct dt_gpu_copy *pushed;           /* the newest first [atomic] */
    struct dt_list active;                /* the thread's: in a lane */
    sem_t wake;                           /* copies, or the end */
    uint32_t is_stopping;                 /* [atomic] */
    pthread_t thread;
};

/*
 * Prepares; nothing is loaded yet. `library` (a file name for dlopen) and the pool stay the caller's, until
 * dt_gpus_close().
 */
void dt_gpus_open(struct dt_gpus *gpus, const char *library, void *pool, size_t pool_bytes, bool has_threads);

/*
 * What was pushed is copied first, for two seconds at most: a GPU that hangs is left alone (one WARN).
 * Nothing is pushed any more.
 */
void dt_gpus_close(struct dt_gpus *gpus);

/* Only what ends the thread: the process is about to exit. Harmless when it is not open, like
 * dt_gpus_close(). */
void dt_gpus_stop(struct dt_gpus *gpus);

/*
 * The GPU whose memory `address` is, ready to copy; valid until dt_gpus_close(). NULL: it is none of a GPU's,
 * or its GPU cannot be used, which was logged. Any thread but NCCL's progress thread; may block.
 */
struct dt_gpu *dt_gpus_find(struct dt_gpus *gpus, const void *address);

/*
 * Any thread; never blocks. The host's end lies in the pool. A system call. After dt_gpus_stop() the copy
 * fails at once.
 */
void dt_gpus_push(struct dt_gpus *gpus, struct dt_gpu_copy *copy);

/* The thread, or without one its caller: starts what was pushed, counts down what is at rest; false: nothing
 * was. */
bool dt_gpus_run(struct dt_gpus *gpus, uint64_t now_ns);

/* The same: is there something for dt_gpus_run() to do? */
static inline bool dt_gpus_is_busy(const struct dt_gpus *gpus)
{
    return !dt_list_is_empty(&gpus->active) || dt_load_relaxed(&gpus->pushed);
}

#ifdef __cplusplus
}
#endif

#endif
