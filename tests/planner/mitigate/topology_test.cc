// SPDX-License-Identifier: Apache-2.0
// S3 against every assignment of small jobs, the cases of FALCON's section 5.3, and large jobs against the
// bound.
#include "detour/mitigate.h"

#include <algorithm>
#include <ctime>
#include <numeric>
#include <set>

#include "tests/planner/mitigate/cluster.h"

using namespace mitigate_test;

namespace
{
/* The result with copies of its arrays. */
struct Adjusted {
    struct detour_topology topology = {};
    std::vector<int32_t> nodes, counts;
    std::vector<struct detour_link_use> uses;
};

Adjusted Adjust(Cluster &cluster, Slowness &slowness, bool even, uint64_t budget = 0)
{
    Arena arena;
    Adjusted made;
    struct detour_error error = {};
    const struct detour_topology_options options = {even, budget};
    EXPECT_EQ(detour_topology_adjust(arena, cluster.get(), slowness.get(), &options, &made.topology, &error),
              DETOUR_OK)
        << error.text;
    if (!made.topology.nodes)
        return made;
    made.nodes.assign(made.topology.nodes, made.topology.nodes + cluster.replicas * cluster.stages);
    made.counts.assign(made.topology.counts, made.topology.counts + cluster.replicas);
    made.uses.assign(made.topology.uses, made.topology.uses + slowness.links.size());
    struct detour_iteration iteration = {}; /* what the result says of itself */
    EXPECT_EQ(detour_iteration_estimate(arena, cluster.get(), slowness.get(), made.nodes.data(),
                                        made.counts.data(), &iteration, &error),
              DETOUR_OK)
        << error.text;
    EXPECT_EQ(iteration.iteration_ns, made.topology.iteration.iteration_ns);
    EXPECT_EQ(iteration.pipeline_ns, made.topology.iteration.pipeline_ns);
    EXPECT_LE(made.topology.bound_ns, iteration.iteration_ns);
    return made;
}

int64_t Estimate(Cluster &cluster, Slowness &slowness, const int32_t *nodes = nullptr)
{
    Arena arena;
    struct detour_iteration iteration = {};
    EXPECT_EQ(
        detour_iteration_estimate(arena, cluster.get(), slowness.get(), nodes, nullptr, &iteration, nullptr),
        DETOUR_OK);
    return iteration.iteration_ns;
}

/* The best of every assignment, with equal numbers of microbatches. */
int64_t BruteForce(Cluster &cluster, Slowness &slowness)
{
    std::vector<int32_t> nodes(static_cast<size_t>(cluster.replicas * cluster.stages));
    int64_t best_ns = INT64_MAX;
    std::iota(nodes.begin(), nodes.end(), 0);
    do {
        best_ns = std::min(best_ns, Estimate(cluster, slowness, nodes.data()));
    } while (std::next_permutation(nodes.begin(), nodes.end()));
    return best_ns;
}

std::set<int32_t> StagesOf(const Cluster &cluster, const Adjusted &made, const std::vector<int32_t> &nodes)
{
    std::set<int32_t> stages;
    for (size_t p = 0; p < made.nodes.size(); p++)
        if (std::count(nodes.begin(), nodes.end(), made.nodes[p]))
            stages.insert(static_cast<int32_t>(p) % cluster.stages);
    return stages;
}

TEST(Topology, SmallJobsAreTheOptimumOfEveryAssignment)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 21);
    for (int round = 0; round < 150; round++) {
        Cluster cluster = RandomCluster(&prng, 6);
        Slowness slowness = RandomSlowness(&prng, cluster);
        if (round % 3 == 0)
            cluster.SetMachines(2);
        const Adjusted made = Adjust(cluster, slowness, true);
        EXPECT_EQ(made.topology.iteration.iteration_ns, BruteForce(cluster, slowness)) << "round " << round;
        EXPECT_TRUE(made.topology.optimal);
        EXPECT_LE(Adjust(cluster, slowness, false).topology.iteration.iteration_ns,
                  made.topology.iteration.iteration_ns);
    }
}

