/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs for the host path: copy lanes (copy.h) between host memory and a GPU's memory, and pinned host memory.
 *
 * Every lane has its own stream, which does not synchronize with the application's streams. All work on it is
 * asynchronous: after each chunk the GPU writes its ticket to host memory (cuStreamWriteValue32) or, if the
 * driver lacks that function, records an event. The context is the GPU's primary one, which the CUDA runtime
 * and NCCL use.
 *
 * Threads: dt_cuda_open() to dt_cuda_unpin() may block and allocate; any thread may call them. The operations
 * of a lane, which dt_copy_lane_progress() calls, enqueue and poll and never wait for the GPU. But each is a
 * driver call, and another thread may hold the driver's locks for long (cudaFree, module loading). So a lane
 * belongs to a thread of Detour, never to NCCL's progress thread.
 *
 * Every function restores the calling thread's current context and capture mode.
 */
#ifndef DETOUR_HOSTPATH_CUDA_H
#define DETOUR_HOSTPATH_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "hostpath/copy.h"
#include "hostpath/cuda_table.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_CUDA_GPUS_MAX 64

struct dt_cuda;
struct dt_cuda_gpu;

enum dt_cuda_direction { DT_CUDA_TO_HOST, DT_CUDA_TO_GPU };

/*
 * Loads the driver's library and initializes the driver. DT_NOT_FOUND: no driver or no GPU; one line for the
 * user goes to `reason`. DT_NO_MEMORY.
 */
enum dt_status dt_cuda_open(const char *library, struct dt_cuda **cuda, char *reason, size_t reason_bytes);

/* dt_cuda_open() with the given functions; *table is copied. */
enum dt_status dt_cuda_open_table(const struct dt_cuda_table *table, struct dt_cuda **cuda, char *reason,
                                  size_t reason_bytes);

/* After all lanes were closed and all memory was unpinned. The library stays loaded. */
void dt_cuda_close(struct dt_cuda *cuda);

/*
 * The GPU that owns the memory at `address`; valid until dt_cuda_close(). DT_INVALID (not logged): not GPU
 * memory. DT_SYSTEM (one WARN): the primary context cannot be retained.
 */
enum dt_status dt_cuda_gpu_of(struct dt_cuda *cuda, const void *address, struct dt_cuda_gpu **gpu);

/* The driver's device ordinal, from 0. */
int dt_cuda_gpu_ordinal(const struct dt_cuda_gpu *gpu);

/*
 * On return, earlier writes of other devices to the GPU's memory are visible to the GPU, whichever device
 * wrote and whether or not it still exists. Blocks for some microseconds, or while another thread holds the
 * driver's locks. DT_UNSUPPORTED: not supported by the driver or the GPU; DT_SYSTEM: the flush failed; one
 * line goes to `reason`.
 *
 * Source: NVIDIA's "GPUDirect RDMA" and the driver API reference. If the GPU reports an ordering for its
 * owner, its own kernels need no flush; otherwise the flush is a read that does not pass earlier writes to
 * the GPU.
 */
enum dt_status dt_cuda_flush(struct dt_cuda_gpu *gpu, char *reason, size_t reason_bytes);

/*
 * Page-locks host memory for the lanes of all GPUs; copies of other host memory would block. DT_SYSTEM (one
 * WARN).
 */
enum dt_status dt_cuda_pin(struct dt_cuda_gpu *gpu, void *memory, size_t bytes);
void dt_cuda_unpin(struct dt_cuda_gpu *gpu, void *memory);

/* DT_SYSTEM (one WARN), DT_NO_MEMORY. */
enum dt_status dt_cuda_lane_open(struct dt_cuda_gpu *gpu, enum dt_cuda_direction direction,
                                 struct dt_copy_lane **lane);

/* The lane must be idle (dt_copy_lane_is_idle()). */
void dt_cuda_lane_close(struct dt_copy_lane *lane);

#ifdef __cplusplus
}
#endif

#endif
