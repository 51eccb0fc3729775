// SPDX-License-Identifier: Apache-2.0
#include "failover/switchover/settle.h"

#include "tests/failover/switchover/pair.h"
#include "tests/harness/harness.h"

namespace
{
class Settle : public detour_test::Pair
{
  protected:
    /* Posts this many messages on path 0 and takes the path away before their completions are polled. */
    uint64_t PostAndLosePath(int count)
    {
        const uint64_t first = dt_sender_of(sender)->next;
        for (int i = 0; i < count; i++)
            PostReceive(i);
        for (int i = 0; i < 50; i++)
            Step(); // the clear-to-send rows arrive
        for (int i = 0; i < count; i++) {
            EXPECT_EQ(DT_OK, dt_isend(sender, from + i * kBytes, kBytes, 0, from_memory, &send[i]));
            EXPECT_NE(nullptr, send[i]);
        }
        sender->path[0].state = DT_PATH_NONE;
        dt_connection_choose_path(sender);
        for (int i = 0; i < count; i++)
            EXPECT_EQ(DT_SEND_POSTED, SendSlot(first + i)->state);
        return first;
    }
    /* Puts the path back into use, so that the rest of the test is ordinary traffic. */
    void Restore()
    {
        sender->path[0].state = DT_PATH_UP;
        dt_connection_choose_path(sender);
    }
};

TEST_F(Settle, MessagesThatTheReceiverHasAreComplete)
{
    const uint64_t first = PostAndLosePath(2);
    State(sender, 0)->resume = dt_resume{first + 2, 0, {}};
    const dt_switchover_settled settled = dt_settle(&sender->path[0]);
    EXPECT_EQ(2u, settled.held);
    EXPECT_EQ(0u, settled.again);
    EXPECT_EQ(DT_SEND_DONE, SendSlot(first)->state);
    EXPECT_EQ(DT_SEND_DONE, SendSlot(first + 1)->state);
    Restore();
    Finish();
    EXPECT_EQ(0, memcmp(from, to, 2 * kBytes));
}

TEST_F(Settle, OfMessagesWithAGapOnlyTheMissingOneIsPostedAgain)
{
    const uint64_t first = PostAndLosePath(3);
    State(sender, 0)->resume = dt_resume{first + 1, 0, {}};
    dt_resume_add(&State(sender, 0)->resume, first + 2);
    const dt_switchover_settled settled = dt_settle(&sender->path[0]);
    EXPECT_EQ(2u, settled.held);
    EXPECT_EQ(1u, settled.again);
    EXPECT_EQ(DT_SEND_DONE, SendSlot(first)->state);
    EXPECT_EQ(DT_SEND_POSTED, SendSlot(first + 1)->state);
    EXPECT_EQ(1u, SendSlot(first + 1)->path) << "on the other path";
    EXPECT_EQ(DT_SEND_DONE, SendSlot(first + 2)->state);
    Restore();
}

TEST_F(Settle, WithoutAPathMessagesStayReadyAndAreCounted)
{
    const uint64_t first = PostAndLosePath(1);
    sender->path[1].state = DT_PATH_NONE;
    dt_connection_choose_path(sender);
    State(sender, 0)->resume = dt_resume{first, 0, {}};
    const dt_switchover_settled settled = dt_settle(&sender->path[0]);
    EXPECT_EQ(1u, settled.again);
    EXPECT_EQ(DT_SEND_READY, SendSlot(first)->state);
    EXPECT_EQ(1u, dt_sender_of(sender)->again);
    sender->path[1].state = DT_PATH_UP;
    dt_connection_choose_path(sender);
    sender->ops->post_again(sender);
    EXPECT_EQ(0u, dt_sender_of(sender)->again);
    EXPECT_EQ(DT_SEND_POSTED, SendSlot(first)->state);
    Restore();
}

TEST_F(Settle, AMessageOfAnotherEpochIsNotTouched)
{
    const uint64_t first = PostAndLosePath(1);
    SendSlot(first)->epoch = 7;
    State(sender, 0)->resume = dt_resume{first, 0, {}};
    const dt_switchover_settled settled = dt_settle(&sender->path[0]);
    EXPECT_EQ(0u, settled.held + settled.again);
    EXPECT_EQ(DT_SEND_POSTED, SendSlot(first)->state);
    SendSlot(first)->epoch = sender->path[0].epoch;
    Restore();
    Finish();
}

/* The peer's CLOSE completes a message before its completions; an invalid peer denies the message afterwards.
 */
TEST_F(Settle, AMessageThatCloseCompletedAndResumeDeniesIsPostedAgain)
{
    const uint64_t first = PostAndLosePath(1);
    sender->ops->peer_closed(sender, first + 1);
    EXPECT_EQ(DT_SEND_DONE, SendSlot(first)->state);
    EXPECT_GT(SendSlot(first)->qps_left, 0u);
    State(sender, 0)->resume = dt_resume{first, 0, {}};
    const dt_switchover_settled settled = dt_settle(&sender->path[0]);
    EXPECT_EQ(1u, settled.again);
    EXPECT_EQ(DT_SEND_POSTED, SendSlot(first)->state);
    EXPECT_EQ(sender->path[1].qp_count, SendSlot(first)->qps_left);
    EXPECT_EQ(0u, dt_sender_of(sender)->again);
    Restore();
    Finish();
    EXPECT_EQ(0, memcmp(from, to, kBytes));
}

TEST_F(Settle, AReportedMessageThatTheReceiverLacksFailsTheConnection)
{
    const uint64_t last = dt_sender_of(sender)->next - 1; // moved and reported by SetUp
    sender->path[0].state = DT_PATH_NONE;
    dt_connection_choose_path(sender);
    State(sender, 0)->resume = dt_resume{last, 0, {}};
    detour_test::ExpectWarning("was acknowledged by soft0, which failed before the receiver could see it");
    dt_settle(&sender->path[0]);
    EXPECT_EQ(static_cast<uint32_t>(DT_PEER_ERROR), sender->failing);
    Restore();
}
} // namespace
