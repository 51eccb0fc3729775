/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordering of stores that a device observes. Between CPUs base/atomics.h is the right thing; a device sees
 * memory by DMA, and its registers through mappings that may combine writes.
 */
#ifndef DETOUR_VERBS_BARRIER_H
#define DETOUR_VERBS_BARRIER_H

#include "base/atomics.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Stores to memory before it are seen by the device before stores to memory after it. */
static inline void dt_barrier_memory_to_memory(void)
{
#if defined(__x86_64__)
    __asm__ volatile("" ::: "memory"); /* x86 keeps stores in order */
#elif defined(__aarch64__)
    __asm__ volatile("dmb oshst" ::: "memory");
#else
    dt_fence_seq_cst();
#endif
}

/* Stores to memory before it are seen by the device before a store to its register after it. */
static inline void dt_barrier_memory_to_device(void)
{
#if defined(__x86_64__)
    __asm__ volatile("sfence" ::: "memory"); /* the register's mapping may be write-combining */
#elif defined(__aarch64__)
    __asm__ volatile("dsb st" ::: "memory");
#else
    dt_fence_seq_cst();
#endif
}

/* Loads after it see what the device wrote before the memory that was read before it. */
static inline void dt_barrier_from_device(void)
{
#if defined(__x86_64__)
    __asm__ volatile("" ::: "memory"); /* x86 keeps loads in order */
#elif defined(__aarch64__)
    __asm__ volatile("dmb oshld" ::: "memory");
#else
    dt_fence_seq_cst();
#endif
}

/* A store to a register before it leaves the CPU now, and before any later one. */
static inline void dt_barrier_flush_device(void)
{
    dt_barrier_memory_to_device();
}

#ifdef __cplusplus
}
#endif

#endif
