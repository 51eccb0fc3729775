// SPDX-License-Identifier: Apache-2.0
// A job under incidents: lost time by hand, steps in their order, what is taken back, and that the phases add
// up.
#include "tests/sim/incidents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/planner/mitigate/cluster.h"
#include "tests/sim/incidents_read.h"

namespace
{
using mitigate_test::Cluster;
using sched_test::kMs;

constexpr int64_t kSecond = 1000 * kMs;

struct dt_incident Device(int32_t node, int32_t permille, int64_t start_ns, int64_t duration_ns)
{
    return {start_ns, duration_ns, false, node, 0, permille};
}

struct dt_incident Link(int32_t a, int32_t b, int32_t permille, int64_t start_ns, int64_t duration_ns)
{
    return {start_ns, duration_ns, true, a, b, permille};
}

struct Phases {
    int64_t duration_ns = 0;
    int64_t iterations = 0;
    std::vector<std::vector<int32_t>> counts;

    static void Add(void *arg, const struct dt_incidents_phase *phase)
    {
        auto *phases = static_cast<Phases *>(arg);
        phases->duration_ns += phase->duration_ns;
        phases->iterations += phase->iterations;
        phases->counts.emplace_back(phase->counts, phase->counts + 4);
    }
};

struct dt_incidents_result Play(Cluster &cluster, const std::vector<struct dt_incident> &incidents,
                                enum dt_incidents_policy policy = DT_INCIDENTS_LADDER,
                                enum dt_incidents_model model = DT_INCIDENTS_ESTIMATE,
                                Phases *phases = nullptr, enum detour_step step = DETOUR_STEP_S1)
{
    struct dt_incidents_options options = {};
    struct dt_incidents_result result = {};
    struct detour_error error = {};
    options.cluster = cluster.get();
    options.incidents = incidents.data();
    options.incident_count = static_cast<int32_t>(incidents.size());
    options.policy = policy;
    options.step = step;
    options.model = model;
    options.on_phase = phases ? Phases::Add : nullptr;
    options.phase_arg = phases;
    EXPECT_EQ(dt_incidents_run(&options, &result, &error), DETOUR_OK) << error.text;
    return result;
}

/* Four replicas of one stage with 8 microbatches of 10 ms each, gradients of 75.06 ms. */
Cluster OneStage()
{
    Cluster cluster(4, 1, 32);
    cluster.costs = {0, kMs, 10 * kSecond, 1000 * kSecond};
    return cluster;
}

TEST(Incidents, LostTimeWithoutRemediesByHand)
{
    Cluster cluster = OneStage();
    const struct dt_incidents_result result =
        Play(cluster, {Device(1, 2000, 5 * kSecond, 2 * kSecond)}, DT_INCIDENTS_NEVER);
    EXPECT_EQ(result.healthy_ns, 80 * kMs + 75060000);
    EXPECT_EQ(result.longest_ns, 160 * kMs + 75060000);
    /* Iterations of 235.06 ms cover two seconds; each loses 80 ms. */
    EXPECT_EQ(result.lost_ns, 9 * 80 * kMs);
    EXPECT_EQ(result.paused_ns, 0);
}

TEST(Incidents, MicrobatchesMoveAfterTheFirstIterationAndComeBack)
{
    Cluster cluster = OneStage();
    Phases phases;
    const struct dt_incidents_result result = Play(cluster, {Device(1, 2000, 5 * kSecond, 2 * kSecond)},
                                                   DT_INCIDENTS_LADDER, DT_INCIDENTS_ESTIMATE, &phases);
    EXPECT_EQ(result.taken[DETOUR_STEP_S2], 1);
    EXPECT_EQ(result.taken[DETOUR_STEP_S1], 1);
    EXPECT_EQ(result.taken[DETOUR_STEP_S3] + result.taken[DETOUR_STEP_S4], 0);
    /* 10, 4, 9, 9 microbatches take 100 ms: 80 ms lost once, then 20 ms in each iteration that has them,
     * three calm ones included; 1 ms for each of the two changes. The last iteration may end the incident. */
    EXPECT_EQ(phases.counts[2], (std::vector<int32_t>{10, 4, 9, 9}));
    EXPECT_EQ(phases.counts.back(), (std::vector<int32_t>{8, 8, 8, 8}));
    EXPECT_EQ(phases.duration_ns, result.elapsed_ns);
    EXPECT_EQ(phases.iterations, result.iterations);
    EXPECT_EQ(result.lost_ns, result.elapsed_ns - result.iterations * result.healthy_ns);
    EXPECT_EQ(result.paused_ns, 2 * kMs);
    EXPECT_LT(result.lost_ns, 80 * kMs + 2 * kMs + 16 * 20 * kMs);
}

TEST(Incidents, ASecondSlowNodeMovesMicrobatchesAgain)
{
    Cluster cluster = OneStage();
    const struct dt_incidents_result result =
        Play(cluster, {Device(1, 2000, 0, 20 * kSecond), Device(2, 2000, 10 * kSecond, 10 * kSecond)});
    EXPECT_EQ(result.taken[DETOUR_STEP_S2], 2);
    EXPECT_EQ(result.taken[DETOUR_STEP_S1], 1);
}

/* The pause is that of the plan: 10 s, and 5 s for 50 GB over healthy links, 10 us more for each 8 MiB. */
TEST(Incidents, AnExchangePausesForTheMoveOfItsState)
{
    Cluster cluster(4, 2, 32);
    cluster.costs = {0, kMs, 10 * kSecond, 1000 * kSecond};
    cluster.state_bytes = 50000000000;
    const struct dt_incidents_result ladder = Play(cluster, {Link(1, 3, 5000, 0, 100 * kSecond)});
    EXPECT_EQ(ladder.taken[DETOUR_STEP_S3], 1);
    EXPECT_NEAR(static_cast<double>(ladder.paused_ns), static_cast<double>(15 * kSecond + 60 * kMs), 1e6);
    EXPECT_GT(ladder.waited_ns[DETOUR_STEP_S3], 10 * kSecond);
    EXPECT_LE(ladder.waited_ns[DETOUR_STEP_S3], ladder.paused_ns);
}

TEST(Incidents, PlansOfS3TryAsManyExchangesAsTheBudgetHas)
{
    Cluster cluster(5, 2, 40);
    cluster.costs = {0, kMs, 10 * kSecond, 1000 * kSecond};
    const std::vector<struct dt_incident> incidents = {Link(1, 3, 5000, 0, 100 * kSecond),
                                                       Link(4, 6, 5000, 0, 100 * kSecond)};
    struct dt_incidents_options options = {};
    struct dt_incidents_result result = {};
    struct detour_error error = {};
    options.cluster = cluster.get();
    options.incidents = incidents.data();
    options.incident_count = 2;
    for (uint64_t budget : {1u, 0u}) {
        options.budget = budget;
        ASSERT_EQ(dt_incidents_run(&options, &result, &error), DETOUR_OK) << error.text;
        EXPECT_EQ(result.taken[DETOUR_STEP_S3], budget ? 0 : 1);
    }
}

TEST(Incidents, NodesAreExchangedOnceWaitingHasCostAsMuch)
{
    Cluster cluster(4, 2, 32);
    cluster.costs = {0, kMs, 10 * kSecond, 1000 * kSecond};
    const struct dt_incidents_result never =
        Play(cluster, {Link(1, 3, 5000, 0, 100 * kSecond)}, DT_INCIDENTS_NEVER);
    const struct dt_incidents_result ladder = Play(cluster, {Link(1, 3, 5000, 0, 100 * kSecond)});
    EXPECT_EQ(ladder.taken[DETOUR_STEP_S3], 1);
    EXPECT_EQ(ladder.taken[DETOUR_STEP_S1], 0); /* the nodes may stay: a healthy iteration is as long */
    EXPECT_EQ(ladder.paused_ns, 10 * kSecond);
    EXPECT_LE(ladder.lost_ns, 2 * 10 * kSecond + ladder.longest_ns - ladder.healthy_ns);
    EXPECT_GT(never.lost_ns, 5 * kSecond + ladder.lost_ns);
}

TEST(Incidents, ARestartEndsWhatIsSlowAndNotWhatComesLater)
{
    Cluster cluster = OneStage();
    cluster.costs = {0, kMs, 10 * kSecond, 5 * kSecond};
    std::vector<struct dt_incident> all_slow;
    for (int32_t node = 0; node < 4; node++) /* nothing but S4 helps */
        all_slow.push_back(Device(node, 3000, 0, 1000 * kSecond));
    const struct dt_incidents_result once = Play(cluster, all_slow);
    EXPECT_EQ(once.taken[DETOUR_STEP_S4], 1);
    EXPECT_EQ(once.taken[DETOUR_STEP_S2] + once.taken[DETOUR_STEP_S3], 0);
    all_slow.push_back(Device(2, 3000, 500 * kSecond, 10 * kSecond));
    const struct dt_incidents_result twice = Play(cluster, all_slow);
    EXPECT_EQ(twice.taken[DETOUR_STEP_S4], 1);
    EXPECT_EQ(twice.taken[DETOUR_STEP_S2], 1);
}

/* Pipelines of several stages, with random incidents: a new schedule is never slower than the old one. */
TEST(Incidents, ReplanningNeverCostsAndSometimesGains)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 29);
    int gains = 0;
    for (int round = 0; round < 12; round++) {
        Cluster cluster(2, 4, 24);
        cluster.costs = {0, kMs, 1000 * kSecond, 10000 * kSecond};
        cluster.message_bytes = 100000000;
        const auto stage = static_cast<int32_t>(dt_prng_below(&prng, 3));
        const auto permille = static_cast<int32_t>(dt_prng_between(&prng, 2000, 4000));
        const std::vector<struct dt_incident> incidents = {Link(stage, stage + 1, permille, 0, 30 * kSecond)};
        const auto fixed = Play(cluster, incidents, DT_INCIDENTS_NEVER, DT_INCIDENTS_FIXED);
        const auto replanned = Play(cluster, incidents, DT_INCIDENTS_NEVER, DT_INCIDENTS_REPLANNED);
        EXPECT_LE(replanned.longest_ns, fixed.longest_ns);
        EXPECT_LE(replanned.healthy_ns, fixed.healthy_ns);
        gains += replanned.longest_ns < fixed.longest_ns;
    }
    EXPECT_GT(gains, 6);
}

