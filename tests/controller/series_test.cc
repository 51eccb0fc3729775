// SPDX-License-Identifier: Apache-2.0
#include "controller/series.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "base/prng.h"

namespace
{
constexpr uint64_t kSecond = 1000000000;

class Series : public ::testing::Test
{
  protected:
    Series()
    {
        dt_series_init(&series);
        dt_prng_init(&prng, 1);
    }

    // Normal enough: the sum of twelve uniform numbers.
    double Noise(double deviation)
    {
        double sum = -6;

        for (int i = 0; i < 12; i++)
            sum += double(dt_prng_next(&prng) >> 11) * 0x1p-53;
        return deviation * sum;
    }

    void Add(double factor, double deviation = 0.03, uint64_t samples = 16)
    {
        time_ns += kSecond;
        dt_series_add(&series, std::log(1e6 * factor) + Noise(deviation), samples, time_ns);
        dt_series_judge(&series, nullptr, span_ns);
    }

    void Add(int count, double factor, double deviation = 0.03)
    {
        for (int i = 0; i < count; i++)
            Add(factor, deviation);
    }

    int AddUntilSlow(double factor, int limit)
    {
        for (int i = 1; i <= limit; i++) {
            Add(factor);
            if (series.is_slow)
                return i;
        }
        return 0;
    }

