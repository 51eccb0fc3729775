/* SPDX-License-Identifier: Apache-2.0 */
#include "base/prng.h"

#include "base/check.h"

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

void dt_prng_init(struct dt_prng *prng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        prng->state[i] = splitmix64(&seed);
}

void dt_prng_init_stream(struct dt_prng *prng, uint64_t seed, uint64_t stream_id)
{
    uint64_t mixed = stream_id;

    dt_prng_init(prng, seed ^ splitmix64(&mixed));
}

static uint64_t rotate_left(uint64_t value, int bits)
{
    return (value << bits) | (value >> (64 - bits));
}

uint64_t dt_prng_next(struct dt_prng *prng)
{
    uint64_t *s = prng->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t dt_prng_below(struct dt_prng *prng, uint64_t bound)
{
    DT_CHECK(bound > 0);
    uint64_t value = dt_prng_next(prng);

    /* Values at or above the largest multiple of bound are drawn again, so that none is favored. They are
       less than bound away from the end, so that most draws need no further division. */
    while (value > UINT64_MAX - bound && value > UINT64_MAX - (UINT64_MAX % bound + 1) % bound)
        value = dt_prng_next(prng);
    return value % bound;
}

uint64_t dt_prng_between(struct dt_prng *prng, uint64_t low, uint64_t high)
{
    DT_CHECK(low <= high);
    if (low == 0 && high == UINT64_MAX)
        return dt_prng_next(prng);
    return low + dt_prng_below(prng, high - low + 1);
}

bool dt_prng_chance(struct dt_prng *prng, uint64_t numerator, uint64_t denominator)
{
    return dt_prng_below(prng, denominator) < numerator;
}
