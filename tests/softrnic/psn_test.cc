// SPDX-License-Identifier: Apache-2.0
// (number, expected): where a PSN stands relative to the one a responder expects.
#include "softrnic/psn.h"

#include <gtest/gtest.h>

namespace
{
TEST(Psn, AheadAndBehindOverTheWholeWindowAndTheWrap)
{
    const struct {
        uint32_t psn, expected;
        int32_t diff;
    } cases[] = {
        {0, 0, 0},
        {1, 0, 1},
        {0, 1, -1},
        {0, 0xffffff, 1},  // just past the wrap
        {0xffffff, 0, -1}, // just before it
        {5, 0xfffffb, 10},
        {0xfffffb, 5, -10},
        {0x7fffff, 0, 0x7fffff},  // the farthest ahead
        {0x800000, 0, -0x800000}, // the farthest behind
        {0, 0x800000, -0x800000},
        {0x800000, 1, 0x7fffff},
        {0x123456, 0x923456, -0x800000},
        {0x123455, 0x923456, 0x7fffff},
    };
    for (const auto &c : cases)
        EXPECT_EQ(c.diff, dt_psn_diff(c.psn, c.expected)) << c.psn << " " << c.expected;
}

// diff, add and sub agree for every distance, from expected PSNs on both sides of the wrap.
TEST(Psn, ExhaustiveDistances)
{
    for (uint32_t expected : {0u, 1u, 0x7fffffu, 0x800000u, 0xfffffeu, 0xffffffu}) {
        for (int32_t distance = -0x800000; distance < 0x800000; distance++) {
            uint32_t psn = dt_psn_add(expected, static_cast<uint32_t>(distance));
            if (dt_psn_diff(psn, expected) != distance ||
                dt_psn_sub(psn, static_cast<uint32_t>(distance)) != expected)
                FAIL() << expected << " " << distance;
        }
    }
}

TEST(Psn, CountOfAMessage)
{
    EXPECT_EQ(1u, dt_psn_count(0, 8));
    EXPECT_EQ(1u, dt_psn_count(1, 8));
    EXPECT_EQ(1u, dt_psn_count(256, 8));
    EXPECT_EQ(2u, dt_psn_count(257, 8));
    EXPECT_EQ(1u << 18, dt_psn_count(1ull << 30, 12));
    EXPECT_EQ(1u << 22, dt_psn_count(1ull << 30, 8));
}
} // namespace