    dt_series series;
    dt_prng prng;
    uint64_t time_ns = 0, span_ns = 0;
};

TEST_F(Series, DelaysThatDifferByAFactorOfTenAreNoBurst)
{
    span_ns = 4 * kSecond; // only a window of four reports is long enough
    Add(40, 1);
    for (double factor : {30., 3., 60.}) {
        Add(factor);
        EXPECT_FALSE(series.is_slow);
    }
    EXPECT_EQ(AddUntilSlow(25, 1), 1);
}

TEST_F(Series, ABurstDoesNotLiftTheNoiseOverTheBound)
{
    Add(80, 1, 0.001);
    series.deviation = 0.07;
    for (double excess : {0.14, 0.15, 0.68, 0.07, 0.12, 0.16, 0.09}) {
        time_ns += kSecond;
        dt_series_add(&series, std::log(1e6) + excess, 16, time_ns);
        dt_series_judge(&series, nullptr, 7 * kSecond);
        EXPECT_FALSE(series.is_slow);
    }
    double mean;
    ASSERT_TRUE(dt_series_window(&series, 4, &mean)); // of seven
    EXPECT_GT(mean, DT_SERIES_ERRORS * 0.07 * std::sqrt(1. / 7 + 1.57 / 64));
}

TEST_F(Series, OneLongReportIsEnoughAndTheNextOneMayRefuteIt)
{
    const dt_series_errors errors = {.one = {0.02}, .both = {}};
    auto report = [&](double factor, uint64_t interval_ns, uint64_t judged_span_ns) {
        time_ns += interval_ns;
        dt_series_add(&series, std::log(1e6 * factor), 16, time_ns);
        return dt_series_judge(&series, &errors, judged_span_ns);
    };

    Add(40, 1, 0.01);
    EXPECT_TRUE(report(1.3, kSecond / 2, kSecond)); // shorter than an iteration
    EXPECT_FALSE(series.is_slow);
    EXPECT_TRUE(report(1, kSecond, kSecond));
    EXPECT_TRUE(report(1.1, kSecond, kSecond)); // too low
    EXPECT_FALSE(series.is_slow);
    EXPECT_TRUE(report(1.3, kSecond * 9 / 10, kSecond));
    EXPECT_TRUE(dt_series_is_early(&series));
    EXPECT_FALSE(report(1, kSecond, kSecond));
    EXPECT_FALSE(series.is_slow);
    EXPECT_TRUE(report(1, kSecond, kSecond));
    EXPECT_TRUE(report(1.3, kSecond, kSecond));
    EXPECT_TRUE(report(1.3, kSecond, kSecond));
    EXPECT_TRUE(series.is_slow);
    EXPECT_FALSE(dt_series_is_early(&series));
}

TEST_F(Series, LearnsBeforeItJudges)
{
    for (int i = 0; i < DT_SERIES_LEARN; i++) {
        EXPECT_FALSE(dt_series_is_learned(&series));
        Add(i < 8 ? 1 : 3);
        EXPECT_FALSE(series.is_slow);
    }
    EXPECT_TRUE(dt_series_is_learned(&series));
}

TEST_F(Series, ALargeRiseIsFoundInTwoReportsAndASmallOneLater)
{
    Add(100, 1);
    EXPECT_EQ(AddUntilSlow(1.5, 10), 2);
    Add(20, 1);
    EXPECT_FALSE(series.is_slow);
    int reports = AddUntilSlow(1.06, 128);
    EXPECT_GT(reports, 4);
    EXPECT_NEAR(std::exp(series.rise), 1.06, 0.03);
}

TEST_F(Series, ADriftBelowTenPercentIsFound)
{
    Add(100, 1);
    for (int i = 0; i < 400; i++)
        Add(1 + 0.07 * i / 400);
    EXPECT_TRUE(series.is_slow);
}

TEST_F(Series, NoiseAloneIsNeverSlow)
{
    Add(20000, 1);
    EXPECT_FALSE(series.is_slow);
}

TEST_F(Series, ABurstIsNotSlow)
{
    Add(100, 1);
    span_ns = 3 * kSecond;
    for (int burst = 0; burst < 20; burst++) {
        Add(2, 6);
        EXPECT_FALSE(series.is_slow);
        Add(14, 1);
    }
    Add(3, 6);
    Add(1, 6);
    EXPECT_TRUE(series.is_slow);
}

TEST_F(Series, SinceIsTheFirstSlowReport)
{
    Add(100, 1);
    uint64_t healthy_ns = time_ns;
    span_ns = 3 * kSecond;
    AddUntilSlow(2, 8);
    EXPECT_EQ(series.since_ns, healthy_ns + kSecond);
}

TEST_F(Series, ItEndsWhenHealthyAndBeginsAgain)
{
    Add(100, 1);
    for (int round = 0; round < 3; round++) {
        EXPECT_GT(AddUntilSlow(1.4, 10), 0);
        Add(30, 1.4);
        EXPECT_TRUE(series.is_slow);
        Add(8, 1);
        EXPECT_FALSE(series.is_slow);
    }
    Add(200, 1);
    EXPECT_FALSE(series.is_slow);
}

TEST_F(Series, ARiseThatFallsButStaysHighGoesOn)
{
    Add(100, 1);
    EXPECT_GT(AddUntilSlow(5, 10), 0);
    Add(100, 1.3);
    EXPECT_TRUE(series.is_slow);
    EXPECT_NEAR(std::exp(series.rise), 1.3, 0.05);
}

TEST_F(Series, AFasterLevelBecomesTheReference)
{
    Add(100, 1);
    Add(200, 0.5);
    EXPECT_FALSE(series.is_slow);
    EXPECT_EQ(AddUntilSlow(0.75, 10), 2);
}

TEST_F(Series, ASlowLevelNeverBecomesTheReference)
{
    Add(100, 1);
    Add(3000, 1.2);
    EXPECT_TRUE(series.is_slow);
}

// One transfer in a report instead of 16, with four times the noise.
TEST_F(Series, FewTransfersWeighLess)
{
    Add(100, 1);
    for (int i = 0; i < 5000; i++)
        Add(1, 0.12, 1);
    EXPECT_FALSE(series.is_slow);
}

TEST_F(Series, TheNoiseOfTheKindIsBelieved)
{
    Add(100, 1, 0.001);
    for (int i = 0; i < 4; i++) {
        time_ns += kSecond;
        dt_series_add(&series, std::log(1.08e6), 16, time_ns);
        const dt_series_errors errors = {.one = {0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05}, .both = {}};
        dt_series_judge(&series, &errors, 0);
    }
    EXPECT_FALSE(series.is_slow);
    dt_series_judge(&series, nullptr, 0);
    EXPECT_TRUE(series.is_slow);
}

// The delays of one link have raised its deviation above what one of them, 0.5, would need to be beyond
// doubt.
TEST_F(Series, DelaysThatDifferDoNotHideBehindTheirOwnDeviation)
{
    const dt_series_errors errors = {.one = {0, 0, 0.03}, .both = {}};

    for (double deviation : {0.06, 0.1}) {
        Add(80, 1, 0.001);
        series.deviation = deviation;
        for (double excess : {3., 0.5, 4., 2.}) {
            time_ns += kSecond;
            dt_series_add(&series, std::log(1e6) + excess, 16, time_ns);
            dt_series_judge(&series, &errors, 4 * kSecond);
        }
        EXPECT_TRUE(series.is_slow) << deviation;
        dt_series_init(&series);
    }
}

class BothDirections : public Series
{
  protected:
    BothDirections()
    {
        dt_series_init(&back);
    }

