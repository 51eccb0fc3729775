/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA's flush of RDMA writes to GPU memory, for the case that the RNIC which wrote cannot perform a flush
 * read any more (transport/message/flush.c). CUDA is loaded on first use, which is rare.
 */
#ifndef DETOUR_HOSTPATH_GPU_FLUSH_H
#define DETOUR_HOSTPATH_GPU_FLUSH_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "hostpath/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_gpu_flusher {
    const char *library; /* NULL: not open */
    pthread_mutex_t mutex;
    struct dt_cuda *cuda; /* or NULL */
};

/* Initializes without loading CUDA. The caller keeps `library` (a file name for dlopen; "": no CUDA). */
void dt_gpu_flusher_open(struct dt_gpu_flusher *flusher, const char *library);

/* No effect if not open. */
void dt_gpu_flusher_close(struct dt_gpu_flusher *flusher);

/*
 * DT_OK: earlier writes to the GPU memory at `address`, and to all other memory of that GPU, are visible to
 * the GPU. Otherwise one line goes to `reason`: DT_NOT_FOUND, no CUDA; DT_INVALID, not GPU memory;
 * DT_UNSUPPORTED; DT_SYSTEM. May block; any thread except NCCL's progress thread.
 */
enum dt_status dt_gpu_flush(struct dt_gpu_flusher *flusher, const void *address, char *reason,
                            size_t reason_bytes);

#ifdef __cplusplus
}
#endif

#endif
