/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring programs of NCCL's collectives for one channel
 * (src/device/{all_reduce,all_gather,reduce_scatter,broadcast, reduce}.h). Ends the process for what is not
 * run here: other algorithms, registered buffers.
 */
#ifndef DETOUR_TESTS_NCCL_KERNELS_RING_H
#define DETOUR_TESTS_NCCL_KERNELS_RING_H

#include "tests/nccl/kernels/connection.h"
#include "tests/nccl/kernels/function.h"

/* `work` is an ncclDevWorkColl. Returns 0, or -1 when aborted. */
int nh_run_ring(const struct nh_block *block, const char *work, const struct nh_function *function);

#endif
