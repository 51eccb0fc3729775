/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time stamps that cost one instruction: the processor's counter, for the data path, which may not read a
 * clock. The reader of the stamps converts ticks to nanoseconds of CLOCK_MONOTONIC. The conversion is
 * calibrated repeatedly, over an increasing interval.
 *
 * Without a counter of constant rate that all cores share, the stamps are CLOCK_MONOTONIC itself; in a
 * simulation they are virtual time. In both cases `now_ns` is set.
 */
#ifndef DETOUR_BASE_TICKS_H
#define DETOUR_BASE_TICKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_ticks {
    uint64_t (*now_ns)(void *arg); /* NULL: the processor's counter; else a tick is a nanosecond */
    void *now_arg;
    uint64_t base_ticks;
    uint64_t base_ns;
    uint64_t scale; /* nanoseconds per tick, times 2^32 [atomic] */
};

/* Virtual time. Any thread may read it if now_ns allows. */
void dt_ticks_init_virtual(struct dt_ticks *ticks, uint64_t (*now_ns)(void *arg), void *now_arg);

/* The processor's counter, or CLOCK_MONOTONIC. For thread drivers: reads the clock. */
void dt_ticks_init(struct dt_ticks *ticks);

/* Calibrates again; the precision grows with the time since dt_ticks_init(). One thread at a time. */
void dt_ticks_calibrate(struct dt_ticks *ticks);

#if defined(__x86_64__) || defined(__aarch64__)
#define DT_TICKS_COUNTER 1
static inline uint64_t dt_ticks_counter(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    uint64_t count;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#endif
}
#else
#define DT_TICKS_COUNTER 0
static inline uint64_t dt_ticks_counter(void)
{
    return 0; /* not called: now_ns is set */
}
#endif

/* A stamp. Stamps of one thread never decrease; those of two cores may, by the time between two instructions.
 */
static inline uint64_t dt_ticks_now(const struct dt_ticks *ticks)
{
    return __builtin_expect(ticks->now_ns != 0, 0) ? ticks->now_ns(ticks->now_arg) : dt_ticks_counter();
}

/* The duration of `count` ticks. */
static inline uint64_t dt_ticks_to_ns(const struct dt_ticks *ticks, uint64_t count)
{
    return (uint64_t)((unsigned __int128)count * dt_load_relaxed(&ticks->scale) >> 32);
}

/* The time of a stamp on CLOCK_MONOTONIC, or in virtual time. */
static inline uint64_t dt_ticks_moment_ns(const struct dt_ticks *ticks, uint64_t stamp)
{
    return ticks->base_ns + dt_ticks_to_ns(ticks, stamp > ticks->base_ticks ? stamp - ticks->base_ticks : 0);
}

#ifdef __cplusplus
}
#endif

#endif
