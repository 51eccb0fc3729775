// SPDX-License-Identifier: Apache-2.0
#include "sched/search/bound.h"

#include "sched/search/algorithms.h"
#include "tests/sched/brute_force.h"
#include "tests/sched/made.h"

using namespace sched_test;

/* On the way to any complete schedule, no state's bound is above that schedule's makespan; complete, it is
 * equal. */
TEST(Bound, IsNeverAboveTheMakespanReached)
{
    struct dt_prng prng;
    RandomLimits limits;
    dt_prng_init(&prng, 41);
    for (int round = 0; round < 150 && !testing::Test::HasFailure(); round++) {
        Profile profile = RandomProfile(&prng, limits);
        SCOPED_TRACE("round " + std::to_string(round) + ": " + Describe(profile));
        Made made(profile);
        struct dt_timeline tl;
        struct dt_search search;
        ASSERT_EQ(dt_timeline_init(&made.call, made.p, &tl), DETOUR_OK);
        ASSERT_EQ(dt_search_begin(&made.call, &tl, &search), DETOUR_OK);
        struct dt_shop_state *state = dt_shop_state_create(&made.call, search.shop);
        std::vector<struct dt_shop_move> moves(search.shop->moves_max);
        std::vector<int64_t> bounds = {dt_bound_ns(search.bound, state)};
        struct dt_shop_undo undo;
        while (int32_t count = dt_shop_moves(search.shop, state, moves.data())) {
            dt_shop_place(search.shop, state, &moves[dt_prng_below(&prng, count)], &undo);
            bounds.push_back(dt_bound_ns(search.bound, state));
        }
        int64_t makespan_ns = dt_shop_makespan_ns(search.shop, state);
        for (size_t k = 0; k < bounds.size(); k++)
            EXPECT_LE(bounds[k], makespan_ns) << "after " << k << " moves";
        EXPECT_EQ(bounds.back(), makespan_ns);
    }
}

TEST(Bound, OfTheProblemIsNeverAboveTheBestOfAllOrders)
{
    struct dt_prng prng;
    int compared = 0;
    dt_prng_init(&prng, 42);
    for (int round = 0; round < 200 && !testing::Test::HasFailure(); round++) {
        Profile profile = TinyProfile(&prng);
        SCOPED_TRACE("round " + std::to_string(round) + ": " + Describe(profile));
        int64_t best_ns = BruteForce(profile, 2000);
        if (best_ns < 0 || detour_profile_check(profile.get(), nullptr) != DETOUR_OK)
            continue;
        Made made(profile);
        struct dt_timeline tl;
        struct dt_search search;
        ASSERT_EQ(dt_timeline_init(&made.call, made.p, &tl), DETOUR_OK);
        ASSERT_EQ(dt_search_begin(&made.call, &tl, &search), DETOUR_OK);
        EXPECT_LE(dt_bound_ns(search.bound, search.root), best_ns);
        compared++;
    }
    EXPECT_GT(compared, 50);
}
