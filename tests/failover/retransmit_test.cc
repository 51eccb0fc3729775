/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include "failover/retransmit.h"
#include "failover/resume.h"

namespace
{
TEST(Repeat, StoppedIsNeverDue)
{
    dt_retransmit repeat;
    dt_retransmit_stop(&repeat);
    EXPECT_FALSE(dt_retransmit_due(&repeat, DT_NEVER_NS));
}

TEST(Repeat, ComesLaterAndLaterAndThenSteadily)
{
    dt_retransmit repeat;
    dt_retransmit_start(&repeat, 10);
    uint64_t now_ns = 10 + DT_RETRANSMIT_NS_FIRST, gap_ns = DT_RETRANSMIT_NS_FIRST;
    EXPECT_FALSE(dt_retransmit_due(&repeat, now_ns - 1));
    for (int i = 0; i < 10; i++) {
        ASSERT_TRUE(dt_retransmit_due(&repeat, now_ns));
        EXPECT_FALSE(dt_retransmit_due(&repeat, now_ns));
        gap_ns = std::min<uint64_t>(2 * gap_ns, DT_RETRANSMIT_NS_MAX);
        EXPECT_EQ(now_ns + gap_ns, repeat.next_ns);
        now_ns = repeat.next_ns;
    }
    EXPECT_EQ(DT_RETRANSMIT_NS_MAX, gap_ns);
}

TEST(Repeat, StartsFromTheFirstPauseAgain)
{
    dt_retransmit repeat;
    dt_retransmit_start(&repeat, 0);
    EXPECT_TRUE(dt_retransmit_due(&repeat, DT_NS_PER_S));
    dt_retransmit_start(&repeat, DT_NS_PER_S);
    EXPECT_EQ(DT_NS_PER_S + DT_RETRANSMIT_NS_FIRST, repeat.next_ns);
}

TEST(Resume, HoldsAllBeforeTheFirstAndAllAdded)
{
    dt_resume resume = {1000, 0, {}};
    for (uint64_t sequence : {1000, 1003, 1063, 1064, 999, 5000})
        dt_resume_add(&resume, sequence);
    EXPECT_TRUE(dt_resume_has(&resume, 0));
    EXPECT_TRUE(dt_resume_has(&resume, 999));
    EXPECT_FALSE(dt_resume_has(&resume, 1000)) << "the first that is not complete is not complete";
    EXPECT_FALSE(dt_resume_has(&resume, 1001));
    EXPECT_TRUE(dt_resume_has(&resume, 1003));
    EXPECT_TRUE(dt_resume_has(&resume, 1063));
    EXPECT_FALSE(dt_resume_has(&resume, 1064)) << "beyond what can be open";
    EXPECT_FALSE(dt_resume_has(&resume, 5000));
}
} // namespace
