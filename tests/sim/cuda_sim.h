/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs of a simulation: a CUDA driver in virtual time, whose copies take a drawn time, or that of a stated
 * rate. It takes the place of hostpath/cuda_table.c. Each host has one GPU. GPU memory is what
 * dt_cuda_sim_claim() was called for.
 */
#ifndef DETOUR_TESTS_SIM_CUDA_SIM_H
#define DETOUR_TESTS_SIM_CUDA_SIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* No GPU memory, nothing under way. The seed decides how long copies take, and which ones the driver holds
 * back for longer than a message waits (stage_late.h). */
void dt_cuda_sim_start(uint64_t seed);

/* The memory is a GPU's until the next start. */
void dt_cuda_sim_claim(const void *memory, size_t bytes);

/*
 * From now on copies take the time that these rates imply, one after the other per host and direction, and
 * not a drawn time: a copy takes start_ns and its bytes at the rate. With block_bytes a copy longer than a
 * block carries only the stamps of its blocks, as a packet does (wire_sim.h). Until the next start.
 */
struct dt_cuda_sim_rates {
    uint64_t to_host_bytes_per_s; /* > 0, as the next */
    uint64_t to_gpu_bytes_per_s;
    uint64_t start_ns;
    uint64_t block_bytes;
};
void dt_cuda_sim_set_rates(const struct dt_cuda_sim_rates *rates);

/* When the next copy of the host's GPU ends; DT_NEVER_NS: none is under way. */
uint64_t dt_cuda_sim_next_ns(uint32_t host);

/* What is due arrives. */
void dt_cuda_sim_advance(void);

#ifdef __cplusplus
}
#endif

#endif
