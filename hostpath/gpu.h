/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs of a process, for the host path: a thread that copies between GPU memory and the staging pool
 * (pool.h).
 *
 * NCCL's progress thread must not call the CUDA driver, since other threads may hold its locks for long. It
 * pushes a copy, without a lock, to a thread that owns the lanes of all GPUs (cuda.h), and polls a counter.
 * Everything that may block or allocate happens when memory is registered (dt_gpus_find()).
 *
 * The first dt_gpus_find() loads CUDA. Without CUDA one INFO line is logged, and no GPU is found.
 *
 * Without threads (simulations) copies progress in dt_gpus_run().
 */
#ifndef DETOUR_HOSTPATH_GPU_H
#define DETOUR_HOSTPATH_GPU_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/wakeup.h"
#include "hostpath/copy.h"
#include "hostpath/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_gpu {
    struct dt_cuda_gpu *cuda;
    struct dt_copy_lane *lane[2]; /* by enum dt_cuda_direction */
};

/* The default chunk: copying it takes longer than the driver calls that start it. */
#define DT_GPU_CHUNK_BYTES (512u << 10)

/* A copy. The caller keeps it, at the same address, until *left was decremented. */
struct dt_gpu_copy {
    struct dt_gpu_copy *next; /* in the queue */
    struct dt_list node;      /* in dt_gpus.active */
    struct dt_copy copy;      /* dt_copy_done_bytes() reports its progress */
    struct dt_gpu *gpu;
    enum dt_cuda_direction direction;
    void *to;
    const void *from;
    uint64_t bytes;
    uint32_t chunk_bytes; /* 0: DT_GPU_CHUNK_BYTES */
    uint32_t flags;       /* enum dt_copy_flag */
    uint32_t is_unwanted; /* dt_gpu_copy_abandon() was called [atomic] */
    bool is_failed;       /* valid after *left was decremented: the copy failed, which was logged */
    uint32_t *left;       /* decremented, with release, when no chunk is in flight any more [atomic] */
};

struct dt_gpus {
    const char *library;
    uint8_t *pool;
    size_t pool_bytes;
    bool has_threads;
    pthread_mutex_t mutex;                /* protects opening */
    struct dt_cuda *cuda;                 /* or NULL */
    bool was_tried;                       /* loading CUDA was tried */
    bool is_started;                      /* the thread runs */
    uint64_t unusable_mask;               /* GPUs, by ordinal, that failed to open, which was logged */
    struct dt_cuda_gpu *pinned_by;        /* the GPU through which the pool is pinned; NULL: not pinned */
    struct dt_gpu *gpu[DT_CUDA_GPUS_MAX]; /* by ordinal [atomic pointers] */
    struct dt_gpu_copy *pushed;           /* newest first [atomic] */
    struct dt_list active;                /* in a lane; used by the thread only */
    struct dt_wakeup wake;                /* copies or stop */
    uint32_t is_stopping;                 /* [atomic] */
    pthread_t thread;
};

/*
 * Initializes without loading CUDA. The caller keeps `library` (a file name for dlopen) and the pool until
 * dt_gpus_close().
 */
void dt_gpus_open(struct dt_gpus *gpus, const char *library, void *pool, size_t pool_bytes, bool has_threads);

/*
 * Completes the pushed copies, for at most two seconds; the resources of a GPU that hangs are leaked (one
 * WARN). No further push is allowed.
 */
void dt_gpus_close(struct dt_gpus *gpus);

/* Only stops the thread: the process is about to exit. No effect if not open, like dt_gpus_close(). */
void dt_gpus_stop(struct dt_gpus *gpus);

/*
 * The GPU that owns the memory at `address`, ready to copy; valid until dt_gpus_close(). NULL: not GPU
 * memory, or the GPU cannot be used, which was logged. Any thread except NCCL's progress thread; may block.
 */
struct dt_gpu *dt_gpus_find(struct dt_gpus *gpus, const void *address);

/*
 * Any thread; never blocks; one system call. The host side of the copy is in the pool. After dt_gpus_stop()
 * the copy fails at once.
 */
void dt_gpus_push(struct dt_gpus *gpus, struct dt_gpu_copy *copy);

/*
 * Any thread, before *left was decremented: no chunk of the copy is started any more, except one that the
 * thread is starting now. The copy ends, as one that has failed, when no chunk is in flight; *left is
 * decremented then.
 */
void dt_gpu_copy_abandon(struct dt_gpu_copy *copy);

/* Called by the thread, or without threads by the simulation: starts the pushed copies and completes the
 * finished ones. False: no copy was completed. */
bool dt_gpus_run(struct dt_gpus *gpus, uint64_t now_ns);

/* Same thread: dt_gpus_run() has work. */
static inline bool dt_gpus_is_busy(const struct dt_gpus *gpus)
{
    return !dt_list_is_empty(&gpus->active) || dt_load_relaxed(&gpus->pushed);
}

#ifdef __cplusplus
}
#endif

#endif
