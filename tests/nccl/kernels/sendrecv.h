/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's send and receive (src/device/sendrecv.h): each work is a send, a receive or both, cut into parts
 * over its channels. The transfers of a channel run at the same time, a thread each, as the warps of a block
 * do.
 */
#ifndef DETOUR_TESTS_NCCL_KERNELS_SENDRECV_H
#define DETOUR_TESTS_NCCL_KERNELS_SENDRECV_H

#include "tests/nccl/kernels/connection.h"

/* `works` are ncclDevWorkP2p. */
void nh_run_send_receive(const struct nh_block *block, char *const *works, int count);

#endif
