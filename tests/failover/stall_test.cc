/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include "failover/stall.h"

namespace
{
const uint64_t kLimit = 500;

// The mark of a posted message; 0: no work.
dt_stall_mark Work(uint64_t sequence)
{
    return {sequence ? static_cast<uint32_t>(DT_STALL_SEND) : static_cast<uint32_t>(DT_STALL_NONE), 1,
            sequence};
}

TEST(Stall, AnyMemberOfTheMarkIsProgress)
{
    const dt_stall_mark mark = {DT_STALL_SEND, 2, uint64_t{7} << 32};
    dt_stall_mark other = mark;
    EXPECT_TRUE(dt_stall_is_same(&mark, &other));
    other.progress = 1;
    EXPECT_FALSE(dt_stall_is_same(&mark, &other)) << "a queue pair less";
    other = mark;
    other.sequence = uint64_t{8} << 32; // the same low 32 bits
    EXPECT_FALSE(dt_stall_is_same(&mark, &other)) << "another message";
    other = mark;
    other.work = DT_STALL_AWAIT_CTS;
    EXPECT_FALSE(dt_stall_is_same(&mark, &other)) << "the same message, not posted";
}

TEST(Stall, KnownWorkThatIsNotReportedIsSwallowed)
{
    dt_stall stall = {};
    dt_stall_known_done(&stall, 1);
    EXPECT_FALSE(dt_stall_is_silent(&stall, kLimit, 10000)) << "no work";
    dt_stall_observe(&stall, Work(7), kLimit, 20000);
    EXPECT_FALSE(dt_stall_is_silent(&stall, kLimit, 30000)) << "not known";
    dt_stall_known_done(&stall, 30000);
    EXPECT_FALSE(dt_stall_is_silent(&stall, kLimit, 30499));
    dt_stall_known_done(&stall, 30400);
    EXPECT_TRUE(dt_stall_is_silent(&stall, kLimit, 30500)) << "a repeated report changes nothing";
    dt_stall_observe(&stall, Work(8), kLimit, 30500);
    EXPECT_FALSE(dt_stall_is_silent(&stall, kLimit, 40000)) << "that work was reported";
}

TEST(Stall, TheDeviceIsAskedOnceForEachProbeThatWasAnswered)
{
    dt_stall stall = {};
    EXPECT_FALSE(dt_stall_needs_query(&stall)) << "no work";
    dt_stall_observe(&stall, Work(7), kLimit, 1);
    EXPECT_FALSE(dt_stall_needs_query(&stall)) << "no probe";
    dt_stall_probe_sent(&stall, 501);
    EXPECT_FALSE(dt_stall_needs_query(&stall)) << "not known whether the device lives";
    dt_stall_probe_answered(&stall);
    EXPECT_TRUE(dt_stall_needs_query(&stall));
    dt_stall_query_sent(&stall);
    EXPECT_FALSE(dt_stall_needs_query(&stall)) << "it was";
    dt_stall_restart(&stall, 1001);
    EXPECT_FALSE(dt_stall_needs_query(&stall)) << "the question is over";
    dt_stall_probe_sent(&stall, 1501);
    EXPECT_FALSE(dt_stall_needs_query(&stall)) << "the answer was to the last probe";
    dt_stall_probe_answered(&stall);
    EXPECT_TRUE(dt_stall_needs_query(&stall));
}

TEST(Stall, WorkThatTheDeviceGaveUpHasStoppedUnlessItWasReported)
{
    dt_stall stall = {};
    EXPECT_FALSE(dt_stall_has_stopped(&stall)) << "no work";
    dt_stall_observe(&stall, Work(7), kLimit, 1);
    dt_stall_query_sent(&stall);
    EXPECT_FALSE(dt_stall_has_stopped(&stall)) << "it was only asked";
    dt_stall_known_stopped(&stall);
    EXPECT_TRUE(dt_stall_has_stopped(&stall));
    dt_stall_restart(&stall, 1000);
    EXPECT_TRUE(dt_stall_has_stopped(&stall)) << "however long ago";
    dt_stall_observe(&stall, Work(8), kLimit, 1001);
    EXPECT_FALSE(dt_stall_has_stopped(&stall)) << "that work was reported";
    dt_stall_observe(&stall, Work(0), kLimit, 1002);
    EXPECT_FALSE(dt_stall_has_stopped(&stall)) << "and there is no other";

    dt_stall_observe(&stall, Work(9), kLimit, 2000);
    dt_stall_query_sent(&stall);
    dt_stall_observe(&stall, Work(10), kLimit, 2001);
    dt_stall_known_stopped(&stall);
    EXPECT_FALSE(dt_stall_has_stopped(&stall)) << "the answer is about work that was reported meanwhile";
}

TEST(Stall, NeedsWorkThatMakesNoProgress)
{
    dt_stall stall = {};
    EXPECT_FALSE(dt_stall_observe(&stall, Work(0), kLimit, 10000)) << "no work";
    EXPECT_FALSE(dt_stall_observe(&stall, Work(7), kLimit, 20000)) << "the clock starts with the work";
    EXPECT_FALSE(dt_stall_observe(&stall, Work(7), kLimit, 20499));
    EXPECT_TRUE(dt_stall_observe(&stall, Work(7), kLimit, 20500));
    EXPECT_FALSE(dt_stall_observe(&stall, Work(8), kLimit, 20600)) << "and anew with each progress";
    EXPECT_FALSE(dt_stall_observe(&stall, Work(8), kLimit, 21099));
    EXPECT_TRUE(dt_stall_observe(&stall, Work(8), kLimit, 21100));
}

TEST(Stall, FailsOnlyAgainstAPathThatAnswers)
{
    dt_stall one = {}, other = {};
    dt_stall_probe_sent(&one, 1000);
    dt_stall_probe_sent(&other, 1000);
    EXPECT_FALSE(dt_stall_has_failed(&one, &other, kLimit, 100000)) << "both are silent: the peer is busy";
    dt_stall_probe_answered(&other);
    EXPECT_FALSE(dt_stall_has_failed(&one, &other, kLimit, 1499)) << "it has its time";
    EXPECT_TRUE(dt_stall_has_failed(&one, &other, kLimit, 1500));
    EXPECT_FALSE(dt_stall_has_failed(&other, &one, kLimit, 1500));
    dt_stall_probe_answered(&one);
    EXPECT_FALSE(dt_stall_has_failed(&one, &other, kLimit, 1500)) << "slow is not dead";
    dt_stall_probe_failed(&one);
    EXPECT_TRUE(dt_stall_has_failed(&one, &one, kLimit, 1001))
        << "the device reports it: no other fact is needed";
    EXPECT_FALSE(dt_stall_has_failed(&other, &one, kLimit, 1500));
}

TEST(Stall, RestsAfterAQuestion)
{
    dt_stall stall = {};
    dt_stall_observe(&stall, Work(7), kLimit, 1);
    EXPECT_TRUE(dt_stall_observe(&stall, Work(7), kLimit, 501));
    dt_stall_probe_sent(&stall, 501);
    EXPECT_FALSE(dt_stall_observe(&stall, Work(7), kLimit, 5000)) << "asked already";
    dt_stall_restart(&stall, 5000);
    EXPECT_FALSE(dt_stall_observe(&stall, Work(7), kLimit, 5499));
    EXPECT_TRUE(dt_stall_observe(&stall, Work(7), kLimit, 5500));
}
} // namespace