TEST(Topology, LinkOfADataGroupIsTakenOutOfIt)
{
    Cluster cluster(2, 2, 16); /* figure 10 */
    Slowness slowness = {{}, {{1, 3, 8000, 0}}};
    const Adjusted made = Adjust(cluster, slowness, true);
    EXPECT_EQ(made.uses[0].before, DETOUR_GROUP_DATA);
    EXPECT_EQ(made.uses[0].before_bytes, cluster.gradient_bytes);
    EXPECT_NE(made.uses[0].after, DETOUR_GROUP_DATA);
    EXPECT_EQ(made.topology.iteration.iteration_ns, [&] {
        Slowness none;
        return Estimate(cluster, none);
    }());
    EXPECT_EQ(made.topology.moved_count, 2);
}

TEST(Topology, GroupsAreThoseOfThePositions)
{
    Cluster cluster(4, 3, 12);
    Slowness slowness = {{}, {}};
    const std::vector<std::pair<int32_t, int32_t>> ends = {{0, 1}, {2, 1},  {0, 2}, {2, 3},
                                                           {1, 4}, {10, 1}, {1, 7}};
    for (const auto &end : ends)
        slowness.links.push_back({end.first, end.second, 1000, 0});
    const std::vector<enum detour_group> groups = {
        DETOUR_GROUP_PIPELINE, DETOUR_GROUP_PIPELINE, DETOUR_GROUP_NONE, DETOUR_GROUP_NONE,
        DETOUR_GROUP_DATA,     DETOUR_GROUP_DATA,     DETOUR_GROUP_NONE};
    const Adjusted made = Adjust(cluster, slowness, true, 1);
    for (size_t k = 0; k < groups.size(); k++)
        EXPECT_EQ(made.uses[k].before, groups[k]) << ends[k].first << " " << ends[k].second;
}

/* FALCON's figure 15: two machines of eight nodes, and the link between them. */
TEST(Topology, PathBetweenTwoMachinesCarriesNoGradients)
{
    Cluster cluster(4, 4, 32);
    Slowness one = {{}, {{1, 9, 6000, 0}}}, all;
    for (int32_t a = 0; a < 8; a++)
        for (int32_t b = 8; b < 16; b++)
            all.links.push_back({a, b, 6000, 0});
    const Adjusted pairs = Adjust(cluster, all, true);
    const int64_t slow_ns = Estimate(cluster, all);
    cluster.SetMachines(8);
    EXPECT_EQ(Estimate(cluster, one), slow_ns);
    const Adjusted made = Adjust(cluster, one, true);
    EXPECT_EQ(made.topology.iteration.iteration_ns, pairs.topology.iteration.iteration_ns);
    EXPECT_EQ(made.uses[0].before, DETOUR_GROUP_DATA);
    EXPECT_EQ(made.uses[0].before_bytes, 8 * 2 * 3 * cluster.gradient_bytes / 4); /* two links of each ring */
    EXPECT_EQ(made.uses[0].after, DETOUR_GROUP_PIPELINE);
    EXPECT_EQ(made.uses[0].after_bytes, 4 * 8 * cluster.message_bytes); /* one link of each replica */
    Slowness inside = {{}, {{1, 5, 6000, 0}}};
    EXPECT_EQ(Adjust(cluster, inside, true).uses[0].after, DETOUR_GROUP_NONE);
}

TEST(Topology, LinksThatCannotAllBeUnusedGoToPipelineGroups)
{
    Cluster cluster(2, 2, 16);
    /* Both links that no group uses when the data links are fast, too: two of six are as before. */
    Slowness slowness = {{}, {{0, 2, 8000, 0}, {1, 3, 8000, 0}, {0, 3, 8000, 0}, {1, 2, 8000, 0}}};
    const Adjusted made = Adjust(cluster, slowness, true);
    for (const struct detour_link_use &use : made.uses) {
        EXPECT_NE(use.after, DETOUR_GROUP_DATA);
        EXPECT_EQ(use.after_bytes, use.after == DETOUR_GROUP_PIPELINE ? 8 * cluster.message_bytes : 0);
    }
    EXPECT_LT(made.topology.iteration.iteration_ns, Estimate(cluster, slowness));
}

