/* SPDX-License-Identifier: Apache-2.0 */
/* The formulas of ADAPTRA section 4, with numbers worked out by hand. */
#include "sched/warmup.h"

#include "tests/sched/sched_test.h"

using namespace sched_test;

namespace
{
using Counts = std::vector<int32_t>;

class Warmup : public ::testing::Test
{
  protected:
    const struct dt_problem *Problem(Profile &profile)
    {
        struct dt_problem *p = nullptr;
        dt_call_init(&call, arena, &error, nullptr);
        EXPECT_EQ(dt_problem_create(&call, profile.get(), &p), DETOUR_OK) << error.text;
        return p;
    }

    Counts Limits(Profile &profile)
    {
        Counts limits(profile.stages.size());
        dt_warmup_limits(Problem(profile), limits.data());
        return limits;
    }

    Counts Even(const Counts &limits)
    {
        Profile profile = Profile::Uniform(static_cast<int32_t>(limits.size()), 12, 10, 10, 10);
        Counts warmup(limits.size());
        dt_warmup_even(Problem(profile), limits.data(), warmup.data());
        return warmup;
    }

    Counts ForDelays(Profile &profile, int32_t extra, enum dt_warmup_need need = DT_WARMUP_OWN)
    {
        Counts limits = Limits(profile), warmup(limits.size());
        dt_warmup_for_delays(Problem(profile), limits.data(), need, extra, warmup.data());
        return warmup;
    }

    Arena arena;
    struct dt_call call;
    struct detour_error error = {};
};

TEST_F(Warmup, NoStageRunsAheadOfTheOneBeforeIt)
{
    Profile profile = Profile::Uniform(4, 12, 10, 10, 10);
    EXPECT_EQ(Limits(profile), (Counts{12, 12, 12, 12}));
    profile.MaxInflight({5, 9, 3, 2});
    EXPECT_EQ(Limits(profile), (Counts{5, 5, 3, 2}));
}

TEST_F(Warmup, MemoryLimitsItWithRoomForABackwardThatTakesMore)
{
    Profile profile = Profile::Uniform(2, 12, 10, 10, 10);
    profile.stages[1].bytes_f = 10;
    profile.devices[1].capacity_bytes = 34;
    EXPECT_EQ(Limits(profile), (Counts{12, 3}));
    profile.stages[1].bytes_w = 15;
    EXPECT_EQ(Limits(profile), (Counts{12, 2}));
}

TEST_F(Warmup, EvenSlackLeavesTheRestToTheLinksInFront)
{
    EXPECT_EQ(Even({7, 7, 7, 7}), (Counts{7, 5, 3, 1}));
    EXPECT_EQ(Even({8, 8, 8, 8}), (Counts{8, 5, 3, 1}));
    EXPECT_EQ(Even({9, 9, 9, 9}), (Counts{9, 6, 3, 1}));
    EXPECT_EQ(Even({9, 3, 3, 3}), (Counts{9, 3, 2, 1}));
    EXPECT_EQ(Even({1}), (Counts{1}));
}

TEST_F(Warmup, ADelayOfTwoSlotsNeedsASlackOfThree)
{
    Profile profile = Profile::Uniform(4, 12, 10, 10, 10);
    EXPECT_EQ(ForDelays(profile, 0), (Counts{4, 3, 2, 1}));
    EXPECT_EQ(ForDelays(profile, 1), (Counts{7, 5, 3, 1}));
    profile.Delay(0, 20); /* there and back: 40, and F and B take 20 */
    EXPECT_EQ(ForDelays(profile, 0), (Counts{6, 3, 2, 1}));
    profile.Delay(0, 1); /* a part of a slot counts as one */
    EXPECT_EQ(ForDelays(profile, 0), (Counts{5, 3, 2, 1}));
    profile.Delay(0, 1000); /* no more than microbatches - 2 stages */
    EXPECT_EQ(ForDelays(profile, 0), (Counts{7, 3, 2, 1}));
}

TEST_F(Warmup, EquationOneCountsRoundsOfTheNextStage)
{
    Profile profile = Profile::Uniform(3, 20, 10, 10, 10);
    EXPECT_EQ(ForDelays(profile, 0, DT_WARMUP_EQUATION_1), (Counts{5, 3, 1})) << "at least 2";
    profile.Delay(1, 40); /* there and back: 80 */
    EXPECT_EQ(ForDelays(profile, 0, DT_WARMUP_EQUATION_1)[1], 1 + (20 + 80) / 20);
    EXPECT_EQ(ForDelays(profile, 0)[1], 1 + 5) << "the same for equal stages";
    profile.stages[2].f_ns = profile.stages[2].b_ns = 5; /* a fast stage takes more rounds in the same time */
    EXPECT_EQ(ForDelays(profile, 0, DT_WARMUP_EQUATION_1)[1], 1 + (20 + 80) / 10);
    EXPECT_EQ(ForDelays(profile, 0)[1], 1 + 5);
    profile.stages[2].f_ns = profile.stages[2].b_ns = 40; /* a slow one fewer: ceil(100 / 80) */
    EXPECT_EQ(ForDelays(profile, 0, DT_WARMUP_EQUATION_1)[1], 1 + 2);
}

TEST_F(Warmup, OwnNumbersAreCheckedAgainstTheLimitsAndTheStageBefore)
{
    Profile profile = Profile::Uniform(4, 12, 10, 10, 10);
    const struct dt_problem *p = Problem(profile);
    const int32_t limits[] = {4, 4, 4, 4}, good[] = {4, 4, 2, 1}, high[] = {5, 4, 3, 2},
                  rising[] = {3, 4, 2, 1}, none[] = {3, 2, 1, 0};
    EXPECT_EQ(dt_warmup_check(&call, p, limits, good), DETOUR_OK);
    EXPECT_EQ(dt_warmup_check(&call, p, limits, high), DETOUR_INVALID);
    EXPECT_EQ(std::string(error.text).rfind("warmup[0] is 5; it must be 1 to 4 ", 0), 0u) << error.text;
    EXPECT_EQ(dt_warmup_check(&call, p, limits, rising), DETOUR_INVALID);
    EXPECT_EQ(std::string(error.text).rfind("warmup[1] is 4; it must be 1 to 3 ", 0), 0u) << error.text;
    EXPECT_EQ(dt_warmup_check(&call, p, limits, none), DETOUR_INVALID);
    EXPECT_EQ(std::string(error.text).rfind("warmup[3] is 0; it must be 1 to 1 ", 0), 0u) << error.text;
}
} // namespace
