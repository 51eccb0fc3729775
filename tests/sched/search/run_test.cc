// SPDX-License-Identifier: Apache-2.0
// All algorithms one after the other: what they find and prove, and what they spend.
#include "tests/sched/brute_force.h"
#include "tests/sched/search/one_search.h"

using namespace sched_test;

namespace
{
TEST(SearchRun, FindsAndProvesTheOptimumOfTinyProblems)
{
    struct dt_prng prng;
    int proved = 0;

    dt_prng_init(&prng, 21);
    for (int round = 0; round < 200 && !testing::Test::HasFailure(); round++) {
        Profile profile = TinyProfile(&prng);
        if (detour_profile_check(profile.get(), nullptr))
            continue;
        int64_t best_ns = BruteForce(profile, 3000);
        if (best_ns < 0)
            continue;
        Search s(profile.get(), 20000);
        ASSERT_EQ(dt_search_run(&s.search), DETOUR_OK);
        EXPECT_LE(s.search.lower_ns, best_ns) << "round " << round;
        EXPECT_GE(s.search.best_ns, best_ns) << "round " << round;
        proved += dt_search_is_closed(&s.search);
    }
    EXPECT_GT(proved, 50);
}

TEST(SearchRun, StopsAtItsBudgetWithASchedule)
{
    Profile profile = Profile::Uniform(8, 32, 10 * kMs, 10 * kMs, 10 * kMs);
    for (size_t link = 0; link < 7; link++)
        profile.Delay(link, 7 * kMs);
    for (uint64_t nodes : {1u, 1000u, 20000u}) {
        Search s(profile.get(), nodes);
        struct detour_schedule *schedule = nullptr;
        ASSERT_EQ(dt_search_run(&s.search), DETOUR_OK);
        // A beam that has begun without a schedule is finished greedily: 8 stages, 3 kinds, 32 microbatches.
        EXPECT_LE(s.call.node_count, nodes + 3000) << nodes;
        ASSERT_NE(INT64_MAX, s.search.best_ns);
        int64_t best_ns = s.search.best_ns;
        ASSERT_EQ(dt_search_finish(&s.search, &schedule), DETOUR_OK);
        EXPECT_EQ(best_ns, Makespan(profile, schedule));
    }
}

TEST(SearchRun, ProvingSpendsTheRestOfTheBudgetAndLowersNothing)
{
    Profile profile = Profile::Uniform(4, 8, 10 * kMs, 13 * kMs, 7 * kMs);
    profile.Delay(1, 9 * kMs);
    Search s(profile.get(), 30000);
    ASSERT_EQ(dt_beam(&s.search, 4, DT_KEY_CHAINS), DETOUR_OK);
    int64_t lower_ns = s.search.lower_ns, best_ns = s.search.best_ns;
    ASSERT_EQ(dt_search_prove(&s.search), DETOUR_OK);
    EXPECT_GE(s.search.lower_ns, lower_ns);
    EXPECT_LE(s.search.best_ns, best_ns);
    EXPECT_LE(s.search.lower_ns, s.search.best_ns);
    EXPECT_TRUE(dt_search_is_closed(&s.search) || dt_search_nodes_left(&s.search) == 0);
}
} // namespace
