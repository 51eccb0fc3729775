// SPDX-License-Identifier: Apache-2.0
// property_test.cc compares the slack of random schedules with late messages, one by one.
#include "sched/slack.h"

#include "sched/simulate.h"
#include "tests/sched/made.h"

using namespace sched_test;

/* Stage 1 does nothing else: its second forward may come late until its turn. */
TEST(Slack, OfAPipelineOfTwoStages)
{
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    profile.stages[1].f_ns = 30;
    Made made(profile);
    struct detour_schedule *s = Schedule(made.arena, profile, {"F0 F1 BW0 BW1", "F0 F1 BW0 BW1"});
    std::vector<int64_t> input(dt_op_index_count(made.p));
    struct detour_link_report link = {};
    struct dt_times times;
    ASSERT_EQ(dt_simulate(&made.call, made.p, s, nullptr, input.data(), &times), DETOUR_OK);
    ASSERT_EQ(dt_slack(&made.call, made.p, s, input.data(), &link), DETOUR_OK);
    // F0 arrives at 10 and is needed at once; F1 arrives at 20 and is needed at 40.
    EXPECT_EQ(link.forward_total_slack_ns, 0);
    // The backwards of stage 1 end at 90 and 110, those of stage 0 follow: nothing may come late.
    EXPECT_EQ(link.backward_total_slack_ns, 0);
    EXPECT_EQ(times.makespan_ns, 130);
}
