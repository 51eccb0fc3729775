// SPDX-License-Identifier: Apache-2.0
#include "planner/mitigate/passes.h"

#include "tests/planner/mitigate/passes_of.h"

using namespace mitigate_test;
using sched_test::Arena;

namespace
{
const struct detour_validation *Make(struct detour_arena *arena, int32_t ranks,
                                     const std::vector<struct detour_rank_pair> &pairs, int32_t passes)
{
    const struct detour_validation *validation = nullptr;
    struct detour_error error = {};
    EXPECT_EQ(dt_passes_make(arena, ranks, pairs.data(), static_cast<int32_t>(pairs.size()), passes,
                             &validation, &error),
              DETOUR_OK)
        << error.text;
    return validation;
}

TEST(Passes, PathThatIsPlacedFromBothEndsNeedsAnExchange)
{
    // 0-1 and 2-3 get pass 0, 1-2 pass 1, 3-4 pass 1; 4-0 closes an odd ring and needs a third pass.
    Arena arena;
    const struct detour_validation *validation = Make(arena, 5, {{0, 1}, {2, 3}, {1, 2}, {3, 4}, {4, 0}}, 2);
    EXPECT_EQ(CheckPasses(validation).size(), 5u);
    EXPECT_EQ(validation->pass_count, 3);
    // An even path whose middle is placed last: both ends have used up one of the two passes each.
    validation = Make(arena, 6, {{0, 1}, {1, 2}, {4, 5}, {3, 4}, {2, 3}}, 2);
    EXPECT_EQ(CheckPasses(validation).size(), 5u);
    EXPECT_EQ(validation->pass_count, 2);
}

TEST(Passes, RandomGraphsNeedAtMostOnePassMoreThanTheirLargestDegreeAndTheSpareOnes)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 5);
    for (int round = 0; round < 300; round++) {
        Arena arena;
        const int32_t ranks = 4 + static_cast<int32_t>(dt_prng_below(&prng, 30));
        std::vector<int> degree(static_cast<size_t>(ranks));
        std::vector<struct detour_rank_pair> pairs;
        std::set<Link> links;
        for (int32_t k = 0; k < 3 * ranks; k++) {
            const auto a = static_cast<int32_t>(dt_prng_below(&prng, static_cast<uint64_t>(ranks)));
            const auto b = static_cast<int32_t>(dt_prng_below(&prng, static_cast<uint64_t>(ranks)));
            if (a == b || degree[static_cast<size_t>(a)] == 4 || degree[static_cast<size_t>(b)] == 4 ||
                !links.insert(LinkOf(a, b)).second)
                continue;
            degree[static_cast<size_t>(a)]++;
            degree[static_cast<size_t>(b)]++;
            pairs.push_back({a, b});
        }
        if (pairs.empty())
            continue;
        const struct detour_validation *validation = Make(arena, ranks, pairs, 4);
        EXPECT_EQ(CheckPasses(validation), links);
        EXPECT_LE(validation->pass_count, 6);
    }
}

TEST(Passes, TooManyPassesAreRefused)
{
    Arena arena;
    std::vector<struct detour_rank_pair> star;
    const struct detour_validation *validation = nullptr;
    struct detour_error error = {};
    for (int32_t leaf = 1; leaf <= DT_PASSES_MAX + 1; leaf++)
        star.push_back({leaf, 0});
    EXPECT_EQ(
        dt_passes_make(arena, DT_PASSES_MAX + 2, star.data(), DT_PASSES_MAX + 1, 1, &validation, &error),
        DETOUR_UNSUPPORTED);
    EXPECT_STREQ(error.text, "pairs: more than 8 passes are needed");
    EXPECT_EQ(validation, nullptr);
}
} // namespace
