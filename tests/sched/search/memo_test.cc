// SPDX-License-Identifier: Apache-2.0
#include "sched/search/memo.h"

#include "sched/search/algorithms.h"
#include "tests/sched/made.h"

using namespace sched_test;

namespace
{
/* A state some moves into a problem, and a memo. */
struct Memo {
    Profile profile = Profile::Uniform(3, 6, 10, 10, 10);
    Made made{profile};
    struct dt_timeline tl;
    struct dt_search search;
    struct dt_shop_state *state;
    struct dt_memo memo;

    Memo()
    {
        EXPECT_EQ(dt_timeline_init(&made.call, made.p, &tl), DETOUR_OK);
        EXPECT_EQ(dt_search_begin(&made.call, &tl, &search), DETOUR_OK);
        state = dt_shop_state_create(&made.call, search.shop);
        Place(7);
        EXPECT_EQ(dt_memo_init(&made.call, search.shop, 100, &memo), DETOUR_OK);
    }

    void Place(int count)
    {
        std::vector<struct dt_shop_move> moves(search.shop->moves_max);
        struct dt_shop_undo undo;
        while (count--) {
            ASSERT_GT(dt_shop_moves(search.shop, state, moves.data()), 0);
            dt_shop_place(search.shop, state, &moves[0], &undo);
        }
    }

    bool IsDominated(const struct dt_shop_state *other)
    {
        dt_bound_ns(search.bound, other);
        return dt_memo_dominates(&memo, search.bound, other);
    }

    /* The same state with everything later. */
    struct dt_shop_state *Later(int64_t by_ns)
    {
        struct dt_shop_state *later = dt_shop_state_create(&made.call, search.shop);
        dt_shop_copy(search.shop, later, state);
        for (int32_t d = 0; d < made.p->device_count; d++)
            later->free_ns[d] += by_ns;
        return later;
    }
};
} // namespace

TEST(Memo, AStateIsDominatedByItselfAndByAnEarlierOne)
{
    Memo m;
    EXPECT_FALSE(dt_memo_has(&m.memo, m.state));
    EXPECT_FALSE(m.IsDominated(m.state));
    dt_memo_add(&m.memo, m.state);
    EXPECT_TRUE(dt_memo_has(&m.memo, m.state));
    EXPECT_TRUE(m.IsDominated(m.state));
    EXPECT_TRUE(m.IsDominated(m.Later(1)));
}

TEST(Memo, ALaterStateDominatesNothingEarlier)
{
    Memo m;
    dt_memo_add(&m.memo, m.Later(1000));
    EXPECT_TRUE(dt_memo_has(&m.memo, m.state)) << "as many operations are done";
    EXPECT_FALSE(m.IsDominated(m.state));
}

TEST(Memo, OtherCountsAreOtherStates)
{
    Memo m;
    dt_memo_add(&m.memo, m.state);
    for (int steps = 0; steps < 5; steps++) {
        int32_t before = m.state->done[2][0] + m.state->done[2][1] + m.state->done[2][2];
        m.Place(1);
        int32_t after = m.state->done[2][0] + m.state->done[2][1] + m.state->done[2][2];
        if (before == after) { // an F or a B
            EXPECT_FALSE(dt_memo_has(&m.memo, m.state));
        }
    }
}

TEST(Memo, ClearForgets)
{
    Memo m;
    dt_memo_add(&m.memo, m.state);
    dt_memo_clear(&m.memo);
    EXPECT_FALSE(dt_memo_has(&m.memo, m.state));
    EXPECT_FALSE(m.IsDominated(m.state));
}
