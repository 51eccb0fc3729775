/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomic access to plain fields with the compiler's __atomic builtins, so that a struct is the same type in C
 * and in C++. The name gives the memory order. A shared field is accessed only through these; before it is
 * shared, plain access is allowed.
 */
#ifndef DETOUR_BASE_ATOMICS_H
#define DETOUR_BASE_ATOMICS_H

#define dt_load_relaxed(ptr)         __atomic_load_n(ptr, __ATOMIC_RELAXED)
#define dt_load_acquire(ptr)         __atomic_load_n(ptr, __ATOMIC_ACQUIRE)
#define dt_load_seq_cst(ptr)         __atomic_load_n(ptr, __ATOMIC_SEQ_CST)
#define dt_store_relaxed(ptr, value) __atomic_store_n(ptr, value, __ATOMIC_RELAXED)
#define dt_store_release(ptr, value) __atomic_store_n(ptr, value, __ATOMIC_RELEASE)
#define dt_store_seq_cst(ptr, value) __atomic_store_n(ptr, value, __ATOMIC_SEQ_CST)
#define dt_fetch_add_relaxed(ptr, n) __atomic_fetch_add(ptr, n, __ATOMIC_RELAXED)
#define dt_fetch_add_acq_rel(ptr, n) __atomic_fetch_add(ptr, n, __ATOMIC_ACQ_REL)
#define dt_fetch_sub_acq_rel(ptr, n) __atomic_fetch_sub(ptr, n, __ATOMIC_ACQ_REL)
#define dt_exchange_acq_rel(ptr, v)  __atomic_exchange_n(ptr, v, __ATOMIC_ACQ_REL)

/* *ptr == *expected ? (*ptr = desired, true) : (*expected = *ptr, false); acquire and release on success. */
#define dt_compare_swap(ptr, expected, desired) \
    __atomic_compare_exchange_n(ptr, expected, desired, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

#define dt_fence_seq_cst() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* The processor's hint for spin loops. */
static inline void dt_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}

#endif
