// SPDX-License-Identifier: Apache-2.0
#include "controller/slowness.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace
{
/* As many nodes as positions. */
class Slowness : public ::testing::Test
{
  protected:
    void Make(int32_t replicas, int32_t stages)
    {
        cluster.replica_count = replicas;
        cluster.stage_count = stages;
        nodes.clear();
        for (int32_t node = 0; node < replicas * stages; node++)
            nodes.push_back(node);
    }
    void Add(dt_finding_kind kind, uint32_t rank, uint32_t peer, double factor, uint64_t delay_ns = 0)
    {
        dt_finding finding = {};

        finding.kind = kind;
        finding.rank = rank;
        finding.peer_rank = peer;
        finding.factor = factor;
        finding.delay_ns = delay_ns;
        dt_slowness_add(&slowness, &cluster, &finding);
    }
    std::set<std::pair<int32_t, int32_t>> Used() const
    {
        std::set<std::pair<int32_t, int32_t>> used;

        for (int32_t a = 0; a < (int32_t)nodes.size(); a++) {
            for (int32_t b = a + 1; b < (int32_t)nodes.size(); b++) {
                const detour_slow_link link = {a, b, 1000, 0};
                if (dt_slowness_is_used(&cluster, nodes.data(), &link))
                    used.insert({a, b});
            }
        }
        return used;
    }

    detour_cluster cluster = {};
    std::vector<int32_t> nodes;
    dt_slowness slowness = {};
};

using Pairs = std::set<std::pair<int32_t, int32_t>>;

TEST_F(Slowness, FindingsBecomeNodesAndLinks)
{
    Make(2, 2);
    Add(DT_FINDING_DEVICE, 3, DT_JUDGE_UNKNOWN, 1.5);
    Add(DT_FINDING_NIC, 3, DT_JUDGE_UNKNOWN, 2.5);
    Add(DT_FINDING_LINK, 2, 1, 7, 400);
    Add(DT_FINDING_LINK, 1, 2, 9, 900); /* the other way */
    Add(DT_FINDING_PROCESSOR, 0, DT_JUDGE_UNKNOWN, 4);
    ASSERT_EQ(dt_slowness_count(&slowness), 2);
    EXPECT_EQ(slowness.nodes[0].node, 3);
    EXPECT_EQ(slowness.nodes[0].compute_permille, 1500);
    EXPECT_EQ(slowness.nodes[0].network_permille, 2500);
    EXPECT_EQ(slowness.links[0].a, 1);
    EXPECT_EQ(slowness.links[0].b, 2);
    EXPECT_EQ(slowness.links[0].factor_permille, 1000);
    EXPECT_EQ(slowness.links[0].delay_ns, 400);
}

TEST_F(Slowness, ALinkOfAKnownBandwidthIsSlowByItsFactor)
{
    Make(2, 2);
    cluster.bytes_per_s = 1000;
    Add(DT_FINDING_LINK, 0, 1, 7, 400);
    EXPECT_EQ(slowness.links[0].factor_permille, 7000);
    EXPECT_EQ(slowness.links[0].delay_ns, 0);
}

TEST_F(Slowness, WhatDoesNotFitIsLeftOut)
{
    Make(1, 2);
    for (uint32_t rank = 0; rank <= DT_JUDGE_FINDINGS; rank++) {
        Add(DT_FINDING_DEVICE, rank, DT_JUDGE_UNKNOWN, 2);
        Add(DT_FINDING_LINK, rank, rank + 1, 2);
    }
    EXPECT_EQ(slowness.node_count, DT_JUDGE_FINDINGS);
    EXPECT_EQ(slowness.link_count, DT_JUDGE_FINDINGS);
}

TEST_F(Slowness, AChangeByAFifthIsNone)
{
    Make(2, 2);
    Add(DT_FINDING_LINK, 0, 1, 7, 1000000);
    const dt_slowness before = slowness;
    slowness.links[0].delay_ns = 1200000;
    EXPECT_TRUE(dt_slowness_is_same(&before, &slowness));
    slowness.links[0].delay_ns = 1300000;
    EXPECT_FALSE(dt_slowness_is_same(&before, &slowness));
    slowness = before;
    Add(DT_FINDING_DEVICE, 0, DT_JUDGE_UNKNOWN, 2);
    EXPECT_FALSE(dt_slowness_is_same(&before, &slowness));
}

TEST_F(Slowness, NeighborsInAPipelineOrARingUseTheirLink)
{
    Make(2, 2);
    EXPECT_EQ(Used(), (Pairs{{0, 1}, {2, 3}, {0, 2}, {1, 3}}));
    nodes = {2, 1, 0, 3};
    EXPECT_EQ(Used(), (Pairs{{1, 2}, {0, 3}, {0, 2}, {1, 3}}));
    Make(4, 1);
    EXPECT_EQ(Used(), (Pairs{{0, 1}, {1, 2}, {2, 3}, {0, 3}}));
    Make(1, 4);
    EXPECT_EQ(Used(), (Pairs{{0, 1}, {1, 2}, {2, 3}}));
    Make(3, 2);
    EXPECT_EQ(Used(), (Pairs{{0, 1}, {2, 3}, {4, 5}, {0, 2}, {2, 4}, {0, 4}, {1, 3}, {3, 5}, {1, 5}}));
}

TEST_F(Slowness, APathBetweenMachinesIsUsedByAnyOfItsPairs)
{
    const std::vector<int32_t> machines = {0, 0, 1, 1, 2, 2};

    Make(1, 6);
    cluster.machines = machines.data();
    EXPECT_EQ(Used(), (Pairs{{0, 1},
                             {2, 3},
                             {4, 5},
                             /* inside, and all pairs of */ {0, 2},
                             {0, 3},
                             {1, 2},
                             {1, 3},
                             {2, 4},
                             {2, 5},
                             {3, 4},
                             {3, 5}}));
    nodes = {2, 0, 1, 4, 5, 3};
    EXPECT_EQ(Used().count({2, 3}), 0u);
}

TEST_F(Slowness, ANodeWithoutAPositionHasNoTraffic)
{
    Make(2, 2);
    const detour_slow_link link = {0, 4, 1000, 0};
    EXPECT_FALSE(dt_slowness_is_used(&cluster, nodes.data(), &link));
}
} // namespace