    // Of each direction, with a ripple of 1 %; alone a window of four needs 16 %, both together need 11 %.
    void Add(double factor, double back_factor)
    {
        time_ns += kSecond;
        for (auto [one, by] : {std::pair{&series, factor}, std::pair{&back, back_factor}}) {
            dt_series_add(one, std::log(1e6 * by) + 0.01 * std::sin(double(time_ns / kSecond)), 16, time_ns);
            dt_series_judge(one, &errors, 4 * kSecond);
        }
        dt_series_judge_both(&series, &back, &errors, 4 * kSecond);
    }

    void Add(int count, double factor, double back_factor)
    {
        for (int i = 0; i < count; i++)
            Add(factor, back_factor);
    }

    const dt_series_errors errors = {.one = {0, 0, 0.16 / DT_SERIES_ERRORS},
                                     .both = {0, 0, 0.11 / DT_SERIES_ERRORS}};
    dt_series back;
};

TEST_F(BothDirections, ShowTogetherWhatOneAloneDoesNot)
{
    Add(80, 1, 1);
    Add(3, 1.15, 1.15);
    EXPECT_FALSE(series.is_slow || back.is_slow);
    Add(1.15, 1.15);
    EXPECT_TRUE(series.is_slow && back.is_slow);
    EXPECT_NEAR(std::exp(series.rise), 1.15, 0.02);
    Add(10, 1, 1);
    EXPECT_FALSE(series.is_slow || back.is_slow);
}

// Not a link that is slow one way, however much: its own series finds that.
TEST_F(BothDirections, AreNotSlowBecauseOneIs)
{
    Add(80, 1, 1);
    Add(8, 1.15, 1);
    EXPECT_FALSE(series.is_slow || back.is_slow);
    Add(8, 1.5, 1);
    EXPECT_TRUE(series.is_slow);
    EXPECT_FALSE(back.is_slow);
}

TEST_F(BothDirections, ABurstOfBothIsNone)
{
    Add(80, 1, 1);
    Add(2, 3, 3);
    Add(20, 1, 1);
    EXPECT_FALSE(series.is_slow || back.is_slow);
}

TEST_F(Series, TheLowerOfTwoReportsIsNotRaisedByABurst)
{
    EXPECT_EQ(dt_series_lower_of_two(&series).error, 0);
    Add(80, 1, 0.001);
    Add(1.5, 0.001);
    EXPECT_NEAR(dt_series_lower_of_two(&series).mean, 0, 0.01);
    Add(1.4, 0.001);
    EXPECT_NEAR(dt_series_lower_of_two(&series).mean, std::log(1.4), 0.01);
    EXPECT_GT(dt_series_lower_of_two(&series).error, 0.005);
}

TEST_F(Series, TheLevelSinceATimeIsOfItsReportsOnly)
{
    Add(100, 1);
    uint64_t since_ns = time_ns + 1;
    EXPECT_EQ(dt_series_level_since(&series, since_ns).error, 0);
    Add(16, 1.5);
    dt_series_level level = dt_series_level_since(&series, since_ns);
    EXPECT_NEAR(level.mean, std::log(1.5), 0.03);
    EXPECT_GT(level.error, 0.005);
    EXPECT_LT(level.error, 0.02);
}
} // namespace
