/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seeded pseudo random numbers: xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number
 * generators", 2018), its state filled by splitmix64. The same seed gives the same sequence on every
 * machine. Probabilities are ratios of integers, so no result depends on floating point. Not for secrets.
 */
#ifndef DETOUR_BASE_PRNG_H
#define DETOUR_BASE_PRNG_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dt_prng {
    uint64_t state[4];
};

/* Any seed is valid, including zero. */
void dt_prng_init(struct dt_prng *prng, uint64_t seed);

/*
 * A separate generator for one part of a run: streams of one seed with different ids are independent, so that
 * drawing more numbers in one part does not change another.
 */
void dt_prng_init_stream(struct dt_prng *prng, uint64_t seed, uint64_t stream_id);

/* 64 random bits. */
uint64_t dt_prng_next(struct dt_prng *prng);

/* Uniform in [0, bound); bound > 0. */
uint64_t dt_prng_below(struct dt_prng *prng, uint64_t bound);

/* Uniform in [low, high], both included; low <= high. */
uint64_t dt_prng_between(struct dt_prng *prng, uint64_t low, uint64_t high);

/* True with probability numerator/denominator; denominator > 0. */
bool dt_prng_chance(struct dt_prng *prng, uint64_t numerator, uint64_t denominator);

#ifdef __cplusplus
}
#endif

#endif
