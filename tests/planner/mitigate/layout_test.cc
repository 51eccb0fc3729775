// SPDX-License-Identifier: Apache-2.0
// The estimate of an iteration: its formula by hand, against the exact simulation of 1F1B, and that exchanges
// of nodes keep it up to date.
#include "planner/mitigate/layout.h"

#include <algorithm>
#include <numeric>

#include "tests/planner/mitigate/cluster.h"

using namespace mitigate_test;

namespace
{
struct detour_iteration Estimate(Cluster &cluster, Slowness &slowness)
{
    Arena arena;
    struct detour_error error = {};
    struct detour_iteration iteration = {};
    EXPECT_EQ(
        detour_iteration_estimate(arena, cluster.get(), slowness.get(), nullptr, nullptr, &iteration, &error),
        DETOUR_OK)
        << error.text;
    return iteration;
}

TEST(Layout, HealthyIterationByHand)
{
    Cluster cluster(4, 2, 32);
    Slowness slowness;
    /* Messages of 0.11 ms: 2 * 10 + 2 * 0.11 once, 10.11 for each of the other 7; a ring of 6 steps of 12.51
     * ms. */
    const struct detour_iteration iteration = Estimate(cluster, slowness);
    EXPECT_EQ(iteration.pipeline_ns, 20220000 + 7 * 10110000);
    EXPECT_EQ(iteration.gradients_ns, 6 * 12510000);
    EXPECT_EQ(iteration.iteration_ns, iteration.pipeline_ns + iteration.gradients_ns);
}

TEST(Layout, SlowNodeAndSlowLinkByHand)
{
    Cluster cluster(4, 2, 32);
    Slowness slow_node = {{{5, 2000, 1000}}, {}}, slow_network = {{{5, 1000, 3000}}, {}};
    Slowness slow_data = {{}, {{1, 3, 4000, 0}}}, slow_pipeline = {{}, {{3, 2, 1000, 5 * kMs}}};
    const int64_t healthy_ns = 20220000 + 7 * 10110000;
    EXPECT_EQ(Estimate(cluster, slow_node).pipeline_ns, 30220000 + 7 * 20000000);
    EXPECT_EQ(Estimate(cluster, slow_network).gradients_ns, 6 * 37510000);
    EXPECT_EQ(Estimate(cluster, slow_network).pipeline_ns, 20620000 + 7 * 10310000);
    EXPECT_EQ(Estimate(cluster, slow_data).gradients_ns, 6 * 50010000);
    EXPECT_EQ(Estimate(cluster, slow_data).pipeline_ns, healthy_ns);
    EXPECT_EQ(Estimate(cluster, slow_pipeline).pipeline_ns, 20220000 + 10000000 + 7 * 15110000);
    EXPECT_EQ(Estimate(cluster, slow_pipeline).gradients_ns, 6 * 12510000);
}

/* The makespan of 1F1B in the exact simulator, one replica. */
int64_t Simulate(Cluster &cluster, const std::vector<int64_t> &link_ns, const std::vector<int64_t> &stage_ns)
{
    Arena arena;
    sched_test::Profile profile = sched_test::Profile::Uniform(cluster.stages, cluster.microbatches, 1, 1, 1);
    for (size_t s = 0; s < stage_ns.size(); s++) {
        profile.stages[s].f_ns = stage_ns[s] / 3;
        profile.stages[s].b_ns = stage_ns[s] / 3;
        profile.stages[s].w_ns = stage_ns[s] - 2 * (stage_ns[s] / 3);
    }
    for (size_t l = 0; l + 1 < stage_ns.size(); l++)
        profile.Delay(l, link_ns[l]);
    struct detour_options options = {};
    struct detour_plan *plan = nullptr;
    struct detour_error error = {};
    options.algorithm = DETOUR_ALGORITHM_1F1B;
    EXPECT_EQ(detour_generate(arena, profile.get(), &options, &plan, &error), DETOUR_OK) << error.text;
    return plan ? plan->makespan_ns : 0;
}

TEST(Layout, EstimatesAreNearTheSimulationOf1F1B)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 2);
    double worst = 0, sum = 0;
    const int rounds = 300;
    for (int round = 0; round < rounds; round++) {
        Cluster cluster(1, static_cast<int32_t>(dt_prng_between(&prng, 2, 8)), 0);
        cluster.microbatches = cluster.stages * static_cast<int32_t>(dt_prng_between(&prng, 1, 4));
        Slowness slowness;
        std::vector<int64_t> link_ns, stage_ns;
        for (int32_t s = 0; s < cluster.stages; s++) {
            const auto permille =
                static_cast<int32_t>(dt_prng_chance(&prng, 1, 3) ? dt_prng_between(&prng, 1000, 2500) : 1000);
            slowness.nodes.push_back({s, permille, 1000});
            stage_ns.push_back(dt_slowed_ns(cluster.stage_ns[0] ? cluster.stage_ns[0] : 0, permille));
            const int64_t delay_ns =
                dt_prng_chance(&prng, 1, 3) ? static_cast<int64_t>(dt_prng_below(&prng, 20)) * kMs : 0;
            if (s + 1 < cluster.stages)
                slowness.links.push_back({s, s + 1, 1000, delay_ns});
            link_ns.push_back(delay_ns + 110000);
        }
        const double exact = static_cast<double>(Simulate(cluster, link_ns, stage_ns));
        const double off = static_cast<double>(Estimate(cluster, slowness).iteration_ns) / exact - 1;
        worst = std::max(worst, std::abs(off));
        sum += std::abs(off);
    }
    printf("estimate against simulation: mean %.1f %%, worst %.1f %%\n", 100 * sum / rounds, 100 * worst);
    EXPECT_LT(sum / rounds, 0.08);
    EXPECT_LT(worst, 0.4);
}

