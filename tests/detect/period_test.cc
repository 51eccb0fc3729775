// SPDX-License-Identifier: Apache-2.0
#include "detect/period.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace
{
uint32_t Find(const std::vector<double> &values)
{
    return dt_period_find(values.data(), static_cast<uint32_t>(values.size()));
}

std::vector<double> Repeat(const std::vector<double> &pattern, size_t count)
{
    std::vector<double> values;
    for (size_t i = 0; i < count; i++)
        values.push_back(pattern[i % pattern.size()]);
    return values;
}

TEST(Period, OfARepeatedPatternIsItsLength)
{
    EXPECT_EQ(Find(Repeat({1, 2}, 40)), 2u);
    EXPECT_EQ(Find(Repeat({4e6, 1e6, 1e6, 9e6, 1e6}, 64)), 5u);
    std::vector<double> pattern;
    for (int i = 0; i < 48; i++)
        pattern.push_back(i % 7 * 1000 + i);
    EXPECT_EQ(Find(Repeat(pattern, 192)), 48u);
}

TEST(Period, OfEqualValuesIsOne)
{
    EXPECT_EQ(Find(Repeat({4194304}, 30)), 1u);
    EXPECT_EQ(Find(Repeat({0}, 30)), 1u);
}

TEST(Period, SurvivesASizeThatVariesALittle)
{
    std::mt19937_64 random(3);
    std::vector<double> values = Repeat({100, 500, 100, 100, 900, 300}, 120);
    for (double &value : values)
        value += static_cast<double>(random() % 10);
    EXPECT_EQ(Find(values), 6u);
}

TEST(Period, ThatWasNotSeenThriceIsNone)
{
    EXPECT_EQ(Find(Repeat({1, 2, 3, 4, 5, 9, 7, 8, 11, 10}, 25)), 0u);
    EXPECT_EQ(Find({}), 0u);
    EXPECT_EQ(Find({1, 1}), 0u);
    std::mt19937_64 random(4);
    std::vector<double> values;
    for (int i = 0; i < 150; i++)
        values.push_back(static_cast<double>(random() % 1000));
    EXPECT_EQ(Find(values), 0u);
}

TEST(Period, IsVotedFor)
{
    auto vote = [](const std::vector<uint32_t> &periods) {
        std::vector<uint32_t> votes(13);
        for (uint32_t period : periods)
            votes[period]++;
        return dt_period_vote(votes.data(), static_cast<uint32_t>(votes.size()));
    };
    EXPECT_EQ(vote({0, 12, 6, 12, 0, 0, 0, 6, 12}), 12u);
    EXPECT_EQ(vote({0, 12, 6, 12, 0, 0, 0, 6}), 6u) << "equally frequent: the smaller";
    EXPECT_EQ(vote({0}), 0u);
    EXPECT_EQ(dt_period_vote(nullptr, 0), 0u);
}
} // namespace
