/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A launch of one of NCCL's kernels: each block serves a channel and runs the batches of work that the host
 * code put into the arguments (src/device/common.h). Called on a stream's thread; returns when all blocks
 * have ended.
 */
#ifndef DETOUR_TESTS_NCCL_KERNELS_KERNEL_H
#define DETOUR_TESTS_NCCL_KERNELS_KERNEL_H

#include <stddef.h>

/* `arguments` is an ncclDevKernelArgs with what follows it. Ends the process for a kernel that is not run
 * here. */
void nh_run_kernel(const char *name, const void *arguments, size_t bytes, unsigned blocks);

#endif
