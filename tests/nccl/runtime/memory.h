/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the host runtime: "GPU" and pinned memory are both pages of this process. Every block is its
 * own mapping, so that a write after its release faults. "GPU" blocks start with 0xdb in each byte, so that a
 * read of memory that was never written is seen as wrong data. All functions may be called from any thread.
 */
#ifndef DETOUR_TESTS_NCCL_RUNTIME_MEMORY_H
#define DETOUR_TESTS_NCCL_RUNTIME_MEMORY_H

#include <stddef.h>

/* Values of cudaMemoryType. */
enum nh_memory { NH_PAGEABLE = 0, NH_PINNED = 1, NH_DEVICE = 2 };

/* Bytes at *pointer, NULL for 0 bytes. Returns a cudaError_t. */
int nh_allocate(void **pointer, size_t bytes, enum nh_memory kind);

/* Frees what nh_allocate gave; NULL is fine. Returns a cudaError_t. */
int nh_release(void *pointer);

/* What kind of memory an address lies in; base and bytes (may be NULL) receive its block. */
enum nh_memory nh_memory_of(const void *address, void **base, size_t *bytes);

#endif
