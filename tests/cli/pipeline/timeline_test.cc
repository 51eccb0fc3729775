/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/timeline.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "cli/pipeline/plan.h"
#include "job/link.h"
#include "tests/pipeline/virtual_run.h"

namespace
{
/* An iteration on executors in virtual time, whose records have gone through a socket. */
struct Collected {
    struct dt_pipeline_options options = {};
    struct dt_pipeline_plan plan = {};
    struct detour_error error = {};
    struct dt_pipeline_timeline timeline = {};
    struct detour_measured measured = {};

    explicit Collected(enum detour_algorithm algorithm, const char *slow_link = nullptr)
    {
        options.devices = 4;
        options.replicas = 1;
        options.microbatches = 8;
        options.algorithm = algorithm;
        options.f_ns = options.b_ns = options.w_ns = 10000000;
        if (slow_link) {
            EXPECT_TRUE(dt_pipeline_slow_add_link(&options.slow, slow_link));
        }
        EXPECT_TRUE(dt_pipeline_plan_make(&plan, &options, &error)) << error.text;
        EXPECT_TRUE(dt_pipeline_profile_make(&options, 0, 0, &profile));
        struct dt_executor_options made = {};
        made.mode = DT_PIPELINE_DELEGATED;
        made.message_bytes = 4096;
        pipeline_test::VirtualRun run(&profile, made);
        time_ns = run.Run(plan.program);
        for (int32_t d = 0; d < options.devices; d++)
            Send(run[static_cast<size_t>(d)], d);
    }

    ~Collected()
    {
        free(const_cast<struct detour_message *>(measured.messages));
        dt_pipeline_timeline_free(&timeline);
        dt_pipeline_profile_free(&profile);
        dt_pipeline_plan_free(&plan);
    }

    enum detour_status Measure()
    {
        return dt_pipeline_timeline_measure(&timeline, &profile, plan.arena, &measured, &error);
    }

    /* The model's times of the same operations. */
    struct detour_schedule *Simulated()
    {
        EXPECT_EQ(detour_simulate(plan.arena, &profile, plan.schedule, nullptr, &error), DETOUR_OK);
        return plan.schedule;
    }

    struct detour_profile profile = {};
    uint64_t time_ns;

  private:
    void Send(const struct dt_executor *executor, int32_t device)
    {
        struct dt_job_frame frame;
        void *payload = nullptr;
        int fds[2];

        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
        EXPECT_TRUE(dt_pipeline_timeline_send(fds[0], executor, plan.program, device, false));
        ASSERT_TRUE(dt_job_frame_receive(fds[1], &frame, &payload));
        EXPECT_GE(frame.kind, static_cast<uint32_t>(DT_JOB_FRAME_COMMAND));
        EXPECT_TRUE(dt_pipeline_timeline_take(
            &timeline, static_cast<unsigned>(device), payload, frame.bytes,
            dt_pipeline_timeline_records_max(profile.stage_count, profile.microbatch_count)));
        free(payload);
        close(fds[0]);
        close(fds[1]);
    }
};

std::string Frame(uint32_t count, size_t records)
{
    struct dt_pipeline_records_head head = {count, 0, 1};
    std::string frame(sizeof head + records * sizeof(struct dt_pipeline_record), '\0');

    memcpy(&frame[0], &head, sizeof head);
    return frame;
}

bool Take(struct dt_pipeline_timeline *timeline, const std::string &frame, size_t records_max,
          unsigned device = 0)
{
    return dt_pipeline_timeline_take(timeline, device, frame.data(), frame.size(), records_max);
}
} // namespace

/* In virtual time and with prefetched receives a run takes the time of the model, to the nanosecond. */
TEST(PipelineTimeline, OperationsAreAtTheTimesOfTheModel)
{
    for (enum detour_algorithm algorithm :
         {DETOUR_ALGORITHM_1F1B, DETOUR_ALGORITHM_ZB_H1, DETOUR_ALGORITHM_ZB_V}) {
        for (const char *slow : {static_cast<const char *>(nullptr), "1-2=7ms", "2-3=9ms,serial"}) {
            Collected run(algorithm, slow);
            ASSERT_EQ(run.Measure(), DETOUR_OK) << run.error.text;
            const struct detour_schedule *model = run.Simulated(), *found = run.measured.schedule;
            ASSERT_EQ(found->op_count, model->op_count);
            EXPECT_TRUE(found->timed);
            for (size_t i = 0; i < found->op_count; i++) {
                EXPECT_EQ(found->ops[i].start_ns, model->ops[i].start_ns) << i;
                EXPECT_EQ(found->ops[i].finish_ns, model->ops[i].finish_ns) << i;
                EXPECT_EQ(found->ops[i].kind, model->ops[i].kind) << i;
            }
        }
    }
}

