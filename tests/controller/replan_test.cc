// SPDX-License-Identifier: Apache-2.0
/* The rules of the re-plan by themselves; decide_test.cc has them among the other measures. */
#include "controller/replan.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/clock.h"

namespace
{
const uint64_t kMs = DT_NS_PER_MS;

class Replan : public ::testing::Test
{
  protected:
    void Slow(std::vector<int64_t> delays_ms)
    {
        slow.clear();
        for (uint32_t i = 0; i < delays_ms.size(); i++)
            slow.push_back({i, i + 1, 2.0, (uint64_t)delays_ms[i] * kMs, 1});
    }
    bool Decide(uint64_t now_ms)
    {
        dt_finding finding = {};

        finding.number = 1;
        finding.kind = DT_FINDING_LINK;
        finding.state = DT_FINDING_GOES_ON;
        const dt_situation situation = {&finding, 1, slow.data(), slow.size(), nullptr, 0, job_starts};
        return dt_replan_decide(&replan, &options, &situation, now_ms * kMs, &decision);
    }

    dt_decide_options options = dt_decide_defaults();
    dt_replan replan = {};
    dt_decision decision = {};
    std::vector<dt_slow_link> slow;
    uint32_t job_starts = 0;
};

TEST_F(Replan, AChangeOfLessThanAFifthOfTheLargestDelayIsNone)
{
    Slow({20, 10});
    EXPECT_FALSE(Decide(0));
    EXPECT_TRUE(Decide(300));
    EXPECT_EQ(decision.link_count, 2u);
    Slow({23, 13});
    EXPECT_FALSE(Decide(5000));
    EXPECT_FALSE(Decide(9000));
    Slow({20, 15});
    EXPECT_FALSE(Decide(10000));
    EXPECT_TRUE(Decide(10300));
    EXPECT_EQ(decision.links[1].delay_ns, 15 * (int64_t)kMs);
}

TEST_F(Replan, AJobThatStartsAgainGetsTheOneInForceAtOnce)
{
    Slow({20});
    job_starts = 1;
    Decide(0);
    ASSERT_TRUE(Decide(300));
    job_starts = 2;
    EXPECT_TRUE(Decide(400));
    EXPECT_STREQ(decision.reason, "the job has started again: the re-plan in force");
    EXPECT_FALSE(Decide(500));
}

TEST_F(Replan, AnAdoptedOneStaysUntilItsRecheckOnlyIfItWasNotSeen)
{
    dt_decision adopted = {};

    adopted.kind = DT_DECISION_REPLAN;
    adopted.link_count = 1;
    adopted.links[0] = {0, 1, 20 * (int64_t)kMs};
    dt_replan_adopt(&replan, &adopted, dt_unseen_adopt(false, 0, 60000 * kMs), 0);
    EXPECT_FALSE(Decide(10000));
    EXPECT_FALSE(Decide(59000));
    EXPECT_FALSE(Decide(60000));
    EXPECT_TRUE(Decide(65000));
    EXPECT_EQ(decision.link_count, 0u);
    dt_replan_adopt(&replan, &adopted, dt_unseen_adopt(true, 0, 60000 * kMs), 100000 * kMs);
    EXPECT_FALSE(Decide(100000));
    EXPECT_TRUE(Decide(105000));
}
} // namespace