TEST(Topology, StragglersGatherInOneInteriorStage)
{
    Cluster cluster(4, 4, 64); /* section 5.3, figure 11 */
    Slowness slowness = {{{0, 1500, 1000}, {7, 1500, 1000}, {9, 1500, 1000}}, {}};
    Adjusted made = Adjust(cluster, slowness, true);
    EXPECT_EQ(made.topology.straggler_stages, 1);
    std::set<int32_t> stages = StagesOf(cluster, made, {0, 7, 9});
    EXPECT_EQ(stages.size(), 1u);
    EXPECT_TRUE(stages.count(1) || stages.count(2));
    /* Six stragglers need two stages of four nodes; both are interior ones, unless messages between two slow
     * stages cost more than the edge does. */
    cluster.message_bytes = cluster.latency_ns = 0;
    slowness.nodes.insert(slowness.nodes.end(), {{12, 1500, 1000}, {15, 1500, 1000}, {11, 1500, 1000}});
    made = Adjust(cluster, slowness, true);
    EXPECT_EQ(StagesOf(cluster, made, {0, 7, 9, 11, 12, 15}), (std::set<int32_t>{1, 2}));
}

TEST(Topology, WithOtherCountsStragglersGatherInOneReplica)
{
    Cluster cluster(4, 4, 64);
    Slowness slowness = {{{0, 1500, 1000}, {7, 1500, 1000}, {9, 1500, 1000}, {14, 1500, 1000}}, {}};
    const Adjusted made = Adjust(cluster, slowness, false);
    std::set<int32_t> replicas;
    for (size_t p = 0; p < made.nodes.size(); p++)
        for (const struct detour_slow_node &slow : slowness.nodes)
            if (made.nodes[p] == slow.node)
                replicas.insert(static_cast<int32_t>(p) / cluster.stages);
    EXPECT_EQ(replicas.size(), 1u);
    EXPECT_LT(made.counts[static_cast<size_t>(*replicas.begin())], 16);
    EXPECT_EQ(std::accumulate(made.counts.begin(), made.counts.end(), 0), 64);
    EXPECT_LT(made.topology.iteration.iteration_ns,
              Adjust(cluster, slowness, true).topology.iteration.iteration_ns);
}

TEST(Topology, HealthyJobStaysAsItIs)
{
    Cluster cluster(4, 4, 64);
    cluster.nodes.resize(16);
    std::iota(cluster.nodes.rbegin(), cluster.nodes.rend(), 0);
    Slowness none, unused = {{}, {{0, 10, 9000, 0}}}, healthy = {{}, {{0, 4, 1000, 0}}};
    for (Slowness *slowness : {&none, &unused, &healthy})
        for (bool even : {false, true}) {
            const Adjusted made = Adjust(cluster, *slowness, even);
            EXPECT_EQ(made.nodes, cluster.nodes);
            EXPECT_EQ(made.topology.moved_count, 0);
        }
}

/* A budget below 8! makes the search of large jobs run on small ones. */
TEST(Topology, SearchOfLargeJobsFindsTheOptimumOfSmallOnes)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 31);
    int found = 0;
    double worst = 1;
    const int rounds = 30;
    for (int round = 0; round < rounds; round++) {
        Cluster cluster(round % 3 == 0 ? 4 : 2, round % 3 == 0 ? 2 : 4, 16);
        if (round % 3 == 1)
            cluster = Cluster(3, 2, 15);
        Slowness slowness = RandomSlowness(&prng, cluster);
        const bool even = round % 2 == 0;
        const uint64_t budget = cluster.replicas * cluster.stages == 6 ? 719 : 20000;
        const Adjusted all = Adjust(cluster, slowness, even), some = Adjust(cluster, slowness, even, budget);
        EXPECT_TRUE(all.topology.optimal);
        EXPECT_GE(some.topology.iteration.iteration_ns, all.topology.iteration.iteration_ns);
        EXPECT_LE(some.topology.bound_ns, all.topology.iteration.iteration_ns);
        found += some.topology.iteration.iteration_ns == all.topology.iteration.iteration_ns;
        worst = std::max(worst, static_cast<double>(some.topology.iteration.iteration_ns) /
                                    static_cast<double>(all.topology.iteration.iteration_ns));
    }
    printf("the search finds the optimum of %d of %d jobs, at worst %.3f times it\n", found, rounds, worst);
    EXPECT_GE(found, rounds * 9 / 10);
    EXPECT_LT(worst, 1.1);
}

