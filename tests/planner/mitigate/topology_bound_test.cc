// SPDX-License-Identifier: Apache-2.0
// No assignment of nodes is below the bound, and the bound is reached where stragglers are alone.
#include "planner/mitigate/topology.h"

#include "tests/planner/mitigate/cluster.h"

using namespace mitigate_test;

namespace
{
int64_t Bound(Cluster &cluster, Slowness &slowness, bool even)
{
    Arena arena;
    struct dt_layout layout;
    int64_t bound_ns = 0;
    EXPECT_EQ(dt_layout_create(arena, cluster.get(), slowness.get(), nullptr, &layout, nullptr), DETOUR_OK);
    EXPECT_EQ(dt_topology_bound(arena, &layout, even, &bound_ns, nullptr), DETOUR_OK);
    return bound_ns;
}

TEST(TopologyBound, IsTheOptimumOfHealthyNodesAndOfOneSlowNode)
{
    Cluster cluster(4, 4, 32);
    Slowness none, one = {{{5, 2000, 1000}}, {}}, network = {{{0, 1000, 3000}}, {}};
    cluster.message_bytes = 0; /* so that a slow network is one of the gradients */
    for (bool even : {false, true})
        for (Slowness *slowness : {&none, &one, &network}) {
            Arena arena;
            struct detour_topology topology = {};
            struct detour_topology_options options = {even, 0};
            ASSERT_EQ(
                detour_topology_adjust(arena, cluster.get(), slowness->get(), &options, &topology, nullptr),
                DETOUR_OK);
            EXPECT_EQ(topology.iteration.iteration_ns, Bound(cluster, *slowness, even));
            EXPECT_TRUE(topology.optimal);
        }
}

TEST(TopologyBound, IsNotAboveTheOptimumOfSmallJobs)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 8);
    for (int round = 0; round < 400; round++) {
        Cluster cluster = RandomCluster(&prng, 6);
        Slowness slowness = RandomSlowness(&prng, cluster);
        Arena arena;
        struct detour_topology topology = {};
        struct detour_topology_options options = {round % 2 == 0, 0};
        ASSERT_EQ(detour_topology_adjust(arena, cluster.get(), slowness.get(), &options, &topology, nullptr),
                  DETOUR_OK);
        EXPECT_TRUE(topology.optimal);
        EXPECT_LE(Bound(cluster, slowness, options.even), topology.iteration.iteration_ns)
            << "round " << round;
    }
}
} // namespace
