/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs of a simulation: a CUDA driver in virtual time, whose copies take a drawn time. It takes the place of
 * hostpath/cuda_table.c. GPU memory is what a flow says is some.
 */
#ifndef DETOUR_TESTS_SIM_CUDA_SIM_H
#define DETOUR_TESTS_SIM_CUDA_SIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* No GPU memory, nothing under way. The seed decides how long copies take. */
void dt_cuda_sim_start(uint64_t seed);

/* The memory is a GPU's until the next start. */
void dt_cuda_sim_claim(const void *memory, size_t bytes);

/* What is due arrives. */
void dt_cuda_sim_advance(void);

#ifdef __cplusplus
}
#endif

#endif
