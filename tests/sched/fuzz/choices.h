/* SPDX-License-Identifier: Apache-2.0 */
/* Choices from a fuzzer's bytes. */
#ifndef DETOUR_TESTS_SCHED_FUZZ_CHOICES_H
#define DETOUR_TESTS_SCHED_FUZZ_CHOICES_H

#include <stddef.h>

#include "detour/sched.h"

struct dt_choices {
    const unsigned char *at;
    size_t left;
};

/* The next byte, 0 behind the end: short inputs are plain cases. */
static inline int dt_next(struct dt_choices *choices)
{
    if (!choices->left)
        return 0;
    choices->left--;
    return *choices->at++;
}

/* In [0, bound). */
static inline int dt_below(struct dt_choices *choices, int bound)
{
    return dt_next(choices) % bound;
}

/* A time: mostly a few units, so that ties and zeros are common; sometimes the most there may be. */
static inline int64_t dt_a_time(struct dt_choices *choices)
{
    int value = dt_next(choices);

    return value == 255 ? DETOUR_TIME_MAX_NS : value % 13;
}

#endif
