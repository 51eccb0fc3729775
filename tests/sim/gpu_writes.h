/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What devices have written to GPUs and no GPU is sure to see yet. What a device writes is visible once a
 * read of the same device has come back, or CUDA has flushed the writes of all; until then it may be on its
 * way.
 */
#ifndef DETOUR_TESTS_SIM_GPU_WRITES_H
#define DETOUR_TESTS_SIM_GPU_WRITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Nothing was written, and no memory is a GPU's. */
void dt_gpu_writes_start(void);
void dt_gpu_writes_stop(void);

/* From now on writes to this memory count. */
void dt_gpu_writes_watch(const void *memory, size_t bytes);

void dt_gpu_writes_landed(uint32_t device, const void *to, uint64_t bytes);

/* A read of this device has come back. */
void dt_gpu_writes_flush(uint32_t device);

/* The device that wrote there and may not be done, or -1. */
int dt_gpu_writes_pending(const void *memory, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
