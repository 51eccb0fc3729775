/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"

#include <gtest/gtest.h>

namespace
{
TEST(Util, RoundsUpToPowersOfTwo)
{
    EXPECT_EQ(1u, dt_round_up_power_of_two(1));
    EXPECT_EQ(4u, dt_round_up_power_of_two(3));
    EXPECT_EQ(4u, dt_round_up_power_of_two(4));
    EXPECT_EQ(1ull << 63, dt_round_up_power_of_two((1ull << 62) + 1));
    EXPECT_FALSE(dt_is_power_of_two(0));
    EXPECT_TRUE(dt_is_power_of_two(1));
    EXPECT_TRUE(dt_is_power_of_two(1ull << 63));
    EXPECT_FALSE(dt_is_power_of_two((1ull << 63) + 1));
}

TEST(Util, AlignsUp)
{
    EXPECT_EQ(0u, dt_align_up(0, 4096));
    EXPECT_EQ(4096u, dt_align_up(1, 4096));
    EXPECT_EQ(4096u, dt_align_up(4096, 4096));
    EXPECT_EQ(8192u, dt_align_up(4097, 4096));
}

TEST(Util, ComparesWithoutNarrowing)
{
    EXPECT_EQ(1u, dt_min_u64(1ull << 32, 1));
    EXPECT_EQ(1ull << 32, dt_max_u64(1ull << 32, 1));
}

TEST(Util, FindsTheStructOfAMember)
{
    struct Outer {
        char before[3];
        uint64_t member;
    } outer = {};
    uint32_t array[7];

    EXPECT_EQ(&outer, dt_container_of(&outer.member, Outer, member));
    EXPECT_EQ(7u, DT_COUNT_OF(array));
}
} // namespace
