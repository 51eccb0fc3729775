// SPDX-License-Identifier: Apache-2.0
#include "planner/packing.h"

#include <algorithm>

#include "tests/planner/planner_test.h"

using namespace planner_test;

namespace
{
/* Every assignment, layer by layer. */
bool BruteForce(const std::vector<int64_t> &work, size_t layer, std::vector<int64_t> &left)
{
    if (layer == work.size())
        return true;
    for (int64_t &bin : left) {
        if (bin < work[layer])
            continue;
        bin -= work[layer];
        bool fits = BruteForce(work, layer + 1, left);
        bin += work[layer];
        if (fits)
            return true;
    }
    return false;
}

struct dt_packing Create(struct detour_arena *arena, std::vector<int64_t> &work)
{
    struct dt_packing packing;
    std::sort(work.rbegin(), work.rend());
    EXPECT_EQ(dt_packing_create(arena, work.data(), static_cast<int32_t>(work.size()), &packing, nullptr),
              DETOUR_OK);
    return packing;
}
} // namespace

TEST(Packing, AnswersAsEveryAssignmentDoes)
{
    struct dt_prng prng;
    int counts[2] = {0, 0};
    dt_prng_init(&prng, 4);
    for (int round = 0; round < 2000; round++) {
        Arena arena;
        std::vector<int64_t> types, work, capacity;
        for (int k = 0; k < 4; k++)
            types.push_back(static_cast<int64_t>(dt_prng_below(&prng, 9)));
        for (uint64_t k = dt_prng_between(&prng, 1, 8); k; k--)
            work.push_back(types[dt_prng_below(&prng, 4)]);
        for (uint64_t k = dt_prng_between(&prng, 1, 3); k; k--)
            capacity.push_back(static_cast<int64_t>(dt_prng_between(&prng, 3, 16)));
        struct dt_packing packing = Create(arena, work);
        bool fits = dt_packing_fits(&packing, capacity.data(), static_cast<int32_t>(capacity.size()));
        EXPECT_EQ(fits, BruteForce(work, 0, capacity)) << "round " << round;
        counts[fits]++;
    }
    EXPECT_GT(counts[0], 200);
    EXPECT_GT(counts[1], 200);
}

/* More than six classes are merged downwards: what is said not to fit does not. */
TEST(Packing, MergedClassesNeverRefuseWhatFits)
{
    struct dt_prng prng;
    int refused = 0;
    dt_prng_init(&prng, 5);
    for (int round = 0; round < 500; round++) {
        Arena arena;
        std::vector<int64_t> work, capacity(2, static_cast<int64_t>(dt_prng_between(&prng, 60, 180)));
        for (int k = 0; k < 9; k++)
            work.push_back(static_cast<int64_t>(dt_prng_between(&prng, 5, 40)));
        struct dt_packing packing = Create(arena, work);
        EXPECT_LE(packing.class_count, DT_PACKING_CLASSES_MAX);
        if (dt_packing_fits(&packing, capacity.data(), 2))
            continue;
        refused++;
        EXPECT_FALSE(BruteForce(work, 0, capacity)) << "round " << round;
    }
    EXPECT_GT(refused, 50);
}
