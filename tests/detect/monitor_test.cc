// SPDX-License-Identifier: Apache-2.0
#include "detect/monitor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace
{
class Monitor : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        dt_monitor_init(&monitor);
    }
    // `count` samples around `level`, with a noise of 2 %.
    void Add(double level, int count)
    {
        for (int i = 0; i < count; i++)
            dt_monitor_add(&monitor, level * std::exp(0.02 * noise(random)));
    }
    dt_verdict Verdict() const
    {
        return dt_monitor_verdict(&monitor);
    }

    dt_monitor monitor;
    std::mt19937_64 random{11};
    std::normal_distribution<double> noise;
};

TEST_F(Monitor, HasNoVerdictBeforeItHasLearned)
{
    Add(3, DT_MONITOR_LEARN - 1);
    EXPECT_FALSE(Verdict().is_known);
    EXPECT_EQ(Verdict().factor, 1);
    Add(3, 1);
    EXPECT_TRUE(Verdict().is_known);
    EXPECT_FALSE(Verdict().is_slow);
}

TEST_F(Monitor, AStepIsDatedMeasuredAndItsEndIsSeen)
{
    Add(3, 100);
    Add(3 * 1.3, 10);
    ASSERT_TRUE(Verdict().is_slow);
    EXPECT_NEAR(static_cast<double>(Verdict().since), 100, 1);
    EXPECT_NEAR(Verdict().factor, 1.3, 0.03);
    Add(3, 10);
    EXPECT_FALSE(Verdict().is_slow);
    EXPECT_NEAR(Verdict().factor, 1, 0.03);
}

TEST_F(Monitor, ALadderOfStepsUnderTenPerCentIsSeenWhenItsSumIsNot)
{
    Add(3, 100);
    Add(3 * 1.06, 60);
    EXPECT_FALSE(Verdict().is_slow);
    Add(3 * 1.06 * 1.06, 60);
    EXPECT_TRUE(Verdict().is_slow) << "12 % above the healthy level";
    EXPECT_NEAR(static_cast<double>(Verdict().since), 160, 5);
}

TEST_F(Monitor, ASlowDriftIsSeenAndDoesNotBecomeTheHealthyLevel)
{
    Add(3, 100);
    for (int i = 0; i < 600; i++)
        Add(3 * (1 + 0.3 * i / 600), 1);
    EXPECT_TRUE(Verdict().is_slow);
    EXPECT_NEAR(Verdict().factor, 1.3, 0.05);
}

TEST_F(Monitor, NinePerCentForEverIsHealthy)
{
    Add(3, 100);
    Add(3 * 1.085, 2000);
    EXPECT_FALSE(Verdict().is_slow);
}

TEST_F(Monitor, OutliersAreNoChange)
{
    for (int i = 0; i < 300; i++) {
        Add(3, 9);
        Add(3 * (2 + i % 5), 1);
        ASSERT_FALSE(Verdict().is_slow) << i;
    }
}

TEST_F(Monitor, HysteresisHoldsBetweenFiveAndTenPerCentForAWhile)
{
    Add(3, 100);
    Add(3 * 1.2, 30);
    ASSERT_TRUE(Verdict().is_slow);
    Add(3 * 1.075, 30);
    EXPECT_TRUE(Verdict().is_slow) << "neither slow nor well";
    Add(3 * 1.075, 100);
    EXPECT_FALSE(Verdict().is_slow) << "below 10 % for long enough";
}

TEST_F(Monitor, ALastingSpeedUpIsTheNewReference)
{
    Add(3, 100);
    Add(2, 100);
    EXPECT_FALSE(Verdict().is_slow);
    EXPECT_NEAR(Verdict().factor, 1, 0.02);
    Add(2 * 1.3, 20);
    EXPECT_TRUE(Verdict().is_slow) << "though faster than at first";
}

TEST_F(Monitor, NoNoiseAtAllIsNoDivisionByNothing)
{
    for (int i = 0; i < 100; i++)
        dt_monitor_add(&monitor, 1);
    EXPECT_FALSE(Verdict().is_slow);
    for (int i = 0; i < 10; i++)
        dt_monitor_add(&monitor, 1.2);
    EXPECT_TRUE(Verdict().is_slow);
    EXPECT_NEAR(Verdict().factor, 1.2, 1e-6);
}

TEST_F(Monitor, ValuesThatAreNoDurationsAreIgnored)
{
    Add(3, 100);
    for (double wrong : {0.0, -1.0, static_cast<double>(NAN), static_cast<double>(INFINITY)})
        dt_monitor_add(&monitor, wrong);
    EXPECT_EQ(monitor.sample_count, 100u);
    dt_monitor_add(&monitor, 5e-324);
    dt_monitor_add(&monitor, 1.7e308);
    Add(3, 20);
    EXPECT_FALSE(Verdict().is_slow);
    EXPECT_TRUE(std::isfinite(Verdict().factor));
}
} // namespace
