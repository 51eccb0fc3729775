// SPDX-License-Identifier: Apache-2.0
// The pause of an S3: its formula by hand, which links count, and extreme jobs. That the formula is what the
// plugin needs: tests/sim/move_test.cc.
#include "tests/planner/mitigate/cluster.h"

using namespace mitigate_test;

namespace
{
int64_t Pause(Cluster &cluster, Slowness &slowness, const std::vector<int32_t> &nodes)
{
    Arena arena;
    struct detour_error error = {};
    int64_t pause_ns = -1;
    EXPECT_EQ(detour_exchange_pause(arena, cluster.get(), slowness.get(), nodes.data(), &pause_ns, &error),
              DETOUR_OK)
        << error.text;
    return pause_ns;
}

/* 10 GB/s, 10 us: a state of 1 GB takes 100 ms and twice the latency. S3 costs 1 s beside it. */
Cluster WithState()
{
    Cluster cluster(2, 2, 16);
    cluster.state_bytes = 1000000000;
    return cluster;
}

constexpr int64_t kOnce = 1000 * kMs, kMove = 100 * kMs + 20000;
const std::vector<int32_t> kSwap = {1, 0, 2, 3};

TEST(Pause, StatesMoveAtOnceOverTheirLinks)
{
    Cluster cluster = WithState();
    Slowness none;
    EXPECT_EQ(Pause(cluster, none, kSwap), kOnce + kMove);
    EXPECT_EQ(Pause(cluster, none, {1, 0, 3, 2}), kOnce + kMove) << "two exchanges";
    EXPECT_EQ(Pause(cluster, none, {1, 2, 0, 3}), kOnce + kMove) << "in a circle";
    EXPECT_EQ(Pause(cluster, none, {0, 1, 2, 3}), kOnce) << "nothing moves";
    cluster.nodes = {1, 0, 2, 3};
    EXPECT_EQ(Pause(cluster, none, kSwap), kOnce) << "the nodes are there";
    cluster.bytes_per_s = 0;
    EXPECT_EQ(Pause(cluster, none, {0, 1, 2, 3}), kOnce + 120 * 20000) << "rounds of eight, 20 us each";
}

TEST(Pause, WithoutStateItIsTheCost)
{
    Cluster cluster = WithState();
    Slowness none;
    cluster.state_bytes = 0;
    cluster.copy_bytes_per_s = 1;
    EXPECT_EQ(Pause(cluster, none, kSwap), kOnce);
}

TEST(Pause, CopiesToAndFromTheHost)
{
    Cluster cluster = WithState();
    Slowness none;
    cluster.copy_bytes_per_s = 5000000000;
    EXPECT_EQ(Pause(cluster, none, kSwap), kOnce + kMove + 2 * 200 * kMs);
    EXPECT_EQ(Pause(cluster, none, {0, 1, 2, 3}), kOnce);
    cluster.bytes_per_s = cluster.latency_ns = 0;
    EXPECT_EQ(Pause(cluster, none, kSwap), kOnce + 2 * 200 * kMs) << "links take no time";
}

TEST(Pause, SlowLinksCountThatStatesTake)
{
    Cluster cluster = WithState();
    Slowness used = {{}, {{1, 0, 4000, 0}}}, unused = {{}, {{1, 3, 4000, 0}}},
             network = {{{0, 1000, 3000}}, {}};
    EXPECT_EQ(Pause(cluster, used, kSwap), kOnce + 4 * 100 * kMs + 20000);
    EXPECT_EQ(Pause(cluster, unused, kSwap), kOnce + kMove);
    EXPECT_EQ(Pause(cluster, network, kSwap), kOnce + 3 * 100 * kMs + 20000);
    EXPECT_EQ(Pause(cluster, network, {0, 1, 3, 2}), kOnce + kMove);
}

/* 954 slices in 120 rounds of eight, each longer than what the link needs for it. */
TEST(Pause, ADelayHoldsBackTheSlicesUnderWay)
{
    Cluster cluster = WithState();
    Slowness delayed = {{}, {{0, 1, 1000, 5 * kMs}}}, short_one = {{}, {{0, 1, 1000, kMs / 2}}};
    const int64_t slice_ns = 104858, way_ns = 20000 + 5 * kMs;
    EXPECT_EQ(Pause(cluster, delayed, kSwap), kOnce + way_ns + 119 * (slice_ns + way_ns) + slice_ns);
    EXPECT_EQ(Pause(cluster, short_one, kSwap), kOnce + kMove + kMs / 2) << "the link is full";
}

TEST(Pause, ExtremeJobsHaveTheLargestCost)
{
    Cluster cluster = WithState();
    Slowness slow = {{}, {{0, 1, DETOUR_SLOW_PERMILLE_MAX, DETOUR_TIME_MAX_NS}}};
    cluster.state_bytes = DETOUR_CLUSTER_BYTES_MAX;
    cluster.bytes_per_s = 1;
    cluster.copy_bytes_per_s = 1;
    cluster.latency_ns = DETOUR_TIME_MAX_NS;
    EXPECT_EQ(Pause(cluster, slow, kSwap), DETOUR_STEP_COST_MAX_NS);
}

TEST(Pause, WrongNodesAreRefused)
{
    Arena arena;
    Cluster cluster = WithState();
    Slowness none;
    struct detour_error error = {};
    int64_t pause_ns = -1;
    const int32_t nodes[] = {0, 0, 1, 2};
    EXPECT_EQ(detour_exchange_pause(arena, cluster.get(), none.get(), nodes, &pause_ns, &error),
              DETOUR_INVALID);
    EXPECT_EQ(pause_ns, -1);
    EXPECT_STREQ(error.text, "nodes[1] is 0; each node from 0 to 3 must have one position");
}
} // namespace