TEST(Incidents, StepsAtOnceWaitForNothing)
{
    Cluster cluster = OneStage();
    const struct dt_incidents_result result =
        Play(cluster, {Device(1, 2000, 0, 20 * kSecond)}, DT_INCIDENTS_AT_ONCE, DT_INCIDENTS_ESTIMATE,
             nullptr, DETOUR_STEP_S4);
    EXPECT_EQ(result.taken[DETOUR_STEP_S4], 1);
    EXPECT_EQ(result.paused_ns, 1000 * kSecond);
    EXPECT_EQ(result.lost_ns, 1000 * kSecond + 80 * kMs);
}

TEST(Incidents, AnEagerJobTakesTheBestStepAtItsFirstBoundary)
{
    Cluster cluster(4, 2, 32);
    cluster.costs = {0, kMs, 10 * kSecond, 1000 * kSecond};
    const std::vector<struct dt_incident> link = {Link(1, 3, 5000, 0, 100 * kSecond)};
    const struct dt_incidents_result eager = Play(cluster, link, DT_INCIDENTS_EAGER);
    EXPECT_EQ(eager.taken[DETOUR_STEP_S3], 1);
    EXPECT_EQ(eager.taken[DETOUR_STEP_S2], 0);
    EXPECT_EQ(eager.lost_ns, 10 * kSecond + eager.longest_ns - eager.healthy_ns);
    EXPECT_LT(eager.lost_ns, Play(cluster, link).lost_ns);
    const struct dt_incidents_result device =
        Play(cluster, {Device(1, 2000, 0, 20 * kSecond)}, DT_INCIDENTS_EAGER);
    EXPECT_EQ(device.taken[DETOUR_STEP_S2], 1); /* S3 would be hardly better */
    EXPECT_EQ(device.taken[DETOUR_STEP_S3], 0);
    EXPECT_EQ(device.taken[DETOUR_STEP_S1], 1);
}

