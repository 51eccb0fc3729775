// SPDX-License-Identifier: Apache-2.0
#include "sched/search/shop.h"

#include "sched/search/algorithms.h"
#include "tests/sched/made.h"

using namespace sched_test;

namespace
{
/* A shop in which nothing has been placed. */
struct Shop : Made {
    struct dt_timeline tl;
    struct dt_search search;

    explicit Shop(Profile &profile) : Made(profile)
    {
        EXPECT_EQ(dt_timeline_init(&call, p, &tl), DETOUR_OK);
        EXPECT_EQ(dt_search_begin(&call, &tl, &search), DETOUR_OK);
    }

    struct dt_shop_state *State()
    {
        return dt_shop_state_create(&call, search.shop);
    }

    std::vector<struct dt_shop_move> Moves(const struct dt_shop_state *state)
    {
        std::vector<struct dt_shop_move> moves(search.shop->moves_max);
        moves.resize(dt_shop_moves(search.shop, state, moves.data()));
        return moves;
    }
};
} // namespace

/* Any sequence of moves ends with everything placed, in a schedule with the makespan that the shop computed.
 */
TEST(Shop, RandomMovesMakeAValidSchedule)
{
    struct dt_prng prng;
    RandomLimits limits;
    dt_prng_init(&prng, 31);
    for (int round = 0; round < 200 && !testing::Test::HasFailure(); round++) {
        Profile profile = RandomProfile(&prng, limits);
        SCOPED_TRACE("round " + std::to_string(round) + ": " + Describe(profile));
        Shop shop(profile);
        struct dt_shop_state *state = shop.State();
        std::vector<struct dt_shop_move> made;
        struct dt_shop_undo undo;
        for (auto moves = shop.Moves(state); !moves.empty(); moves = shop.Moves(state)) {
            made.push_back(moves[dt_prng_below(&prng, moves.size())]);
            dt_shop_place(shop.search.shop, state, &made.back(), &undo);
        }
        ASSERT_EQ(state->placed, shop.search.shop->op_count);
        int64_t makespan_ns = dt_shop_makespan_ns(shop.search.shop, state);
        dt_search_offer(&shop.search, makespan_ns, made.data(), static_cast<int32_t>(made.size()));
        struct detour_schedule *schedule = nullptr;
        ASSERT_EQ(dt_search_finish(&shop.search, &schedule), DETOUR_OK) << shop.error.text;
        EXPECT_EQ(Makespan(profile, schedule), makespan_ns);
        EXPECT_EQ(detour_validate(shop.arena, profile.get(), schedule, &shop.error), DETOUR_OK)
            << shop.error.text;
    }
}

/* Taking back restores what placing changed: the same moves may come next, all the way back. */
TEST(Shop, TakingBackRestoresTheState)
{
    struct dt_prng prng;
    RandomLimits limits;
    dt_prng_init(&prng, 32);
    for (int round = 0; round < 100 && !testing::Test::HasFailure(); round++) {
        Profile profile = RandomProfile(&prng, limits);
        SCOPED_TRACE("round " + std::to_string(round) + ": " + Describe(profile));
        Shop shop(profile);
        struct dt_shop_state *state = shop.State();
        std::vector<struct dt_shop_move> made;
        std::vector<struct dt_shop_undo> undos;
        std::vector<std::vector<struct dt_shop_move>> choices;
        for (auto moves = shop.Moves(state); !moves.empty(); moves = shop.Moves(state)) {
            choices.push_back(moves);
            made.push_back(moves[dt_prng_below(&prng, moves.size())]);
            undos.emplace_back();
            dt_shop_place(shop.search.shop, state, &made.back(), &undos.back());
        }
        for (size_t k = made.size(); k-- > 0;) {
            dt_shop_take_back(shop.search.shop, state, &made[k], &undos[k]);
            auto moves = shop.Moves(state);
            ASSERT_EQ(moves.size(), choices[k].size()) << "after " << k << " moves";
            for (size_t i = 0; i < moves.size(); i++) {
                EXPECT_EQ(moves[i].start_ns, choices[k][i].start_ns);
                EXPECT_EQ(moves[i].stage, choices[k][i].stage);
                EXPECT_EQ(moves[i].kind, choices[k][i].kind);
            }
        }
        EXPECT_EQ(state->placed, 0);
    }
}
