// SPDX-License-Identifier: Apache-2.0
// Jobs and slowness that are refused, each with its line.
#include "tests/planner/mitigate/cluster.h"

#include <climits>

using namespace mitigate_test;

namespace
{
std::string Refuse(Cluster cluster, Slowness slowness = {})
{
    struct detour_error error = {};
    Arena arena;
    struct detour_iteration iteration = {};
    const enum detour_status status =
        detour_iteration_estimate(arena, cluster.get(), slowness.get(), nullptr, nullptr, &iteration, &error);
    EXPECT_TRUE(status == DETOUR_INVALID || status == DETOUR_LIMIT);
    EXPECT_EQ(iteration.iteration_ns, 0);
    return error.text;
}

TEST(ClusterRules, NumbersOutsideTheirRangesAreRefused)
{
    Cluster cluster(2, 3, 8);
    EXPECT_EQ(detour_cluster_check(cluster.get(), nullptr), DETOUR_OK);
    cluster.microbatches = 1;
    EXPECT_EQ(Refuse(cluster), "microbatch_count is 1; it must be from 2 to 2097152");
    cluster = Cluster(64, 65, 64);
    EXPECT_EQ(Refuse(cluster), "the number of nodes is 4160; it must be from 1 to 4096");
    cluster = Cluster(2, 2, 4);
    cluster.stage_ns[1] = 0;
    EXPECT_EQ(Refuse(cluster), "a stage's stage_ns is 0; it must be from 1 to 100000000000");
    cluster = Cluster(2, 2, 4);
    cluster.gradient_bytes = -1;
    EXPECT_EQ(Refuse(cluster), "gradient_bytes is -1; it must be from 0 to 1099511627776");
    cluster = Cluster(2, 2, 4);
    cluster.state_bytes = INT64_MAX;
    EXPECT_EQ(Refuse(cluster), "state_bytes is 9223372036854775807; it must be from 0 to 1099511627776");
    cluster = Cluster(2, 2, 4);
    cluster.copy_bytes_per_s = -1;
    EXPECT_EQ(Refuse(cluster), "copy_bytes_per_s is -1; it must be from 0 to 1000000000000000");
    cluster = Cluster(2, 2, 4);
    cluster.costs[2] = INT64_MAX;
    EXPECT_EQ(Refuse(cluster),
              "a step's cost_ns is 9223372036854775807; it must be from 0 to 1000000000000000");
    cluster = Cluster(2, 2, 4);
    cluster.machines = {0, 0, 3, 4};
    EXPECT_EQ(Refuse(cluster), "a node's machine is 4; it must be from 0 to 3");
    cluster = Cluster(2, 2, 4);
    struct detour_cluster nameless = *cluster.get();
    struct detour_error error = {};
    nameless.name = "a\nb";
    EXPECT_EQ(detour_cluster_check(&nameless, &error), DETOUR_INVALID);
    EXPECT_STREQ(error.text, "name must have 1 to 63 printable ASCII characters");
}

TEST(ClusterRules, EveryNodeHasOnePosition)
{
    Cluster cluster(2, 2, 4);
    cluster.nodes = {0, 1, 2, 2};
    EXPECT_EQ(Refuse(cluster), "nodes[3] is 2; each node from 0 to 3 must have one position");
    cluster.nodes = {0, 1, 2, 4};
    EXPECT_EQ(Refuse(cluster), "nodes[3] is 4; each node from 0 to 3 must have one position");
    cluster.nodes = {3, 1, 2, 0};
    EXPECT_EQ(detour_cluster_check(cluster.get(), nullptr), DETOUR_OK);
}

TEST(ClusterRules, CountsAddUp)
{
    Cluster cluster(2, 1, 4);
    Slowness slowness;
    Arena arena;
    struct detour_iteration iteration = {};
    struct detour_error error = {};
    int32_t counts[] = {1, 2};
    EXPECT_EQ(
        detour_iteration_estimate(arena, cluster.get(), slowness.get(), nullptr, counts, &iteration, &error),
        DETOUR_INVALID);
    EXPECT_STREQ(error.text, "counts adds up to 3 microbatches; the job has 4");
    counts[0] = 0;
    EXPECT_EQ(
        detour_iteration_estimate(arena, cluster.get(), slowness.get(), nullptr, counts, &iteration, &error),
        DETOUR_INVALID);
    EXPECT_STREQ(error.text, "a replica's count of microbatches is 0; it must be from 1 to 4");
}

TEST(ClusterRules, SlowNodesAndLinksAreThoseOfTheJob)
{
    const Cluster cluster(2, 2, 4);
    EXPECT_EQ(Refuse(cluster, {{{4, 1000, 1000}}, {}}), "a slow node is 4; it must be from 0 to 3");
    EXPECT_EQ(Refuse(cluster, {{{3, 999, 1000}}, {}}),
              "a slow node's compute_permille is 999; it must be from 1000 to 1000000");
    EXPECT_EQ(Refuse(cluster, {{{3, 1000, INT_MAX}}, {}}),
              "a slow node's network_permille is 2147483647; it must be from 1000 to 1000000");
    EXPECT_EQ(Refuse(cluster, {{}, {{1, 1, 1000, 0}}}),
              "a slow link joins node 1 to itself; it must join two nodes");
    EXPECT_EQ(Refuse(cluster, {{}, {{-1, 1, 1000, 0}}}), "a slow link's end a is -1; it must be from 0 to 3");
    EXPECT_EQ(Refuse(cluster, {{}, {{0, 1, 1000, -5}}}),
              "a slow link's delay_ns is -5; it must be from 0 to 100000000000");
    EXPECT_EQ(Refuse(cluster, {std::vector<struct detour_slow_node>(1025, {0, 1000, 1000}), {}}),
              "the number of slow nodes is 1025; it must be from 0 to 1024");
}

TEST(ClusterRules, StepsAndGroupsHaveNames)
{
    EXPECT_STREQ(detour_step_name(DETOUR_STEP_S3), "S3");
    EXPECT_EQ(detour_step_name(DETOUR_STEP_COUNT), nullptr);
    EXPECT_STREQ(detour_group_name(DETOUR_GROUP_PIPELINE), "pipeline");
    EXPECT_EQ(detour_group_name(static_cast<enum detour_group>(3)), nullptr);
}
} // namespace
