// SPDX-License-Identifier: Apache-2.0
// How close to the best possible schedules come, in node budgets, on the families that bench/sched_quality.c
// measures. Gaps are to the lower bound that was proved in the same run, so they are never flattered.
#include <algorithm>
#include <cstdio>

#include "tests/sched/family.h"
#include "tests/sched/sched_test.h"

using namespace sched_test;

namespace
{
constexpr int kProblems = 30;

struct detour_plan *Plan(struct detour_arena *arena, const struct detour_profile *profile,
                         enum detour_algorithm algorithm, uint64_t budget_us)
{
    struct detour_options options = {};
    struct detour_plan *plan = nullptr;
    struct detour_error error = {};
    options.algorithm = algorithm;
    options.node_budget = detour_node_budget(profile, budget_us);
    EXPECT_EQ(detour_generate(arena, profile, &options, &plan, &error), DETOUR_OK) << error.text;
    return plan;
}

double GapPercent(const struct detour_plan *plan, int64_t lower_ns)
{
    return 100.0 * static_cast<double>(plan->makespan_ns - lower_ns) / static_cast<double>(lower_ns);
}

struct Gaps {
    double mean;
    double worst;
};

/*
 * `auto` with its default budget against the better of its own bound and that of `exact` with ten times more,
 * or fifty times where that shows less than 2 %.
 */
Gaps Measure(int limit)
{
    Gaps gaps = {0, 0};
    for (uint64_t seed = 1; seed <= kProblems; seed++) {
        struct family_problem problem;
        family_make(&problem, limit, seed, 0, 0);
        SCOPED_TRACE(std::string(family_name(limit)) + ", seed " + std::to_string(seed));
        Arena arena, exact_arena;
        struct detour_plan *plan = Plan(arena, &problem.profile, DETOUR_ALGORITHM_AUTO, 100000);
        if (!plan)
            continue;
        int64_t lower_ns = plan->lower_bound_ns;
        for (uint64_t budget_us : {1000000, 5000000}) {
            if (GapPercent(plan, lower_ns) <= (budget_us == 1000000 ? 0.0 : 2.0))
                break;
            struct detour_plan *exact =
                Plan(exact_arena, &problem.profile, DETOUR_ALGORITHM_EXACT, budget_us);
            lower_ns = exact ? std::max(lower_ns, exact->lower_bound_ns) : lower_ns;
        }
        for (enum detour_algorithm other : {DETOUR_ALGORITHM_ADAPTRA, DETOUR_ALGORITHM_ZB}) {
            Arena other_arena;
            struct detour_plan *greedy = Plan(other_arena, &problem.profile, other, 1);
            EXPECT_TRUE(greedy && plan->makespan_ns <= greedy->makespan_ns);
        }
        double gap = GapPercent(plan, lower_ns);
        gaps.mean += gap / kProblems;
        gaps.worst = std::max(gaps.worst, gap);
    }
    printf("%s, seeds 1 to %d: mean %.3f %%, worst %.2f %%\n", family_name(limit), kProblems, gaps.mean,
           gaps.worst);
    return gaps;
}
} // namespace

TEST(Quality, AutoWithoutAMemoryLimit)
{
    Gaps gaps = Measure(FAMILY_NO_LIMIT);
    EXPECT_LE(gaps.mean, 0.5);
    EXPECT_LE(gaps.worst, 2.0);
}

TEST(Quality, AutoWithTwiceTheMemory)
{
    Gaps gaps = Measure(FAMILY_TWICE);
    EXPECT_LE(gaps.mean, 0.5);
    EXPECT_LE(gaps.worst, 2.0);
}

/* No optimum is proved for a fifth to a quarter of these. */
TEST(Quality, AutoWithTightMemory)
{
    Gaps gaps = Measure(FAMILY_ONCE);
    EXPECT_LE(gaps.mean, 0.5);
    EXPECT_LE(gaps.worst, 2.0);
}

TEST(Quality, AutoWithTightMemoryUntilW)
{
    Gaps gaps = Measure(FAMILY_RELEASE_W);
    EXPECT_LE(gaps.mean, 0.5);
    EXPECT_LE(gaps.worst, 2.0);
}

TEST(Quality, ExactProvesNearlyAllWithoutAMemoryLimit)
{
    int proven = 0, total = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct family_problem problem;
        family_make(&problem, FAMILY_NO_LIMIT, seed, seed % 3 == 0 ? 8 : 0, seed % 3 == 0 ? 32 : 0);
        Arena arena;
        struct detour_plan *plan = Plan(arena, &problem.profile, DETOUR_ALGORITHM_EXACT, 1000000);
        ASSERT_NE(plan, nullptr);
        total++;
        proven += plan->proven_optimal;
    }
    printf("%d of %d proven\n", proven, total);
    EXPECT_GE(proven * 100, total * 95);
}
