// SPDX-License-Identifier: Apache-2.0
// A validation's cost does not grow with the ranks; it would if pairs of a pass shared a rank.
#include "tests/sim/validation_cost.h"

#include <numeric>

#include "tests/sched/sched_test.h"

using sched_test::Arena;

namespace
{
enum class Kind { kRing, kTree };

struct Costs {
    struct dt_validation_cost_options options = {nullptr, 8,         1 << 20, 21,   50000000000,
                                                 10000,   200000000, -1,      10000};

    const struct detour_validation *Plan(Kind kind, int32_t ranks)
    {
        const struct detour_validation *plan = nullptr;
        struct detour_error error = {};
        EXPECT_EQ(kind == Kind::kRing ? detour_validation_ring(arena, ranks, &plan, &error)
                                      : detour_validation_double_tree(arena, ranks, &plan, &error),
                  DETOUR_OK)
            << error.text;
        return plan;
    }

    struct dt_validation_cost Run(const struct detour_validation *plan)
    {
        struct dt_validation_cost cost = {};
        struct detour_error error = {};
        options.plan = plan;
        EXPECT_EQ(dt_validation_cost_run(arena, &options, &cost, &error), DETOUR_OK) << error.text;
        return cost;
    }

    /* 21 messages there and back of 20.971 us and 10 us each. */
    int64_t PassNs() const
    {
        return 21 * 2 * (options.bytes * 1000000000 / options.bytes_per_s + options.latency_ns);
    }

    Arena arena;
};

TEST(ValidationCost, DoesNotGrowWithTheRanks)
{
    for (Kind kind : {Kind::kRing, Kind::kTree}) {
        int64_t most_ns = 0;
        for (int32_t ranks : {4, 5, 16, 64, 255, 256, 1024, 1025, 4096}) {
            Costs costs;
            const struct dt_validation_cost cost = costs.Run(costs.Plan(kind, ranks));
            EXPECT_LE(cost.pass_count, kind == Kind::kRing ? 2 + ranks % 2 : 4) << ranks;
            EXPECT_EQ(cost.exchange_ns, cost.pass_count * costs.PassNs()) << ranks;
            EXPECT_EQ(cost.slow_count, 0);
            EXPECT_LT(cost.total_ns, 3 * costs.options.period_ns) << ranks;
            most_ns = std::max(most_ns, cost.one_by_one_ns);
        }
        EXPECT_GT(most_ns, 1000 * Costs().PassNs()); /* without passes it grows */
    }
}

TEST(ValidationCost, PairsThatShareARankWaitForEachOther)
{
    Costs costs;
    const struct detour_validation *plan = costs.Plan(Kind::kRing, 256);
    const int32_t first_pair[] = {0, plan->pair_count};
    struct detour_validation at_once = *plan;
    at_once.pass_count = 1;
    at_once.first_pair = first_pair;
    EXPECT_GT(costs.Run(&at_once).exchange_ns, costs.PassNs());
    std::vector<struct detour_rank_pair> star(255);
    for (size_t i = 0; i < star.size(); i++)
        star[i] = {0, static_cast<int32_t>(i) + 1};
    at_once.pairs = star.data();
    at_once.pair_count = 255;
    const int32_t all[] = {0, 255};
    at_once.first_pair = all;
    EXPECT_GT(costs.Run(&at_once).exchange_ns, 100 * costs.PassNs());
}

TEST(ValidationCost, OfASlowLinkIsThatOfItsPassAndItIsFound)
{
    for (Kind kind : {Kind::kRing, Kind::kTree}) {
        Costs costs;
        const struct detour_validation *plan = costs.Plan(kind, 1024);
        costs.options.slow_pair = plan->pair_count / 3;
        const struct dt_validation_cost cost = costs.Run(plan);
        const struct detour_rank_pair &pair = plan->pairs[costs.options.slow_pair];
        ASSERT_EQ(cost.slow_count, 1);
        EXPECT_EQ(cost.slow.kind, DETOUR_SLOW_LINK);
        EXPECT_EQ(std::minmax(cost.slow.rank, cost.slow.peer), std::minmax(pair.from, pair.to));
        EXPECT_LT(cost.exchange_ns, (plan->pass_count + 11) * costs.PassNs());
    }
}
} // namespace