/* Slow links of random rings, and stragglers; microbatches of each replica as many as stages leave room. */
Slowness SlowRings(struct dt_prng *prng, const Cluster &cluster, int links, int stragglers)
{
    const auto count = static_cast<uint64_t>(cluster.replicas * cluster.stages);
    std::set<int32_t> slow, ends;
    Slowness slowness;
    while (ends.size() < static_cast<size_t>(links))
        ends.insert(static_cast<int32_t>(dt_prng_below(prng, count)));
    while (slow.size() < static_cast<size_t>(stragglers))
        slow.insert(static_cast<int32_t>(dt_prng_below(prng, count)));
    for (int32_t a : ends)
        slowness.links.push_back({a, (a + cluster.stages) % static_cast<int32_t>(count), 5000, 0});
    for (int32_t node : slow)
        slowness.nodes.push_back({node, 1500, 1000});
    return slowness;
}

/* With the budget of a controller, and with none that is stated. */
TEST(Topology, LargeJobsEndNearTheBound)
{
    const struct {
        int32_t replicas, stages;
        int links, stragglers;
        uint64_t budget;
    } jobs[] = {{256, 4, 8, 16, 20000}, {32, 32, 8, 16, 20000}, {16, 64, 4, 0, 20000},  {512, 4, 8, 0, 0},
                {128, 16, 4, 8, 0},     {1024, 4, 3, 0, 0},     {512, 8, 16, 32, 20000}};
    struct dt_prng prng;
    dt_prng_init(&prng, 51);
    for (const auto &job : jobs)
        for (bool even : {false, true}) {
            Cluster cluster(job.replicas, job.stages, 8 * job.replicas);
            Slowness slowness = SlowRings(&prng, cluster, job.links, job.stragglers);
            const std::clock_t began = std::clock();
            const Adjusted made = Adjust(cluster, slowness, even, job.budget);
            const double ratio = static_cast<double>(made.topology.iteration.iteration_ns) /
                                 static_cast<double>(made.topology.bound_ns);
            printf("%d x %d nodes, %d links, %d stragglers, %s: %.3f of the bound, %llu tried, %.2f s\n",
                   job.replicas, job.stages, job.links, job.stragglers, even ? "even" : "S2", ratio,
                   static_cast<unsigned long long>(made.topology.tried),
                   static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC);
            EXPECT_LE(ratio, 1.01);
        }
}

TEST(Topology, SearchThatTheBudgetEndsIsMarked)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 61);
    Cluster cluster(256, 4, 2048);
    Slowness slowness = SlowRings(&prng, cluster, 8, 16);
    const Adjusted few = Adjust(cluster, slowness, false, 20);
    EXPECT_TRUE(few.topology.ended_early);
    EXPECT_LE(few.topology.tried, 20u);
    EXPECT_FALSE(Adjust(cluster, slowness, false).topology.ended_early);
    Cluster small(2, 2, 16);
    Slowness link = {{}, {{1, 3, 8000, 0}}};
    EXPECT_FALSE(Adjust(small, link, true).topology.ended_early);
}

TEST(Topology, LargeJobsAreNeverWorseThanBeforeAndNotBelowTheBound)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 41);
    for (int round = 0; round < 8; round++) {
        Cluster cluster(16, 4, 128);
        Slowness slowness = RandomSlowness(&prng, cluster);
        const Adjusted made = Adjust(cluster, slowness, round % 2 == 0, 20000);
        EXPECT_LE(made.topology.iteration.iteration_ns, Estimate(cluster, slowness));
        EXPECT_LE(made.topology.tried, 20000u);
    }
}
} // namespace
