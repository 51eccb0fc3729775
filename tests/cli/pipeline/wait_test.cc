// SPDX-License-Identifier: Apache-2.0
// A wait ends no earlier than its computation is due, or the next poll.
#include "cli/pipeline/wait.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace
{
class Wait : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        dt_delay_timer_init(&timer);
    }

    dt_delay_timer timer = {};
};

TEST_F(Wait, EndsWhenTheComputationIsDue)
{
    uint64_t now_ns = dt_clock_now_ns(), due_ns = now_ns + 100 * DT_NS_PER_US;
    dt_pipeline_wait(&timer, due_ns, now_ns);
    EXPECT_GE(dt_clock_now_ns(), due_ns);
}

TEST_F(Wait, PollsWhileNothingIsDue)
{
    uint64_t now_ns = dt_clock_now_ns();
    dt_pipeline_wait(&timer, DT_NEVER_NS, now_ns);
    EXPECT_GE(dt_clock_now_ns(), now_ns + DT_PIPELINE_POLL_US * DT_NS_PER_US);
}

TEST_F(Wait, IsNoneForWhatIsDueAlready)
{
    uint64_t now_ns = dt_clock_now_ns();
    dt_pipeline_wait(&timer, now_ns - 1, now_ns);
    EXPECT_GE(dt_clock_now_ns(), now_ns);
}
} // namespace
