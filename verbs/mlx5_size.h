/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that libmlx5 allocates for a reliable-connection queue pair and a completion queue. The formulas are
 * those of rdma-core's providers/mlx5/verbs.c: mlx5_calc_send_wqe(), mlx5_calc_sq_size(), mlx5_calc_rq_size()
 * and create_cq(). Doorbell records and the device's own memory are not counted.
 */
#ifndef DETOUR_VERBS_MLX5_SIZE_H
#define DETOUR_VERBS_MLX5_SIZE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The send queue of `sends` work requests with one data segment and up to `inline_bytes` inline. */
uint64_t dt_mlx5_send_queue_bytes(uint32_t sends, uint32_t inline_bytes);

/* The receive queue of `receives` work requests with one data segment. */
uint64_t dt_mlx5_receive_queue_bytes(uint32_t receives);

/* Both queues of a queue pair, in whole pages. */
uint64_t dt_mlx5_qp_bytes(uint32_t sends, uint32_t inline_bytes, uint32_t receives);

/* A completion queue for `entries` completions, in whole pages. */
uint64_t dt_mlx5_cq_bytes(uint32_t entries);

#ifdef __cplusplus
}
#endif

#endif
