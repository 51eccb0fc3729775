// SPDX-License-Identifier: Apache-2.0
#include "failover/switchover/report.h"

#include "tests/failover/switchover/pair.h"

namespace
{
class Report : public detour_test::Pair
{
  protected:
    dt_switchover_report *Of(dt_path *path)
    {
        return &State(path->connection, path->index)->report;
    }
    /* A switchover whose steps took these microseconds. */
    void Switch(dt_path *path, uint64_t fenced_us, uint64_t resumed_us)
    {
        detected_ns = now_ns;
        snprintf(State(path->connection, path->index)->why, DT_WHY_BYTES, "the test's reason");
        dt_switchover_report_begin(path, now_ns);
        Of(path)->steps.fenced_ns = now_ns + fenced_us * DT_NS_PER_US;
        now_ns += resumed_us * DT_NS_PER_US;
        Of(path)->steps.agreed_ns = now_ns;
        dt_switchover_report_resumed(path, now_ns, {3, 2, DT_SWITCHOVER_BY_REPOST});
    }
    uint64_t detected_ns = 0;
};

TEST_F(Report, IsOneLineWithEveryStepOnceTheFirstCompletionIsKnown)
{
    dt_path *path = &sender->path[0];
    uint32_t lines_left = 16;
    Switch(path, 100, 250);
    dt_store_release(&sender->open_requests, 1u);
    dt_switchover_report_progress(path, now_ns, &lines_left);
    EXPECT_EQ(0, CountLines("is settled")) << "no completion yet";
    dt_store_release(&sender->completions, sender->completions + 1);
    dt_switchover_report_progress(path, now_ns + 50 * DT_NS_PER_US, &lines_left);
    EXPECT_EQ(15u, lines_left);
    EXPECT_EQ(
        1,
        CountLines("epoch 0 is settled: the test's reason; 2 messages again over soft0 (repost), 3 had "
                   "arrived; fenced after 100 us (unproven), agreed after 250 us, posted again after 250 us, "
                   "first completion after 300 us, 300 us in all; the path is UP"));
    dt_switchover_report_progress(path, now_ns + DT_NS_PER_S, &lines_left);
    EXPECT_EQ(1, CountLines("is settled")) << "once";
    dt_store_release(&sender->open_requests, 0u);
}

TEST_F(Report, WaitsForALineThatIsLeft)
{
    dt_path *path = &sender->path[0];
    uint32_t none = 0, one = 1;
    Switch(path, 10, 20);
    dt_switchover_report_progress(path, now_ns, &none); // no request is open: it is due
    EXPECT_TRUE(Of(path)->is_pending);
    dt_switchover_report_progress(path, now_ns, &one);
    EXPECT_FALSE(Of(path)->is_pending);
    EXPECT_EQ(0u, one);
}

TEST_F(Report, IsWrittenAfterASecondWithoutACompletionAndAtTheEnd)
{
    dt_path *path = &receiver->path[0];
    uint32_t lines_left = 16;
    dt_store_release(&receiver->open_requests, 1u);
    Switch(path, 10, 20);
    dt_switchover_report_progress(path, now_ns + DT_NS_PER_S - 1, &lines_left);
    EXPECT_TRUE(Of(path)->is_pending);
    dt_switchover_report_progress(path, now_ns + DT_NS_PER_S, &lines_left);
    EXPECT_EQ(1, CountLines("epoch 0 is fenced: the test's reason; 2 open receives go over"));
    Switch(path, 10, 20);
    dt_switchover_report_end(path);
    EXPECT_EQ(2, CountLines("epoch 0 is fenced"));
    dt_switchover_report_end(path);
    EXPECT_EQ(2, CountLines("epoch 0 is fenced")) << "nothing is pending";
    dt_store_release(&receiver->open_requests, 0u);
}

TEST_F(Report, IsAwaitedFromTheDetectionToTheSettlingAndNotForever)
{
    dt_path *path = &sender->path[0];
    dt_switchover_report_begin(path, now_ns);
    EXPECT_TRUE(dt_switchover_report_is_awaited(path, now_ns));
    EXPECT_TRUE(dt_switchover_report_is_awaited(path, now_ns + 99 * DT_NS_PER_MS));
    EXPECT_FALSE(dt_switchover_report_is_awaited(path, now_ns + 100 * DT_NS_PER_MS));
    dt_switchover_report_resumed(path, now_ns + DT_NS_PER_US, {0, 0, 0});
    EXPECT_FALSE(dt_switchover_report_is_awaited(path, now_ns + DT_NS_PER_US));
    EXPECT_GE(dt_switchover_report_deadline_ns(path, now_ns + DT_NS_PER_US), now_ns + 21 * DT_NS_PER_US);
    dt_switchover_report_end(path);
    EXPECT_EQ(DT_NEVER_NS, dt_switchover_report_deadline_ns(path, now_ns));
}
} // namespace
