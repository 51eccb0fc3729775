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

/* 8 MiB a millisecond and 10 us: 100 rounds of eight slices. S3 costs 1 s beside them. */
Cluster WithState()
{
    Cluster cluster(2, 2, 16);
    cluster.bytes_per_s = 8388608000;
    cluster.state_bytes = 838860800;
    return cluster;
}

constexpr int64_t kUs = 1000, kOnce = 1000 * kMs, kWay = 30 * kUs;
/* In a circle, and between two nodes: requests wait behind the slices of the other direction. */
constexpr int64_t kMove = 100 * kMs + kWay, kMutual = kMove + 99 * 10 * kUs;
const std::vector<int32_t> kSwap = {1, 0, 2, 3}, kCircle = {1, 2, 0, 3}, kSame = {0, 1, 2, 3};

TEST(Pause, StatesMoveAtOnceOverTheirLinks)
{
    Cluster cluster = WithState();
    Slowness none;
    EXPECT_EQ(Pause(cluster, none, kCircle), kOnce + kMove);
    EXPECT_EQ(Pause(cluster, none, kSwap), kOnce + kMutual);
    EXPECT_EQ(Pause(cluster, none, {1, 0, 3, 2}), kOnce + kMutual) << "two exchanges";
    EXPECT_EQ(Pause(cluster, none, kSame), kOnce) << "nothing moves";
    cluster.nodes = kSwap;
    EXPECT_EQ(Pause(cluster, none, kSwap), kOnce) << "the nodes are there";
    EXPECT_EQ(Pause(cluster, none, kSame), kOnce + kMutual);
    cluster.nodes.clear();
    cluster.bytes_per_s = 0;
    EXPECT_EQ(Pause(cluster, none, kCircle), kOnce + kWay + 99 * 20 * kUs) << "a request and a slice";
}

TEST(Pause, ALastRoundMayBeShort)
{
    Cluster cluster = WithState();
    Slowness none;
    cluster.state_bytes = 8388608;
    EXPECT_EQ(Pause(cluster, none, kSwap), kOnce + kWay + kMs);
    cluster.state_bytes = 8388608 + 1048576;
    EXPECT_EQ(Pause(cluster, none, kSwap), kOnce + kWay + kMs + 10 * kUs + kMs / 8);
    cluster.state_bytes = 1048576;
    EXPECT_EQ(Pause(cluster, none, kSwap), kOnce + kWay + kMs / 8);
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
    cluster.copy_bytes_per_s = 4194304000;
    EXPECT_EQ(Pause(cluster, none, kCircle), kOnce + kMove + 2 * 200 * kMs);
    EXPECT_EQ(Pause(cluster, none, kSame), kOnce);
    cluster.bytes_per_s = cluster.latency_ns = 0;
    EXPECT_EQ(Pause(cluster, none, kSwap), kOnce + 2 * 200 * kMs) << "links take no time";
}

TEST(Pause, SlowLinksCountThatStatesTake)
{
    Cluster cluster = WithState();
    Slowness used = {{}, {{1, 0, 4000, 0}}}, unused = {{}, {{1, 3, 4000, 0}}},
             network = {{{0, 1000, 3000}}, {}};
    EXPECT_EQ(Pause(cluster, used, kCircle), kOnce + 4 * 100 * kMs + kWay);
    EXPECT_EQ(Pause(cluster, used, kSwap), kOnce + 4 * 100 * kMs + kWay + 99 * 10 * kUs);
    EXPECT_EQ(Pause(cluster, unused, kSwap), kOnce + kMutual);
    EXPECT_EQ(Pause(cluster, network, kCircle), kOnce + 3 * 100 * kMs + kWay);
    EXPECT_EQ(Pause(cluster, network, {0, 1, 3, 2}), kOnce + kMutual);
}

TEST(Pause, ADelayHoldsBackTheSlicesUnderWay)
{
    Cluster cluster = WithState();
    Slowness delayed = {{}, {{0, 1, 1000, 5 * kMs}}}, short_one = {{}, {{0, 1, 1000, kMs / 2}}};
    EXPECT_EQ(Pause(cluster, delayed, kCircle),
              kOnce + kWay + 5 * kMs + 99 * (5 * kMs + kMs / 8 + 20 * kUs) + kMs);
    EXPECT_EQ(Pause(cluster, delayed, kSwap), kOnce + kWay + 5 * kMs + 99 * (6 * kMs + 10 * kUs) + kMs);
    EXPECT_EQ(Pause(cluster, short_one, kCircle), kOnce + kMove + kMs / 2) << "the link is full";
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
