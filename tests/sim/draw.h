/* SPDX-License-Identifier: Apache-2.0 */
/* Draws that scenarios are made of. */
#ifndef DETOUR_TESTS_SIM_DRAW_H
#define DETOUR_TESTS_SIM_DRAW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"
#include "base/util.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Between low and high, every power of two as likely as every other. */
static inline uint64_t dt_draw_log(struct dt_prng *prng, uint64_t low, uint64_t high)
{
    unsigned octaves = 0;
    uint64_t at;

    while (high >> (octaves + 1) >= low)
        octaves++;
    at = low << dt_prng_below(prng, octaves + 1ull);
    return dt_prng_between(prng, at, dt_min_u64(2 * at - 1, high));
}

static inline bool dt_draw_one_in(struct dt_prng *prng, uint64_t n)
{
    return dt_prng_chance(prng, 1, n);
}

#ifdef __cplusplus
}
#endif

#endif
