/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time. A point in time and a duration are both unsigned nanoseconds; a point counts from an arbitrary
 * origin (CLOCK_MONOTONIC in a process, zero in a simulation).
 *
 * Time is an argument: logic takes `now_ns` and reports its next deadline. Only the thin drivers that own a
 * thread (docs/architecture.md lists them), cli/ and benchmarks call dt_clock_now_ns().
 */
#ifndef DETOUR_BASE_CLOCK_H
#define DETOUR_BASE_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_NS_PER_US 1000ull
#define DT_NS_PER_MS 1000000ull
#define DT_NS_PER_S  1000000000ull
/* "No deadline": later than every point in time. */
#define DT_NEVER_NS UINT64_MAX

/* now_ns + delay_ns, saturating at DT_NEVER_NS. */
static inline uint64_t dt_deadline_ns(uint64_t now_ns, uint64_t delay_ns)
{
    return delay_ns > DT_NEVER_NS - now_ns ? DT_NEVER_NS : now_ns + delay_ns;
}

/* The earlier of two deadlines. */
static inline uint64_t dt_earlier_ns(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

/* CLOCK_MONOTONIC. Only for thread drivers (see above). Any thread. */
uint64_t dt_clock_now_ns(void);

#ifdef __cplusplus
}
#endif

#endif
