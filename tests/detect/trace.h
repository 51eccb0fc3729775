/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Made-up iteration times with a known truth, for the tests and the benchmark of detect/.
 *
 * A trace is a level (noise-free: 1 is healthy) times noise. Noise is log-normal with a coefficient of
 * variation of 1 to 5 %, sometimes a heavy tail (up to 2 % of the iterations take up to twice as long), and
 * in half of the traces checkpoints: every 50 to 250 iterations one takes 1.2 to 4 times as long. What the
 * level does is the family's. An iteration is slow when its level is at least 1.10; a trace is slow when at
 * least five iterations in a row are. Each family makes about as many healthy traces, whose level stays
 * below 1.10.
 */
#ifndef DETOUR_TESTS_DETECT_TRACE_H
#define DETOUR_TESTS_DETECT_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRACE_ITERATIONS_MAX 640
#define TRACE_QUIET          64 /* iterations at the beginning without a change */
#define TRACE_SLOW_LEVEL     1.10
#define TRACE_SLOW_RUN       5

/* X(family, text, is_held_out): families held out are not looked at while thresholds are chosen */
#define TRACE_FAMILIES(X)                                                                              \
    X(STEADY, "noise only, or noise whose spread doubles for a while", false)                          \
    X(STEP, "one to three phases of +10 to +100 % (healthy: +1 to +9 %), 5 iterations or more", false) \
    X(LADDER, "steps of 3 to 9 % on top of each other, and down again", false)                         \
    X(DRIFT, "a ramp over 60 to 300 iterations that stays", false)                                     \
    X(SAWTOOTH, "a jump that decays exponentially", true)                                              \
    X(ALTERNATE, "slow and healthy phases of 8 to 20 iterations in turn", true)

enum trace_family {
#define TRACE_FAMILY_ENUM(family, text, held_out) TRACE_##family,
    TRACE_FAMILIES(TRACE_FAMILY_ENUM)
#undef TRACE_FAMILY_ENUM
        TRACE_FAMILY_COUNT
};

struct trace {
    uint32_t count;
    double seconds[TRACE_ITERATIONS_MAX];
    double level[TRACE_ITERATIONS_MAX];
    bool is_slow;        /* the truth */
    uint32_t first_slow; /* iteration; only when it is slow */
};

/* The same family and seed make the same trace on every machine with IEEE doubles. */
void trace_make(struct trace *trace, enum trace_family family, uint64_t seed);

const char *trace_family_name(enum trace_family family);
bool trace_family_is_held_out(enum trace_family family);

#ifdef __cplusplus
}
#endif

#endif
