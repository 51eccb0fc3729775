/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include "failover/stall.h"

namespace
{
const uint64_t kLimit = 500;

TEST(Stall, KnownWorkThatIsNotReportedIsSwallowed)
{
    dt_stall stall = {};
    dt_stall_know(&stall, 1);
    EXPECT_FALSE(dt_stall_is_deaf(&stall, kLimit, 10000)) << "no work";
    dt_stall_look(&stall, 7, kLimit, 20000);
    EXPECT_FALSE(dt_stall_is_deaf(&stall, kLimit, 30000)) << "nobody knows";
    dt_stall_know(&stall, 30000);
    EXPECT_FALSE(dt_stall_is_deaf(&stall, kLimit, 30499));
    dt_stall_know(&stall, 30400);
    EXPECT_TRUE(dt_stall_is_deaf(&stall, kLimit, 30500)) << "to hear it again changes nothing";
    dt_stall_look(&stall, 8, kLimit, 30500);
    EXPECT_FALSE(dt_stall_is_deaf(&stall, kLimit, 40000)) << "that work was reported";
}

TEST(Stall, TheDeviceIsAskedOnceForEachProbeThatWasAnswered)
{
    dt_stall stall = {};
    EXPECT_FALSE(dt_stall_wants_query(&stall)) << "no work";
    dt_stall_look(&stall, 7, kLimit, 1);
    EXPECT_FALSE(dt_stall_wants_query(&stall)) << "no probe";
    dt_stall_ask(&stall, 501);
    EXPECT_FALSE(dt_stall_wants_query(&stall)) << "nobody knows whether the device lives";
    dt_stall_answer(&stall);
    EXPECT_TRUE(dt_stall_wants_query(&stall));
    dt_stall_query(&stall);
    EXPECT_FALSE(dt_stall_wants_query(&stall)) << "it was";
    dt_stall_rest(&stall, 1001);
    EXPECT_FALSE(dt_stall_wants_query(&stall)) << "the question is over";
    dt_stall_ask(&stall, 1501);
    EXPECT_FALSE(dt_stall_wants_query(&stall)) << "the answer was to the last probe";
    dt_stall_answer(&stall);
    EXPECT_TRUE(dt_stall_wants_query(&stall));
}

TEST(Stall, WorkThatTheDeviceGaveUpHasStoppedUnlessItWasReported)
{
    dt_stall stall = {};
    EXPECT_FALSE(dt_stall_has_stopped(&stall)) << "no work";
    dt_stall_look(&stall, 7, kLimit, 1);
    dt_stall_query(&stall);
    EXPECT_FALSE(dt_stall_has_stopped(&stall)) << "it was only asked";
    dt_stall_stop(&stall);
    EXPECT_TRUE(dt_stall_has_stopped(&stall));
    dt_stall_rest(&stall, 1000);
    EXPECT_TRUE(dt_stall_has_stopped(&stall)) << "however long ago";
    dt_stall_look(&stall, 8, kLimit, 1001);
    EXPECT_FALSE(dt_stall_has_stopped(&stall)) << "that work was reported";
    dt_stall_look(&stall, 0, kLimit, 1002);
    EXPECT_FALSE(dt_stall_has_stopped(&stall)) << "and there is no other";

    dt_stall_look(&stall, 9, kLimit, 2000);
    dt_stall_query(&stall);
    dt_stall_look(&stall, 10, kLimit, 2001);
    dt_stall_stop(&stall);
    EXPECT_FALSE(dt_stall_has_stopped(&stall)) << "the answer is about work that was reported meanwhile";
}

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
