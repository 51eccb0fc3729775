// SPDX-License-Identifier: Apache-2.0
#include "sched/search/order_graph.h"

#include "tests/sched/made.h"

using namespace sched_test;

namespace
{
/* Every head, tail and place follows from the neighbors. */
void ExpectMeasured(const struct dt_order_graph &g)
{
    int64_t longest_ns = 0;
    for (int32_t v = 1; v < g.node_count; v++) {
        const struct dt_order_node &node = g.nodes[v];
        int64_t head_ns =
            dt_later_ns(dt_order_arrival_ns(&g, &node), dt_order_finish_ns(&g.nodes[node.before]));
        const struct dt_order_node &behind = g.nodes[node.behind];
        int64_t tail_ns =
            dt_later_ns(dt_order_output_tail_ns(&g, &node), behind.tail_ns + behind.duration_ns);
        EXPECT_EQ(node.head_ns, head_ns) << "node " << v;
        EXPECT_EQ(node.tail_ns, tail_ns) << "node " << v;
        EXPECT_EQ(g.order[node.place], v);
        EXPECT_GT(node.place, g.nodes[node.before].place);
        EXPECT_GT(node.place, g.nodes[node.input].place);
        longest_ns = dt_later_ns(longest_ns, dt_order_finish_ns(&node));
    }
    EXPECT_EQ(g.finish_ns, dt_later_ns(longest_ns, g.least_finish_ns));
}

/* The graph of a schedule. */
struct Graph : Made {
    struct dt_timeline tl;
    struct dt_search search;
    struct dt_order_graph graph;
    bool known = false;

    Graph(Profile &profile, const struct detour_schedule *schedule, int64_t makespan_ns) : Made(profile)
    {
        EXPECT_EQ(dt_timeline_init(&call, p, &tl), DETOUR_OK);
        EXPECT_EQ(dt_search_begin(&call, &tl, &search), DETOUR_OK);
        EXPECT_EQ(dt_search_offer_schedule(&search, schedule, nullptr, makespan_ns), DETOUR_OK);
        known = search.best_count > 0;
        if (known) {
            EXPECT_TRUE(dt_order_make(&graph, &search));
        }
    }
};
} // namespace

TEST(OrderGraph, TheLongestPathIsTheMakespan)
{
    struct dt_prng prng;
    RandomLimits limits;
    int made = 0;
    dt_prng_init(&prng, 51);
    for (int round = 0; round < 200 && !testing::Test::HasFailure(); round++) {
        Arena arena;
        Profile profile = RandomProfile(&prng, limits);
        SCOPED_TRACE("round " + std::to_string(round) + ": " + Describe(profile));
        struct detour_plan *plan = Generate(arena, profile, DETOUR_ALGORITHM_ADAPTRA);
        Graph g(profile, plan->schedule, plan->makespan_ns);
        if (!g.known)
            continue;
        ExpectMeasured(g.graph);
        EXPECT_EQ(g.graph.finish_ns, g.search.shop->origin_ns + plan->makespan_ns);
        made++;
    }
    EXPECT_GT(made, 100);
}

/* One stage: W0 may pass F1 and B1 in either direction. */
TEST(OrderGraph, AShiftIsMeasuredAgainAndUndoneByItsOpposite)
{
    Arena arena;
    Profile profile = Profile::Uniform(1, 2, 10, 20, 5);
    struct detour_schedule *s = Schedule(arena, profile, {"F0 B0 W0 F1 B1 W1"});
    int64_t makespan_ns = Makespan(profile, s);
    Graph g(profile, s, makespan_ns);
    ASSERT_TRUE(g.known);
    int32_t w0 = 0;
    for (int32_t v = 1; v < g.graph.node_count && !w0; v++)
        w0 = g.graph.nodes[v].kind == DETOUR_OP_W ? v : 0;
    ASSERT_GT(w0, 0);
    EXPECT_EQ(g.graph.nodes[w0].head_ns, 30);
    struct dt_order_shift shift = {w0, 2, true, 0};
    dt_order_apply(&g.graph, &shift);
    ExpectMeasured(g.graph);
    EXPECT_EQ(g.graph.nodes[w0].head_ns, 60) << "F0 B0 F1 B1 W0";
    EXPECT_EQ(g.graph.finish_ns, makespan_ns);
    shift.forward = false;
    dt_order_apply(&g.graph, &shift);
    ExpectMeasured(g.graph);
    EXPECT_EQ(g.graph.nodes[w0].head_ns, 30);
}
