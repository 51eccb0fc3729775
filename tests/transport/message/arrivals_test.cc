/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/arrivals.h"

#include <gtest/gtest.h>

#include <bitset>

namespace
{
TEST(Arrivals, AMessageIsEveryPartOnEveryQueuePair)
{
    for (uint32_t parts = 1; parts <= DT_PARTS_MAX; parts++) {
        for (uint32_t qps = 1; qps <= DT_SHARES_MAX; qps++) {
            dt_arrivals arrivals = {};
            uint64_t all = dt_arrivals_of_parts(dt_arrivals_whole(qps), parts);
            ASSERT_EQ(parts * qps, std::bitset<64>(all).count());
            for (uint32_t share = 0; share < parts * qps; share++) {
                ASSERT_NE(all, arrivals.seen) << "complete without share " << share;
                ASSERT_TRUE(dt_arrivals_add(&arrivals, share / qps, share % qps, 1));
            }
            ASSERT_EQ(all, arrivals.seen);
        }
    }
}

TEST(Arrivals, BytesAreAddedUpByPart)
{
    dt_arrivals arrivals = {};
    arrivals.bytes[1] = 4711; // of a message before
    EXPECT_TRUE(dt_arrivals_add(&arrivals, 1, 0, 1000));
    EXPECT_TRUE(dt_arrivals_add(&arrivals, 1, 7, UINT32_MAX));
    EXPECT_TRUE(dt_arrivals_add(&arrivals, 0, 0, 5));
    EXPECT_EQ(1000ull + UINT32_MAX, arrivals.bytes[1]);
    EXPECT_EQ(5u, arrivals.bytes[0]);
}

TEST(Arrivals, AShareCountsOnceAndAfterClearingAgain)
{
    dt_arrivals arrivals = {};
    EXPECT_TRUE(dt_arrivals_add(&arrivals, 3, 2, 10));
    EXPECT_FALSE(dt_arrivals_add(&arrivals, 3, 2, 10));
    EXPECT_EQ(10u, arrivals.bytes[3]);
    dt_arrivals_clear(&arrivals);
    EXPECT_EQ(0u, arrivals.seen);
    EXPECT_TRUE(dt_arrivals_add(&arrivals, 3, 2, 7));
    EXPECT_EQ(7u, arrivals.bytes[3]);
}
} // namespace
