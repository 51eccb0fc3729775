/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "delay/value.h"

namespace
{
constexpr uint64_t kMs = DT_NS_PER_MS;

struct Statistics {
    double mean = 0, deviation = 0, median = 0;
    uint64_t least = 0, most = 0;
};

/* Of many draws with a fixed seed: the bounds below are wide for 200,000 draws, and never a matter of luck.
 */
Statistics Draw(dt_delay_shape shape, uint64_t a, uint64_t b = 0)
{
    dt_delay_value value = {shape, a, b};
    dt_prng prng;
    std::vector<uint64_t> drawn(200000);

    dt_prng_init(&prng, 7);
    for (auto &ns : drawn)
        ns = dt_delay_draw(&value, &prng);
    std::sort(drawn.begin(), drawn.end());
    Statistics s;
    s.least = drawn.front();
    s.most = drawn.back();
    s.median = (double)drawn[drawn.size() / 2];
    for (uint64_t ns : drawn)
        s.mean += (double)ns / (double)drawn.size();
    for (uint64_t ns : drawn)
        s.deviation += ((double)ns - s.mean) * ((double)ns - s.mean) / (double)drawn.size();
    s.deviation = std::sqrt(s.deviation);
    return s;
}

TEST(DelayValue, ConstantIsConstant)
{
    Statistics s = Draw(DT_DELAY_CONSTANT, 30 * kMs);
    EXPECT_EQ(30 * kMs, s.least);
    EXPECT_EQ(30 * kMs, s.most);
}

TEST(DelayValue, UniformFillsItsInterval)
{
    Statistics s = Draw(DT_DELAY_UNIFORM, 50 * kMs, 100 * kMs);
    EXPECT_GE(s.least, 50 * kMs);
    EXPECT_LT(s.least, 50.01 * kMs);
    EXPECT_LE(s.most, 100 * kMs);
    EXPECT_GT(s.most, 99.99 * kMs);
    EXPECT_NEAR(75.0 * kMs, s.mean, 0.1 * kMs);
    EXPECT_NEAR(50.0 / std::sqrt(12.0) * kMs, s.deviation, 0.1 * kMs);
}

TEST(DelayValue, NormalHasMeanAndDeviationAndIsNeverNegative)
{
    Statistics s = Draw(DT_DELAY_NORMAL, 30 * kMs, 5 * kMs);
    EXPECT_NEAR(30.0 * kMs, s.mean, 0.05 * kMs);
    EXPECT_NEAR(5.0 * kMs, s.deviation, 0.05 * kMs);
    EXPECT_NEAR(30.0 * kMs, s.median, 0.1 * kMs);
    EXPECT_EQ(0u, Draw(DT_DELAY_NORMAL, 1 * kMs, 10 * kMs).least);
}

TEST(DelayValue, ExponentialHasMeanAndMedian)
{
    Statistics s = Draw(DT_DELAY_EXPONENTIAL, 5 * kMs);
    EXPECT_NEAR(5.0 * kMs, s.mean, 0.05 * kMs);
    EXPECT_NEAR(5.0 * kMs, s.deviation, 0.1 * kMs);
    EXPECT_NEAR(5.0 * std::log(2.0) * kMs, s.median, 0.05 * kMs);
}

TEST(DelayValue, ParetoHasLeastValueMedianAndMean)
{
    Statistics s = Draw(DT_DELAY_PARETO, 1 * kMs, 3000);
    EXPECT_GE(s.least, 1 * kMs);
    EXPECT_LT(s.least, 1.001 * kMs);
    EXPECT_NEAR(std::pow(2.0, 1.0 / 3) * kMs, s.median, 0.01 * kMs);
    EXPECT_NEAR(1.5 * kMs, s.mean, 0.02 * kMs);
}

TEST(DelayValue, AHeavyTailEndsAtOneHour)
{
    EXPECT_EQ(DT_DELAY_NS_MAX, Draw(DT_DELAY_PARETO, 1 * kMs, 1).most);
}

TEST(DelayValue, IsPrintedInTheLargestUnitWithoutAFraction)
{
    char text[64];
    dt_delay_ns_print(0, text, sizeof text);
    EXPECT_STREQ("0s", text);
    dt_delay_ns_print(1500000, text, sizeof text);
    EXPECT_STREQ("1500us", text);
    dt_delay_value value = {DT_DELAY_PARETO, kMs, 1500};
    dt_delay_value_print(&value, text, sizeof text);
    EXPECT_STREQ("pareto(1ms,1.500)", text);
}
} // namespace
