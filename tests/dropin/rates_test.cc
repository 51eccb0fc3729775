// SPDX-License-Identifier: Apache-2.0
// Link rates: both tables of the library agree with each other, and unknown rates have no value.
#include <infiniband/verbs.h>

#include <gtest/gtest.h>

namespace
{
TEST(Rates, EveryRateThatHasAMultiplierComesBackFromIt)
{
    int known = 0;

    for (int rate = IBV_RATE_2_5_GBPS; rate <= IBV_RATE_1200_GBPS; rate++) {
        int mult = ibv_rate_to_mult(static_cast<ibv_rate>(rate));
        if (mult < 0)
            continue;
        EXPECT_EQ(rate, mult_to_ibv_rate(mult)) << rate;
        known++;
    }
    EXPECT_EQ(15, known);
}

TEST(Rates, EveryRateComesBackFromItsMegabits)
{
    int known = 0;

    for (int rate = IBV_RATE_2_5_GBPS; rate <= IBV_RATE_1200_GBPS; rate++) {
        int mbps = ibv_rate_to_mbps(static_cast<ibv_rate>(rate));
        if (mbps < 0)
            continue;
        EXPECT_EQ(rate, mbps_to_ibv_rate(mbps)) << rate;
        known++;
    }
    EXPECT_EQ(23, known);
    EXPECT_EQ(103125, ibv_rate_to_mbps(IBV_RATE_100_GBPS)) << "EDR: 4 lanes of 25.78125";
    EXPECT_EQ(IBV_RATE_10_GBPS, mult_to_ibv_rate(4));
}

TEST(Rates, UnknownRatesHaveNoValue)
{
    EXPECT_EQ(-1, ibv_rate_to_mult(IBV_RATE_MAX));
    EXPECT_EQ(-1, ibv_rate_to_mbps(IBV_RATE_MAX));
    EXPECT_EQ(IBV_RATE_MAX, mult_to_ibv_rate(3));
    EXPECT_EQ(IBV_RATE_MAX, mbps_to_ibv_rate(1));
    EXPECT_EQ(-1, ibv_rate_to_mult(IBV_RATE_14_GBPS)) << "FDR has no multiple of 2.5 Gbit/s";
}
} // namespace
