/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.h includes this header; a C program needs nothing of it. */
#ifndef DETOUR_TESTS_NCCL_CUDA_FP16_H
#define DETOUR_TESTS_NCCL_CUDA_FP16_H
#endif
