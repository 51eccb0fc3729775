/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs as the host path sees them: lanes (copy.h) between host memory and a GPU's, and memory pinned for
 * them.
 *
 * Every lane has a stream of its own that does not wait for the streams of the application. What happens on
 * it is asynchronous: a chunk's arrival is a number that the GPU writes to host memory behind it
 * (cuStreamWriteValue32), or, where the driver has none, an event. The context is the GPU's primary one,
 * which the CUDA runtime and NCCL use.
 *
 * Threads: dt_cuda_open() to dt_cuda_unpin() may block, allocate and be called by any thread. A lane's own
 * functions, which dt_copy_lane_progress() calls, enqueue and look and never wait for the GPU; but each is a
 * call of the driver, which takes locks that another thread may hold for long (cudaFree, module loading). So
 * a lane belongs to a thread of Detour's, never to NCCL's progress thread.
 *
 * The calling thread's current context and capture mode are as before when a function returns.
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
 * Loads the driver's library and starts the driver. DT_NOT_FOUND: there is none, or no GPU; one line for the
 * user goes to `reason`. DT_NO_MEMORY.
 */
enum dt_status dt_cuda_open(const char *library, struct dt_cuda **cuda, char *reason, size_t reason_bytes);

/* The same with functions that the caller has; *table is copied. */
enum dt_status dt_cuda_open_table(const struct dt_cuda_table *table, struct dt_cuda **cuda, char *reason,
                                  size_t reason_bytes);

/* After the last lane was closed and the last memory unpinned. The library stays loaded. */
void dt_cuda_close(struct dt_cuda *cuda);

/*
 * The GPU that the memory at `address` belongs to; it stays until dt_cuda_close(). DT_INVALID (silent): it is
 * no GPU's. DT_SYSTEM (one WARN): its primary context cannot be had.
 */
enum dt_status dt_cuda_gpu_of(struct dt_cuda *cuda, const void *address, struct dt_cuda_gpu **gpu);

/* As the driver counts, from 0. */
int dt_cuda_gpu_ordinal(const struct dt_cuda_gpu *gpu);

/*
 * What other devices have written to the GPU's memory before is visible to the GPU when this returns, which
 * device it was and whether it still lives. Blocks for some microseconds, or for as long as the driver's
 * locks are held. DT_UNSUPPORTED: driver or GPU do not offer it; DT_SYSTEM: it failed; one line goes to
 * `reason`.
 *
 * By NVIDIA's "GPUDirect RDMA" and the driver's reference: writes in the order that the GPU reports need no
 * flush for its own kernels; else the flush is a read that passes no write which is on its way to the GPU.
 */
enum dt_status dt_cuda_flush(struct dt_cuda_gpu *gpu, char *reason, size_t reason_bytes);

/*
 * Page-locks host memory, for the lanes of all GPUs; copies from or to other host memory would block.
 * DT_SYSTEM (one WARN).
 */
enum dt_status dt_cuda_pin(struct dt_cuda_gpu *gpu, void *memory, size_t bytes);
void dt_cuda_unpin(struct dt_cuda_gpu *gpu, void *memory);

/* DT_SYSTEM (one WARN), DT_NO_MEMORY. */
enum dt_status dt_cuda_lane_open(struct dt_cuda_gpu *gpu, enum dt_cuda_direction direction,
                                 struct dt_copy_lane **lane);

/* The lane is idle (dt_copy_lane_is_idle()). */
void dt_cuda_lane_close(struct dt_copy_lane *lane);

#ifdef __cplusplus
}
#endif

#endif
