// SPDX-License-Identifier: Apache-2.0
// The orders that the papers of GPipe, 1F1B and interleaved 1F1B draw.
#include "tests/sched/sched_test.h"

using namespace sched_test;

namespace
{
std::vector<std::string> Orders(Profile &profile, enum detour_algorithm algorithm,
                                struct detour_options options = {})
{
    Arena arena;
    const struct detour_schedule *s = Generate(arena, profile, algorithm, options)->schedule;
    std::vector<std::string> lines;
    for (int32_t d = 0; d < s->device_count; d++)
        lines.push_back(Line(s, d));
    return lines;
}
} // namespace

TEST(Classic, GpipeRunsAllForwardsThenAllBackwards)
{
    Profile profile = Profile::Uniform(2, 3, 10, 10, 10);
    for (const std::string &line : Orders(profile, DETOUR_ALGORITHM_GPIPE)) {
        EXPECT_EQ(line.rfind("F0 F1 F2 BW", 0), 0u) << line;
        EXPECT_EQ(line.size(), std::string("F0 F1 F2 BW0 BW1 BW2").size());
    }
}

TEST(Classic, OneForwardOneBackwardAfterTheWarmUp)
{
    Profile profile = Profile::Uniform(3, 4, 10, 10, 10);
    EXPECT_EQ(Orders(profile, DETOUR_ALGORITHM_1F1B),
              (std::vector<std::string>{"F0 F1 F2 BW0 F3 BW1 BW2 BW3", "F0 F1 BW0 F2 BW1 F3 BW2 BW3",
                                        "F0 BW0 F1 BW1 F2 BW2 F3 BW3"}));
}

/* (S - 1)(F + B + W) of bubble: the closed form of 1F1B and GPipe. */
TEST(Classic, MakespansHaveTheirClosedForm)
{
    for (int32_t stages = 1; stages <= 6; stages++) {
        for (int32_t m = stages; m <= 12; m++) {
            Arena arena;
            Profile profile = Profile::Uniform(stages, m, 3, 5, 2);
            for (enum detour_algorithm algorithm : {DETOUR_ALGORITHM_GPIPE, DETOUR_ALGORITHM_1F1B})
                EXPECT_EQ(Generate(arena, profile, algorithm)->makespan_ns, 10 * (m + stages - 1))
                    << detour_algorithm_name(algorithm) << " S " << stages << " N " << m;
        }
    }
}

/* Two devices with two stages each: Megatron's order, in rounds of as many microbatches as devices. */
TEST(Classic, InterleavedTakesStagesInRounds)
{
    Profile profile = Profile::Uniform(4, 4, 10, 10, 10);
    for (int32_t i = 0; i < 4; i++)
        profile.stages[i].device = i % 2;
    std::vector<std::string> lines = Orders(profile, DETOUR_ALGORITHM_INTERLEAVED);
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_EQ(lines[0].rfind("F0 F1 F0 F1 F2 ", 0), 0u) << lines[0];
    EXPECT_EQ(lines[1].rfind("F0 F1 F0 BW0 ", 0), 0u) << lines[1];
}
