/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include "base/prng.h"

namespace
{
TEST(Prng, TheSameSeedGivesTheSameSequence)
{
    dt_prng a, b;
    dt_prng_init(&a, 42);
    dt_prng_init(&b, 42);
    for (int i = 0; i < 1000; i++)
        ASSERT_EQ(dt_prng_next(&a), dt_prng_next(&b));
}

// The reference generator seeded with the state {1, 2, 3, 4} gives these values.
TEST(Prng, MatchesTheReferenceSequence)
{
    dt_prng prng = {{1, 2, 3, 4}};
    EXPECT_EQ(11520u, dt_prng_next(&prng));
    EXPECT_EQ(0u, dt_prng_next(&prng));
    EXPECT_EQ(1509978240u, dt_prng_next(&prng));
    EXPECT_EQ(1215971899390074240u, dt_prng_next(&prng));
}

TEST(Prng, StreamsOfOneSeedDiffer)
{
    dt_prng a, b;
    dt_prng_init_stream(&a, 42, 0);
    dt_prng_init_stream(&b, 42, 1);
    EXPECT_NE(dt_prng_next(&a), dt_prng_next(&b));
}

TEST(Prng, RangesAreKeptAndReached)
{
    dt_prng prng;
    dt_prng_init(&prng, 7);
    int low = 0, high = 0;
    for (int i = 0; i < 10000; i++) {
        uint64_t value = dt_prng_between(&prng, 10, 13);
        ASSERT_GE(value, 10u);
        ASSERT_LE(value, 13u);
        low += value == 10;
        high += value == 13;
    }
    EXPECT_NEAR(2500, low, 250);
    EXPECT_NEAR(2500, high, 250);
    EXPECT_EQ(UINT64_MAX, dt_prng_between(&prng, UINT64_MAX, UINT64_MAX));
}

TEST(Prng, ChanceIsARatio)
{
    dt_prng prng;
    dt_prng_init(&prng, 7);
    int hits = 0;
    for (int i = 0; i < 30000; i++)
        hits += dt_prng_chance(&prng, 1, 3);
    EXPECT_NEAR(10000, hits, 300);
    EXPECT_FALSE(dt_prng_chance(&prng, 0, 5));
    EXPECT_TRUE(dt_prng_chance(&prng, 5, 5));
}
} // namespace
