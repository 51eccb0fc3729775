// SPDX-License-Identifier: Apache-2.0
// The plan of all steps, and that its forecast is what the ladder does.
#include "detour/mitigate.h"

#include "tests/planner/mitigate/cluster.h"

using namespace mitigate_test;

namespace
{
struct detour_mitigation Plan(struct detour_arena *arena, Cluster &cluster, Slowness &slowness,
                              int64_t slow_iterations = 0)
{
    struct detour_mitigation mitigation = {};
    struct detour_error error = {};
    const struct detour_event event = {*slowness.get(), slow_iterations};
    EXPECT_EQ(detour_mitigate(arena, cluster.get(), &event, nullptr, &mitigation, &error), DETOUR_OK)
        << error.text;
    return mitigation;
}

TEST(Mitigate, SlowNodeIsForS2AndSlowLinkForS3)
{
    Arena arena;
    Cluster cluster(4, 4, 64);
    Slowness node = {{{5, 1500, 1000}}, {}}, link = {{}, {{1, 5, 6000, 0}}};
    const struct detour_mitigation slow_node = Plan(arena, cluster, node);
    EXPECT_LT(slow_node.steps[DETOUR_STEP_S2].iteration.iteration_ns,
              slow_node.steps[DETOUR_STEP_S1].iteration.iteration_ns);
    EXPECT_LT(slow_node.microbatches.counts[1], 16);
    EXPECT_GE(slow_node.steps[DETOUR_STEP_S2].due_iterations, 1);
    const struct detour_mitigation slow_link = Plan(arena, cluster, link);
    EXPECT_EQ(slow_link.steps[DETOUR_STEP_S2].iteration.iteration_ns,
              slow_link.steps[DETOUR_STEP_S1].iteration.iteration_ns);
    EXPECT_EQ(slow_link.steps[DETOUR_STEP_S2].due_iterations, -1);
    EXPECT_EQ(slow_link.steps[DETOUR_STEP_S3].iteration.iteration_ns, slow_link.healthy.iteration_ns);
    EXPECT_NE(slow_link.topology.uses[0].after, DETOUR_GROUP_DATA);
}

/* The ladder waits as long as the exchange of these nodes lasts. */
TEST(Mitigate, ExchangeCostsThePauseOfItsMoves)
{
    Arena arena;
    Cluster cluster(4, 4, 64);
    Slowness link = {{}, {{1, 5, 6000, 0}}};
    const int64_t due = Plan(arena, cluster, link).steps[DETOUR_STEP_S3].due_iterations;
    cluster.state_bytes = 20000000000; /* 2 s, and 10 us for each 8 MiB */
    const struct detour_mitigation plan = Plan(arena, cluster, link);
    EXPECT_NEAR(static_cast<double>(plan.steps[DETOUR_STEP_S3].cost_ns),
                static_cast<double>(cluster.costs[DETOUR_STEP_S3] + 2024 * kMs), 1e6);
    EXPECT_EQ(plan.steps[DETOUR_STEP_S2].cost_ns, cluster.costs[DETOUR_STEP_S2]);
    EXPECT_GT(plan.steps[DETOUR_STEP_S3].due_iterations, 2 * due);
    EXPECT_LT(plan.steps[DETOUR_STEP_S3].due_iterations, 4 * due);
}

/* The boundaries at which a ladder with these iterations takes its steps. */
std::vector<int64_t> Climb(const struct detour_mitigation &mitigation, int64_t count_max)
{
    std::vector<int64_t> due = {0, -1, -1, -1};
    struct detour_ladder ladder;
    struct detour_ladder_step steps[DETOUR_STEP_COUNT];
    int64_t now_ns = 0;
    enum detour_step step = DETOUR_STEP_S1, current = DETOUR_STEP_S1;
    for (int s = 0; s < DETOUR_STEP_COUNT; s++)
        steps[s] = {mitigation.steps[s].cost_ns, mitigation.steps[s].iteration.iteration_ns, false};
    detour_ladder_init(&ladder, nullptr, now_ns);
    detour_ladder_change(&ladder, 1, mitigation.healthy.iteration_ns, steps);
    for (int64_t count = 1; count <= count_max; count++) {
        now_ns += steps[current].iteration_ns;
        if (!detour_ladder_boundary(&ladder, now_ns, &step))
            continue;
        due[step] = count;
        current = step;
        if (step == DETOUR_STEP_S4)
            break;
        detour_ladder_done(&ladder, now_ns, true);
    }
    return due;
}

TEST(Mitigate, ForecastIsWhatTheLadderDoes)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 23);
    int taken = 0;
    for (int round = 0; round < 120; round++) {
        Arena arena;
        Cluster cluster = RandomCluster(&prng, 6);
        Slowness slowness = RandomSlowness(&prng, cluster);
        for (size_t s = 1; s < cluster.costs.size(); s++)
            cluster.costs[s] = static_cast<int64_t>(dt_prng_below(&prng, 1ULL << (10 * s / 2))) * kMs;
        const struct detour_mitigation mitigation = Plan(arena, cluster, slowness);
        std::vector<int64_t> due = Climb(mitigation, 30000);
        for (size_t s = 0; s < due.size(); s++) {
            const int64_t forecast = mitigation.steps[s].due_iterations;
            EXPECT_EQ(forecast > 30000 ? -1 : forecast, due[s]) << "round " << round << ", S" << s + 1;
            taken += s > 0 && due[s] > 0;
        }
    }
    EXPECT_GT(taken, 60);
}

