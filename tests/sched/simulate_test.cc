// SPDX-License-Identifier: Apache-2.0
#include "tests/sched/sched_test.h"

using namespace sched_test;

TEST(Simulate, OneStageIsASum)
{
    Arena arena;
    Profile profile = Profile::Uniform(1, 2, 3, 5, 7);
    struct detour_schedule *schedule = Schedule(arena, profile, {"F0 F1 B0 BW1 W0"});
    EXPECT_EQ(Makespan(profile, schedule), 3 + 3 + 5 + 12 + 7);
    EXPECT_EQ(schedule->ops[3].start_ns, 11);
    EXPECT_EQ(schedule->ops[3].finish_ns, 23);
}

TEST(Simulate, MessagesTakeLatencyAndGoOneAtATime)
{
    Arena arena;
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    profile.links[0] = {4, 6, 0, 0};
    /* F0 0-10, F1 10-20; stage 1: F0 14-24, F1 24-34, B0 34-44, B1 44-54; back: B0 50-60, B1 60-70 */
    struct detour_schedule *schedule = Schedule(arena, profile, {"F0 F1 B0 B1 W0 W1", "F0 F1 B0 B1 W0 W1"});
    EXPECT_EQ(Makespan(profile, schedule), 90);
    EXPECT_EQ(schedule->ops[2].start_ns, 50);
    /* Each message occupies the link for 15 on top: F0 arrives at 29, F1 at max(20, 25) + 15 + 4 = 44. */
    profile.links[0].forward_serial_ns = 15;
    EXPECT_EQ(Makespan(profile, schedule), 54 + 10 + 10 + 6 + 10 + 20);
    EXPECT_EQ(schedule->ops[6].start_ns, 29);
    EXPECT_EQ(schedule->ops[7].start_ns, 44);
}

TEST(Simulate, NothingIsSentInsideADevice)
{
    Arena arena;
    Profile profile = Profile::Uniform(2, 1, 10, 10, 10);
    profile.Delay(0, 1000);
    profile.stages[1].device = 0;
    EXPECT_EQ(Makespan(profile, Schedule(arena, profile, {"F0@0 F0@1 B0@1 B0@0 W0@0 W0@1"})), 60);
}

TEST(Simulate, ReportsBubblesPeaksAndWarmup)
{
    Arena arena;
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    for (struct detour_stage &stage : profile.stages) {
        stage.bytes_f = 100;
        stage.bytes_w = 30;
    }
    struct detour_schedule *schedule = Schedule(arena, profile, {"F0 F1 B0 W0 B1 W1", "F0 B0 F1 B1 W0 W1"});
    struct detour_report *report = nullptr;
    struct detour_error error = {};
    ASSERT_EQ(detour_simulate(arena, profile.get(), schedule, &report, &error), DETOUR_OK) << error.text;
    /* device 0: F 0-20, B0 30-40, W0 40-50, B1 50-60, W1 60-70; device 1: 10-70 without a gap */
    EXPECT_EQ(report->makespan_ns, 70);
    EXPECT_EQ(report->longest_span_ns, 70);
    EXPECT_EQ(report->longest_span_device, 0);
    EXPECT_EQ(report->devices[0].idle_ns, 10);
    EXPECT_EQ(report->devices[1].idle_ns, 0);
    EXPECT_EQ(report->devices[1].first_start_ns, 10);
    EXPECT_EQ(report->devices[1].busy_ns, 60);
    EXPECT_DOUBLE_EQ(report->bubble_ratio_makespan, 1 - 120.0 / 140.0);
    EXPECT_DOUBLE_EQ(report->bubble_ratio_span, 1 - 60.0 / 70.0);
    EXPECT_EQ(report->devices[0].peak_bytes, 200);
    EXPECT_EQ(report->devices[1].peak_bytes, 130);
    EXPECT_EQ(report->stages[0].warmup, 2);
    EXPECT_EQ(report->stages[1].warmup, 1);
    EXPECT_EQ(report->stages[0].peak_inflight, 2);
    EXPECT_EQ(report->stages[1].peak_inflight, 1);
    profile.release = DETOUR_RELEASE_W;
    ASSERT_EQ(detour_simulate(arena, profile.get(), schedule, &report, &error), DETOUR_OK);
    EXPECT_EQ(report->stages[1].peak_inflight, 2);
    /* forward: F0 waits for nothing else; F1 has been there for 10; backward: B0 and B1 arrive as they start
     * or before */
    EXPECT_EQ(report->links[0].forward_local_slack_ns, 0);
    EXPECT_EQ(report->links[0].forward_total_slack_ns, 0);
    EXPECT_EQ(report->links[0].backward_local_slack_ns, 0);
}

TEST(Simulate, NamesTheCycleOfADeadlock)
{
    Arena arena;
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    struct detour_error error = {};
    struct detour_schedule *schedule = Schedule(arena, profile, {"F0 BW0 F1 BW1", "F0 F1 BW0 BW1"});
    EXPECT_EQ(detour_simulate(arena, profile.get(), schedule, nullptr, &error), DETOUR_DEADLOCK);
    EXPECT_STREQ(
        error.text,
        "deadlock: device 0, position 1: BW of microbatch 0 on stage 0 waits for BW of microbatch 0 on "
        "stage 1; device 1, position 1: F of microbatch 1 on stage 1 waits for F of microbatch 1 on "
        "stage 0; the last of these follows the first");
}