std::vector<struct dt_incident> RandomIncidents(struct dt_prng *prng)
{
    std::vector<struct dt_incident> incidents(1 + dt_prng_below(prng, 6));
    for (struct dt_incident &one : incidents) {
        const auto node = static_cast<int32_t>(dt_prng_below(prng, 8));
        const auto permille = static_cast<int32_t>(dt_prng_between(prng, 1100, 6000));
        const int64_t start_ns = static_cast<int64_t>(dt_prng_below(prng, 300)) * kSecond;
        const int64_t duration_ns = static_cast<int64_t>(dt_prng_between(prng, 1, 300)) * kSecond;
        one = dt_prng_below(prng, 2) ? Device(node, permille, start_ns, duration_ns)
                                     : Link(node, (node + 2) % 8, permille, start_ns, duration_ns);
    }
    return incidents;
}

/* Several incidents, with the plans of the planner: when a step is taken, waiting for it has cost no more
 * than it does, but for one iteration. What the whole ladder loses may be more than twice the best of the
 * steps. */
TEST(Incidents, WaitingForAStepCostsNoMoreThanTheStep)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 31);
    int64_t longest_ns[DETOUR_STEP_COUNT] = {}, taken[DETOUR_STEP_COUNT] = {};
    for (int round = 0; round < 60; round++) {
        Cluster cluster(4, 2, 32);
        cluster.costs = {0, 2 * kSecond, 10 * kSecond, 60 * kSecond};
        const struct dt_incidents_result result = Play(cluster, RandomIncidents(&prng));
        for (int step = DETOUR_STEP_S2; step < DETOUR_STEP_COUNT; step++) {
            ASSERT_LE(result.waited_ns[step],
                      cluster.costs[static_cast<size_t>(step)] + result.longest_ns - result.healthy_ns)
                << "round " << round << ", step " << step;
            longest_ns[step] = std::max(longest_ns[step], result.waited_ns[step]);
            taken[step] += result.taken[step];
        }
    }
    for (int step = DETOUR_STEP_S2; step < DETOUR_STEP_COUNT; step++)
        EXPECT_GE(taken[step], 5) << step;
    EXPECT_GT(longest_ns[DETOUR_STEP_S3], 9 * kSecond); /* the ladder waits */
    EXPECT_GT(longest_ns[DETOUR_STEP_S4], 55 * kSecond);
}