TEST(PipelineTimeline, MessagesLeaveWhenMadeAndTakeTheDelay)
{
    Collected run(DETOUR_ALGORITHM_ZB_H1, "2-3=7ms");
    ASSERT_EQ(run.Measure(), DETOUR_OK) << run.error.text;
    EXPECT_EQ(run.measured.message_count, 2u * 3 * 8) << "both directions of three links";
    for (size_t i = 0; i < run.measured.message_count; i++) {
        const struct detour_message &m = run.measured.messages[i];
        bool is_slow = m.from_stage + m.to_stage == 5;
        EXPECT_EQ(m.depart_ns, m.ready_ns);
        EXPECT_EQ(m.arrive_ns - m.depart_ns, is_slow ? 7000000 : 0);
    }
    EXPECT_EQ(detour_validate(run.plan.arena, &run.profile, run.measured.schedule, &run.error), DETOUR_OK)
        << run.error.text;
}

/* A rank on another machine: the difference of the clocks is not in the result. */
TEST(PipelineTimeline, OtherClocksCountFromTheirBegin)
{
    Collected same(DETOUR_ALGORITHM_1F1B), other(DETOUR_ALGORITHM_1F1B);
    struct dt_pipeline_timeline_device &device = other.timeline.devices[2];
    device.has_own_clock = true;
    device.begin_ns += 777777777777;
    for (size_t i = 0; i < device.count; i++) {
        device.records[i].span.start_ns += 777777777777;
        device.records[i].span.end_ns += 777777777777;
    }
    ASSERT_EQ(same.Measure(), DETOUR_OK);
    ASSERT_EQ(other.Measure(), DETOUR_OK);
    for (size_t i = 0; i < same.measured.schedule->op_count; i++)
        EXPECT_EQ(other.measured.schedule->ops[i].start_ns, same.measured.schedule->ops[i].start_ns);
}

/* Ranks do not begin at the same instant: the first one is the origin. */
TEST(PipelineTimeline, TheFirstToBeginIsTheOrigin)
{
    Collected run(DETOUR_ALGORITHM_1F1B);
    run.timeline.devices[1].begin_ns -= 500;
    ASSERT_EQ(run.Measure(), DETOUR_OK);
    EXPECT_EQ(run.measured.schedule->ops[0].start_ns, 500);
}

TEST(PipelineTimeline, RecordsOfAnotherProgramAreRefused)
{
    Collected wrong_stage(DETOUR_ALGORITHM_1F1B), never_sent(DETOUR_ALGORITHM_1F1B);
    wrong_stage.timeline.devices[1].records[0].action.stage = 0;
    EXPECT_EQ(wrong_stage.Measure(), DETOUR_INVALID);
    never_sent.timeline.devices[0].count = 0;
    EXPECT_EQ(never_sent.Measure(), DETOUR_INVALID);
    EXPECT_STREQ(never_sent.error.text, "a device has received a message that none has sent");
}

TEST(PipelineTimeline, FramesAreBounded)
{
    struct dt_pipeline_timeline timeline = {};
    EXPECT_TRUE(Take(&timeline, Frame(3, 3), 5));
    EXPECT_TRUE(Take(&timeline, Frame(2, 2), 5));
    EXPECT_EQ(timeline.devices[0].count, 5u);
    EXPECT_FALSE(Take(&timeline, Frame(1, 1), 5)) << "more than the program has";
    EXPECT_FALSE(Take(&timeline, Frame(2, 1), 100)) << "shorter than it states";
    EXPECT_FALSE(Take(&timeline, Frame(0, 0), 100));
    EXPECT_FALSE(Take(&timeline, "x", 100));
    EXPECT_FALSE(Take(&timeline, Frame(1, 1), 100, DT_PIPELINE_RANKS_MAX));
    dt_pipeline_timeline_free(&timeline);
    EXPECT_EQ(timeline.devices[0].records, nullptr);
}
