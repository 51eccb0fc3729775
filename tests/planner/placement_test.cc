// SPDX-License-Identifier: Apache-2.0
#include "tests/planner/planner_test.h"

namespace
{
std::vector<int32_t> Fill(enum detour_placement placement, int32_t stage_count, int32_t device_count)
{
    std::vector<int32_t> device(static_cast<size_t>(stage_count), -1);
    EXPECT_EQ(detour_placement_fill(placement, stage_count, device_count, device.data(), nullptr), DETOUR_OK);
    return device;
}

TEST(Placement, SequentialInterleavedAndWave)
{
    using V = std::vector<int32_t>;
    EXPECT_EQ(Fill(DETOUR_PLACEMENT_SEQUENTIAL, 3, 3), (V{0, 1, 2}));
    EXPECT_EQ(Fill(DETOUR_PLACEMENT_INTERLEAVED, 6, 3), (V{0, 1, 2, 0, 1, 2}));
    EXPECT_EQ(Fill(DETOUR_PLACEMENT_WAVE, 4, 2), (V{0, 1, 1, 0}));
    EXPECT_EQ(Fill(DETOUR_PLACEMENT_WAVE, 8, 2), (V{0, 1, 1, 0, 0, 1, 1, 0}));
}

TEST(Placement, RefusesStagesThatAreNoMultipleOfTheDevices)
{
    int32_t device[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    struct detour_error error = {};

    EXPECT_EQ(detour_placement_fill(DETOUR_PLACEMENT_SEQUENTIAL, 4, 2, device, &error), DETOUR_UNSUPPORTED);
    EXPECT_STREQ(error.text,
                 "sequential needs exactly as many stages as devices; there are 4 stages and 2 devices");
    EXPECT_EQ(detour_placement_fill(DETOUR_PLACEMENT_WAVE, 5, 2, device, &error), DETOUR_UNSUPPORTED);
    EXPECT_EQ(detour_placement_fill(DETOUR_PLACEMENT_INTERLEAVED, 0, 2, device, &error), DETOUR_UNSUPPORTED);
    EXPECT_EQ(detour_placement_fill(DETOUR_PLACEMENT_WAVE, 4, 0, device, &error), DETOUR_INVALID);
    EXPECT_EQ(device[0], -1);
}

TEST(Placement, NamesAreFoundAgain)
{
    for (int i = 0; i < DETOUR_PLACEMENT_COUNT; i++) {
        enum detour_placement found = DETOUR_PLACEMENT_COUNT;
        ASSERT_TRUE(detour_placement_find(detour_placement_name((enum detour_placement)i), &found));
        EXPECT_EQ(found, i);
    }
    enum detour_placement unchanged = DETOUR_PLACEMENT_WAVE;
    EXPECT_FALSE(detour_placement_find("diagonal", &unchanged));
    EXPECT_EQ(unchanged, DETOUR_PLACEMENT_WAVE);
    EXPECT_EQ(detour_placement_name(DETOUR_PLACEMENT_COUNT), nullptr);
}
} // namespace