/* All links between the first three nodes and the others: no assignment avoids them, and the bound is below.
 */
TEST(Incidents, PlansOfS3AreComparedWithTheBoundAndTheOptimum)
{
    std::vector<struct dt_incident> incidents;
    for (int32_t a = 0; a < 3; a++)
        for (int32_t b = 3; b < 8; b++)
            incidents.push_back(Link(a, b, 9000 + 700 * a + 100 * b, 0, 100 * kSecond));
    Cluster cluster(4, 2, 32);
    struct dt_incidents_options options = {};
    struct dt_incidents_result none = {}, bound = {}, optimum = {};
    struct detour_error error = {};
    options.cluster = cluster.get();
    options.incidents = incidents.data();
    options.incident_count = static_cast<int32_t>(incidents.size());
    ASSERT_EQ(dt_incidents_run(&options, &none, &error), DETOUR_OK) << error.text;
    options.reference = DT_INCIDENTS_BOUND;
    ASSERT_EQ(dt_incidents_run(&options, &bound, &error), DETOUR_OK) << error.text;
    options.reference = DT_INCIDENTS_OPTIMUM;
    ASSERT_EQ(dt_incidents_run(&options, &optimum, &error), DETOUR_OK) << error.text;
    EXPECT_EQ(none.plan_count, 0);
    EXPECT_GT(bound.plan_count, 0);
    EXPECT_EQ(optimum.plan_count, bound.plan_count);
    EXPECT_EQ(bound.lost_ns, none.lost_ns);
    EXPECT_EQ(optimum.lost_ns, none.lost_ns);
    EXPECT_LT(bound.equal_count, bound.plan_count);
    EXPECT_GT(bound.above_largest_ppm, 0);
    EXPECT_GE(bound.above_sum_ppm, bound.above_largest_ppm);
    EXPECT_EQ(optimum.above_largest_ppm, 0);
    EXPECT_EQ(optimum.equal_count, optimum.plan_count);
}

TEST(Incidents, TracesAreReadAndWrongOnesRefused)
{
    struct dt_incidents_trace trace;
    char text[128];
    json_t *good = json_loads(R"({"seed": 7, "incidents": [
        {"start_s": 1.5, "duration_s": 20, "link": {"a": 1, "b": 5, "factor": 2.5}},
        {"start_s": 3, "duration_s": 4, "device": {"node": 6, "factor": 1.25}}]})",
                              0, nullptr);
    ASSERT_TRUE(dt_incidents_read(good, &trace, text));
    json_decref(good);
    EXPECT_EQ(trace.seed, 7);
    ASSERT_EQ(trace.count, 2);
    EXPECT_EQ(trace.incidents[0].start_ns, 1500 * kMs);
    EXPECT_TRUE(trace.incidents[0].is_link && trace.incidents[0].a == 1 && trace.incidents[0].b == 5);
    EXPECT_EQ(trace.incidents[1].factor_permille, 1250);
    for (const char *wrong :
         {R"({})", R"({"incidents": []})", R"({"incidents": [{"start_s": 1}]})",
          R"({"incidents": [{"start_s": -1, "duration_s": 1, "device": {"node": 1, "factor": 2}}]})",
          R"({"incidents": [{"start_s": 1, "duration_s": 1, "device": {"node": 1}}]})"}) {
        json_t *value = json_loads(wrong, 0, nullptr);
        EXPECT_FALSE(dt_incidents_read(value, &trace, text)) << wrong;
        json_decref(value);
    }
}
} // namespace