TEST(Layout, ExchangesKeepTheTimesUpToDate)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 6);
    for (int round = 0; round < 200; round++) {
        Cluster cluster = RandomCluster(&prng, 24);
        Slowness slowness = RandomSlowness(&prng, cluster);
        const auto count = static_cast<uint64_t>(cluster.replicas * cluster.stages);
        Arena arena;
        struct dt_layout layout, fresh;
        ASSERT_EQ(dt_layout_create(arena, cluster.get(), slowness.get(), nullptr, &layout, nullptr),
                  DETOUR_OK);
        for (int k = 0; k < 20; k++) {
            const auto a = static_cast<int32_t>(dt_prng_below(&prng, count));
            const auto b = static_cast<int32_t>(dt_prng_below(&prng, count));
            dt_layout_swap(&layout, a, b);
            ASSERT_EQ(dt_layout_create(arena, cluster.get(), slowness.get(), layout.nodes, &fresh, nullptr),
                      DETOUR_OK);
            EXPECT_EQ(dt_layout_gradients_ns(&layout), dt_layout_gradients_ns(&fresh));
            for (int32_t r = 0; r < cluster.replicas; r++) {
                EXPECT_EQ(layout.replicas[r].fixed_ns, fresh.replicas[r].fixed_ns);
                EXPECT_EQ(layout.replicas[r].microbatch_ns, fresh.replicas[r].microbatch_ns);
            }
            EXPECT_EQ(layout.nodes[layout.position[a % cluster.stages]], a % cluster.stages);
        }
    }
}

TEST(Layout, SlowLinkBetweenTwoMachinesIsOneOfAllTheirPairs)
{
    Cluster cluster(4, 3, 12);
    Slowness slowness = {{}, {{0, 5, 4000, 0}, {4, 1, 2000, 7}, {9, 11, 3000, 0}}};
    Arena arena;
    struct dt_layout layout;
    cluster.SetMachines(4);
    ASSERT_EQ(dt_layout_create(arena, cluster.get(), slowness.get(), nullptr, &layout, nullptr), DETOUR_OK);
    for (int32_t a = 0; a < 12; a++)
        for (int32_t b = 0; b < 12; b++) {
            const bool is_path = a / 4 + b / 4 == 1, is_inside = a + b == 20 && (a == 9 || a == 11);
            const struct dt_layout_link link = dt_layout_link_of(&layout, a, b);
            EXPECT_EQ(link.factor_permille, is_path ? 4000 : is_inside ? 3000 : 1000) << a << " " << b;
            EXPECT_EQ(link.delay_ns, is_path ? 7 : 0) << a << " " << b;
        }
}

TEST(Layout, SlowLinkThatIsThereTwiceIsTheSlowerOne)
{
    Cluster cluster(2, 2, 4);
    Slowness once = {{}, {{1, 3, 4000, 5 * kMs}}},
             twice = {{}, {{1, 3, 4000, 2 * kMs}, {3, 1, 1000, 5 * kMs}}};
    EXPECT_EQ(Estimate(cluster, twice).iteration_ns, Estimate(cluster, once).iteration_ns);
}

TEST(Layout, ExtremesAreCutAndDoNotOverflow)
{
    Cluster cluster(1, DETOUR_CLUSTER_NODES_MAX, DETOUR_CELLS_MAX);
    std::fill(cluster.stage_ns.begin(), cluster.stage_ns.end(), DETOUR_TIME_MAX_NS);
    cluster.bytes_per_s = 1;
    cluster.message_bytes = cluster.gradient_bytes = DETOUR_CLUSTER_BYTES_MAX;
    Slowness slowness = {{{0, DETOUR_SLOW_PERMILLE_MAX, DETOUR_SLOW_PERMILLE_MAX}},
                         {{0, 1, DETOUR_SLOW_PERMILLE_MAX, DETOUR_TIME_MAX_NS}}};
    EXPECT_GT(Estimate(cluster, slowness).iteration_ns, DETOUR_TIME_MAX_NS * (DETOUR_CELLS_MAX - 1LL));
    cluster.replicas = DETOUR_CLUSTER_NODES_MAX;
    cluster.stages = 1;
    EXPECT_GT(Estimate(cluster, slowness).gradients_ns, DETOUR_TIME_MAX_NS * 2 * 4095LL - 1);
}
} // namespace
