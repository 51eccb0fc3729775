// SPDX-License-Identifier: Apache-2.0
// Validations: every link of the ring and of NCCL's double tree once, in disjoint pairs, in a constant number
// of passes.
#include "detour/mitigate.h"

#include "tests/planner/mitigate/passes_of.h"

using namespace mitigate_test;
using sched_test::Arena;

namespace
{
TEST(Validation, RingTakesTwoOrThreePassesWhateverItsSize)
{
    for (int32_t ranks = 2; ranks <= 1025; ranks = ranks < 40 ? ranks + 1 : ranks + 329 / 2) {
        Arena arena;
        const struct detour_validation *validation = nullptr;
        ASSERT_EQ(detour_validation_ring(arena, ranks, &validation, nullptr), DETOUR_OK);
        std::set<Link> ring;
        for (int32_t rank = 0; rank < ranks; rank++)
            ring.insert(LinkOf(rank, (rank + 1) % ranks));
        EXPECT_EQ(CheckPasses(validation), ring) << ranks;
        EXPECT_EQ(validation->pass_count, ranks % 2 ? 3 : 2) << ranks;
        EXPECT_EQ(validation->pair_count, ranks);
        for (int32_t k = 0; k < ranks; k++) // data goes around the ring
            EXPECT_EQ(validation->pairs[k].to, (validation->pairs[k].from + 1) % ranks);
    }
}

/* ncclGetBtree() and ncclGetDtree() of NCCL's graph/trees.cc, from the top down: a rank's children. */
void AddTree(std::set<Link> &links, int32_t ranks, bool second)
{
    auto name = [&](int32_t rank) {
        return !second ? rank : ranks % 2 ? (rank + 1) % ranks : ranks - 1 - rank;
    };
    for (int32_t rank = 0; rank < ranks; rank++) {
        int32_t bit = 1;
        while (bit < ranks && !(bit & rank))
            bit <<= 1;
        if (rank == 0) {
            if (ranks > 1)
                links.insert(LinkOf(name(0), name(bit >> 1)));
            continue;
        }
        const int32_t low = bit >> 1;
        if (low)
            links.insert(LinkOf(name(rank), name(rank - low)));
        int32_t reach = low;
        while (reach && rank + reach >= ranks)
            reach >>= 1;
        if (reach)
            links.insert(LinkOf(name(rank), name(rank + reach)));
    }
}

TEST(Validation, DoubleTreeTakesFourPassesWhateverItsSize)
{
    for (int32_t ranks = 2; ranks <= 1024; ranks = ranks < 300 ? ranks + 1 : ranks + 181) {
        Arena arena;
        const struct detour_validation *validation = nullptr;
        ASSERT_EQ(detour_validation_double_tree(arena, ranks, &validation, nullptr), DETOUR_OK);
        std::set<Link> trees;
        AddTree(trees, ranks, false);
        AddTree(trees, ranks, true);
        EXPECT_EQ(CheckPasses(validation), trees) << ranks;
        EXPECT_EQ(static_cast<size_t>(validation->pair_count), trees.size()) << ranks;
        EXPECT_LE(validation->pass_count, 4) << ranks;
        EXPECT_TRUE(ranks < 5 || validation->pass_count == 4) << ranks;
    }
}

TEST(Validation, LargestNumberOfRanksTakesFourPassesToo)
{
    Arena arena;
    for (int32_t ranks : {DETOUR_RANKS_MAX, DETOUR_RANKS_MAX - 1}) {
        const struct detour_validation *validation = nullptr;
        ASSERT_EQ(detour_validation_double_tree(arena, ranks, &validation, nullptr), DETOUR_OK);
        EXPECT_EQ(validation->pass_count, 4);
        EXPECT_GE(CheckPasses(validation).size(), static_cast<size_t>(ranks - 1));
    }
}

TEST(Validation, NumbersOfRanksOutsideTheLimitsAreRefused)
{
    Arena arena;
    const struct detour_validation *validation = nullptr;
    struct detour_error error = {};
    EXPECT_EQ(detour_validation_ring(arena, 1, &validation, &error), DETOUR_INVALID);
    EXPECT_STREQ(error.text, "rank_count is 1; a validation needs at least 2 ranks");
    EXPECT_EQ(detour_validation_double_tree(arena, -4, &validation, &error), DETOUR_INVALID);
    EXPECT_EQ(detour_validation_double_tree(arena, DETOUR_RANKS_MAX + 1, &validation, &error), DETOUR_LIMIT);
    EXPECT_STREQ(error.text, "rank_count is 65537; at most 65536 are possible");
    EXPECT_EQ(validation, nullptr);
}
} // namespace