TEST(Mitigate, DueStepIsTheLastOneTakenByNow)
{
    Arena arena;
    Cluster cluster(4, 4, 64);
    Slowness node = {{{5, 1500, 1000}}, {}};
    const struct detour_mitigation mitigation = Plan(arena, cluster, node);
    EXPECT_EQ(mitigation.due, DETOUR_STEP_S1);
    const int64_t s2 = mitigation.steps[DETOUR_STEP_S2].due_iterations;
    ASSERT_GT(s2, 0);
    EXPECT_EQ(Plan(arena, cluster, node, s2 - 1).due, DETOUR_STEP_S1);
    EXPECT_EQ(Plan(arena, cluster, node, s2).due, DETOUR_STEP_S2);
}

/* FALCON's figure 20: a device of 1.25 times among 16 replicas. S2 saves 7 % of an iteration, half of the
 * slowdown. */
TEST(Mitigate, PartOfASlowdownIsRemovedEvenIfItIsASmallPartOfAnIteration)
{
    Arena arena;
    Cluster cluster(16, 4, 128);
    cluster.gradient_bytes = 1200000000; /* 225 ms of 3.3 s */
    cluster.stage_ns.assign(4, 297 * kMs);
    Slowness slow = {{{0, 1250, 1000}}, {}}, slight = {{{0, 1100, 1000}}, {}};
    const struct detour_mitigation plan = Plan(arena, cluster, slow, 1);
    const int64_t saved_ns =
        plan.steps[DETOUR_STEP_S1].iteration.iteration_ns - plan.steps[DETOUR_STEP_S2].iteration.iteration_ns;
    EXPECT_LT(saved_ns, plan.steps[DETOUR_STEP_S2].iteration.iteration_ns / 10);
    EXPECT_EQ(plan.steps[DETOUR_STEP_S2].due_iterations, 1);
    EXPECT_EQ(plan.due, DETOUR_STEP_S2);
    const struct detour_mitigation jitter = Plan(arena, cluster, slight, 1000000); /* less than 10 % */
    for (int step = DETOUR_STEP_S2; step < DETOUR_STEP_COUNT; step++)
        EXPECT_EQ(jitter.steps[step].due_iterations, -1);
}

TEST(Mitigate, BadEventIsRefused)
{
    Arena arena;
    Cluster cluster(2, 2, 4);
    struct detour_mitigation mitigation = {};
    struct detour_error error = {};
    const struct detour_event event = {{0, 0, nullptr, nullptr}, -1};
    EXPECT_EQ(detour_mitigate(arena, cluster.get(), &event, nullptr, &mitigation, &error), DETOUR_INVALID);
    EXPECT_STREQ(error.text, "slow_iterations is -1; it must be from 0 to 1000000000000");
}
} // namespace
