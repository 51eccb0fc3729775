/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver without a GPU: the functions that Detour calls, with asynchronous copies of chosen latency
 * and bandwidth and failures on demand. It is a shared library that is loaded like the real one
 * (DETOUR_CUDA_LIB=.../libfake_cuda.so); a test that links with it, or finds these functions by dlsym,
 * directs it.
 *
 * GPU memory is memory that the processor cannot touch: its addresses are mapped without any right, and the
 * driver itself reads and writes through a second mapping. So code that treats it as host memory crashes.
 *
 * What is wrong in a way that the real driver would punish later or elsewhere is counted
 * (fake_cuda_count_faults()).
 *
 * Time: by itself the double has a thread and CLOCK_MONOTONIC; with fake_cuda_set_time() it has neither, and
 * what is on its way arrives when the clock is set to its time.
 */
#ifndef DETOUR_TESTS_HOSTPATH_FAKE_CUDA_H
#define DETOUR_TESTS_HOSTPATH_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FAKE_CUDA_API __attribute__((visibility("default")))

/* Everything as at the start: no memory, real time, no latency, unlimited bandwidth, two GPUs. Nothing may be
 * on its way. */
FAKE_CUDA_API void fake_cuda_reset(void);

/* GPU memory of GPU `ordinal`, zeroed, as cuMemAlloc would give it. Aborts when there is none. */
FAKE_CUDA_API void *fake_cuda_alloc(int ordinal, size_t bytes);
/* The same, but a RNIC takes it: its addresses can be read and written, and lead to other bytes (0xbd at
 * first). */
FAKE_CUDA_API void *fake_cuda_alloc_for_rnic(int ordinal, size_t bytes);
/* The caller's own host memory as GPU memory, which keeps its bytes: for programs in which the GPU itself is
 * a double. */
FAKE_CUDA_API void fake_cuda_adopt(int ordinal, void *address, size_t bytes);
/* It is host memory again. */
FAKE_CUDA_API void fake_cuda_disown(void *address);
FAKE_CUDA_API void fake_cuda_free(void *address);
/* The same bytes where a test can read and write them. */
FAKE_CUDA_API void *fake_cuda_alias(void *address);

/* Of operations that are enqueued from now on: each takes latency_ns and its bytes at bytes_per_s (0:
 * unlimited), after the one before it on its stream. */
FAKE_CUDA_API void fake_cuda_set_speed(uint64_t latency_ns, uint64_t bytes_per_s);

/* Sets the time from now on. Operations due by then arrive before it returns. */
FAKE_CUDA_API void fake_cuda_set_time(uint64_t now_ns);

/* So many operations more arrive, as soon as they are due, and then none until this is said again; UINT_MAX:
 * all of them, as at first. */
FAKE_CUDA_API void fake_cuda_let(unsigned operations);

/* Call number `after` (0: the next) of the function with this exported name, and every one after that,
 * returns `result`. */
FAKE_CUDA_API void fake_cuda_fail(const char *name, unsigned after, int result);
/* No function fails any more, and contexts are back (what was on its way is not). */
FAKE_CUDA_API void fake_cuda_mend(void);

/* The contexts are gone: what is on its way never arrives, and calls return `result`. */
FAKE_CUDA_API void fake_cuda_break(int result);

/* As a driver that has no stream memory operations. */
FAKE_CUDA_API void fake_cuda_without_write_value(void);

/* Properties of writes of other devices to GPUs: the attributes of cuFlushGPUDirectRDMAWrites. At first it is
 * offered (1), and needed (0). */
FAKE_CUDA_API void fake_cuda_set_rdma(int flush_options, int writes_ordering);

/* The calling thread must not call the driver: it is NCCL's progress thread. Calls are counted as faults. */
FAKE_CUDA_API void fake_cuda_forbid_thread(void);

struct fake_cuda_faults {
    unsigned unpinned_copies;  /* asynchronous copies of host memory that is not pinned: they would block */
    unsigned forbidden_calls;  /* by a forbidden thread */
    unsigned no_context_calls; /* without a context, where one is needed */
    unsigned wrong_context_calls; /* a stream of another context */
    unsigned unsafe_calls;        /* in a capture mode in which the application's capture would fail */
};

FAKE_CUDA_API struct fake_cuda_faults fake_cuda_count_faults(void);

/* Calls of the function with this exported name so far. */
FAKE_CUDA_API unsigned fake_cuda_calls(const char *name);

/* What exists now and has to be given back: contexts retained, streams, events, pinned ranges. */
FAKE_CUDA_API unsigned fake_cuda_objects(void);

/* Operations that are on their way. */
FAKE_CUDA_API unsigned fake_cuda_on_way(void);

#ifdef __cplusplus
}
#endif

#endif
