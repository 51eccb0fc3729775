// SPDX-License-Identifier: Apache-2.0
#include "controller/pace.h"

#include <gtest/gtest.h>

namespace
{
TEST(Pace, IsUnknownWithoutAnIteration)
{
    const dt_pace pace = {};

    EXPECT_EQ(dt_pace_ns(&pace), 0);
}

TEST(Pace, SlowIterationsAtTheEndDoNotCount)
{
    dt_pace pace = {};

    for (int i = 0; i < 20; i++)
        dt_pace_add(&pace, 100);
    for (int i = 0; i < 40; i++)
        dt_pace_add(&pace, 900);
    EXPECT_EQ(dt_pace_ns(&pace), 100);
}

TEST(Pace, IsTheLowerQuartileOfTheLastIterations)
{
    dt_pace pace = {};

    for (int i = 0; i < 1000; i++)
        dt_pace_add(&pace, 1);
    for (int i = DT_PACE_COUNT; i > 0; i--)
        dt_pace_add(&pace, i);
    EXPECT_EQ(dt_pace_ns(&pace), DT_PACE_COUNT / 4 + 1);
}
} // namespace
