/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include "failover/stall.h"

namespace
{
const uint64_t kLimit = 500;

TEST(Stall, NeedsWorkThatMakesNoProgress)
{
    dt_stall stall = {};
    EXPECT_FALSE(dt_stall_look(&stall, 0, kLimit, 10000)) << "no work";
    EXPECT_FALSE(dt_stall_look(&stall, 7, kLimit, 20000)) << "the clock starts with the work";
    EXPECT_FALSE(dt_stall_look(&stall, 7, kLimit, 20499));
    EXPECT_TRUE(dt_stall_look(&stall, 7, kLimit, 20500));
    EXPECT_FALSE(dt_stall_look(&stall, 8, kLimit, 20600)) << "and anew with each progress";
    EXPECT_FALSE(dt_stall_look(&stall, 8, kLimit, 21099));
    EXPECT_TRUE(dt_stall_look(&stall, 8, kLimit, 21100));
}

TEST(Stall, FailsOnlyAgainstAPathThatAnswers)
{
    dt_stall one = {}, other = {};
    dt_stall_ask(&one, 1000);
    dt_stall_ask(&other, 1000);
    EXPECT_FALSE(dt_stall_has_failed(&one, &other, kLimit, 100000)) << "both are silent: the peer is busy";
    dt_stall_answer(&other);
    EXPECT_FALSE(dt_stall_has_failed(&one, &other, kLimit, 1499)) << "it has its time";
    EXPECT_TRUE(dt_stall_has_failed(&one, &other, kLimit, 1500));
    EXPECT_FALSE(dt_stall_has_failed(&other, &one, kLimit, 1500));
    dt_stall_answer(&one);
    EXPECT_FALSE(dt_stall_has_failed(&one, &other, kLimit, 1500)) << "slow is not dead";
    dt_stall_refuse(&one);
    EXPECT_TRUE(dt_stall_has_failed(&one, &one, kLimit, 1001)) << "the device says so: no other is needed";
    EXPECT_FALSE(dt_stall_has_failed(&other, &one, kLimit, 1500));
}

TEST(Stall, RestsAfterAQuestion)
{
    dt_stall stall = {};
    dt_stall_look(&stall, 7, kLimit, 1);
    EXPECT_TRUE(dt_stall_look(&stall, 7, kLimit, 501));
    dt_stall_ask(&stall, 501);
    EXPECT_FALSE(dt_stall_look(&stall, 7, kLimit, 5000)) << "asked already";
    dt_stall_rest(&stall, 5000);
    EXPECT_FALSE(dt_stall_look(&stall, 7, kLimit, 5499));
    EXPECT_TRUE(dt_stall_look(&stall, 7, kLimit, 5500));
}
} // namespace
