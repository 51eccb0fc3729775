// SPDX-License-Identifier: Apache-2.0
#include "planner/packing.h"

#include <algorithm>

#include "tests/planner/planner_test.h"

using namespace planner_test;

namespace
{
/* Every assignment, layer by layer. */
bool BruteForce(const std::vector<dt_packing_sizes> &layers, size_t layer,
                std::vector<dt_packing_sizes> &left)
{
    if (layer == layers.size())
        return true;
    for (dt_packing_sizes &bin : left) {
        const dt_packing_sizes before = bin;
        bool fits = true;
        for (int i = 0; i < DT_PACKING_LIMITS; i++) {
            bin.of[i] -= layers[layer].of[i];
            fits = fits && bin.of[i] >= 0;
        }
        fits = fits && BruteForce(layers, layer + 1, left);
        bin = before;
        if (fits)
            return true;
    }
    return false;
}

struct dt_packing Create(struct detour_arena *arena, std::vector<dt_packing_sizes> &layers)
{
    struct dt_packing packing;
    std::sort(layers.begin(), layers.end(), [](const auto &a, const auto &b) { return a.of[0] > b.of[0]; });
    EXPECT_EQ(dt_packing_create(arena, layers.data(), static_cast<int32_t>(layers.size()), &packing, nullptr),
              DETOUR_OK);
    return packing;
}

dt_packing_sizes DrawLayer(struct dt_prng *prng, int64_t work_ns, uint64_t bytes_max)
{
    return {{work_ns, static_cast<int64_t>(dt_prng_below(prng, (uint64_t)work_ns + 1)),
             static_cast<int64_t>(dt_prng_below(prng, bytes_max + 1))}};
}

/* Some bins have a limit to what is later, some to bytes. */
dt_packing_sizes DrawBin(struct dt_prng *prng, uint64_t low, uint64_t high)
{
    auto work_ns = static_cast<int64_t>(dt_prng_between(prng, low, high));

    return {{work_ns, dt_prng_below(prng, 2) ? work_ns : work_ns / 2,
             dt_prng_below(prng, 2) ? INT64_MAX : static_cast<int64_t>(dt_prng_between(prng, low, high))}};
}
} // namespace

TEST(Packing, AnswersAsEveryAssignmentDoes)
{
    struct dt_prng prng;
    int counts[2] = {0, 0};
    dt_prng_init(&prng, 4);
    for (int round = 0; round < 2000; round++) {
        Arena arena;
        std::vector<dt_packing_sizes> types, layers, bins;
        for (int64_t k = 0; k < 4; k++) { /* different works: layers of equal work are one class */
            auto work_ns = 4 * static_cast<int64_t>(dt_prng_below(&prng, 3)) + k;
            types.push_back(DrawLayer(&prng, work_ns, work_ns ? 6 : 0)); /* without work: not packed */
        }
        for (uint64_t k = dt_prng_between(&prng, 1, 8); k; k--)
            layers.push_back(types[dt_prng_below(&prng, 4)]);
        for (uint64_t k = dt_prng_between(&prng, 1, 3); k; k--)
            bins.push_back(DrawBin(&prng, 4, 20));
        struct dt_packing packing = Create(arena, layers);
        bool fits = dt_packing_fits(&packing, bins.data(), static_cast<int32_t>(bins.size()));
        EXPECT_EQ(fits, BruteForce(layers, 0, bins)) << "round " << round;
        counts[fits]++;
    }
    EXPECT_GT(counts[0], 200);
    EXPECT_GT(counts[1], 200);
}

/* More than six classes are merged downwards, and so are layers of equal work: what is said not to fit does
 * not. */
TEST(Packing, MergedClassesNeverRefuseWhatFits)
{
    struct dt_prng prng;
    int refused = 0;
    dt_prng_init(&prng, 5);
    for (int round = 0; round < 500; round++) {
        Arena arena;
        std::vector<dt_packing_sizes> layers;
        std::vector<dt_packing_sizes> bins(2, DrawBin(&prng, 60, 180));
        for (int k = 0; k < 9; k++) {
            auto work_ns = static_cast<int64_t>(dt_prng_between(&prng, 5, round % 2 ? 40 : 9));
            layers.push_back(DrawLayer(&prng, work_ns, 30));
        }
        if (round % 2 == 0)
            bins.resize(1, DrawBin(&prng, 20, 70));
        struct dt_packing packing = Create(arena, layers);
        EXPECT_LE(packing.class_count, DT_PACKING_CLASSES_MAX);
        if (dt_packing_fits(&packing, bins.data(), static_cast<int32_t>(bins.size())))
            continue;
        refused++;
        EXPECT_FALSE(BruteForce(layers, 0, bins)) << "round " << round;
    }
    EXPECT_GT(refused, 50);
}
