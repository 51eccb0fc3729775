/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/connection.h"

#include "tests/transport/message/ends.h"
#include "transport/protocol/work_id.h"

namespace
{
class Connection : public detour_test::Ends
{
  protected:
    dt_completion Failed(uint32_t path, uint32_t status)
    {
        dt_completion completion = {};
        completion.wr_id = sender->path[path].payload_id[0];
        completion.status = status;
        completion.qpn = 17;
        return completion;
    }
};

TEST_F(Connection, NewMessagesTakeTheFirstPathThatIsUp)
{
    EXPECT_TRUE(sender->is_sender);
    EXPECT_FALSE(receiver->is_sender);
    EXPECT_EQ(&sender->path[0], sender->current);
    sender->path[0].state = DT_PATH_NONE;
    dt_connection_choose_path(sender);
    EXPECT_EQ(&sender->path[1], sender->current);
    EXPECT_EQ(1u, sender->meter.row->path_now);
    sender->path[1].state = DT_PATH_NONE;
    dt_connection_choose_path(sender);
    EXPECT_EQ(nullptr, sender->current);
    EXPECT_EQ(UINT32_MAX, sender->meter.row->path_now);
    sender->path[0].state = sender->path[1].state = DT_PATH_UP;
    dt_connection_choose_path(sender);
    EXPECT_EQ(&sender->path[0], sender->current);
}

TEST_F(Connection, AfterASwitchoverAllPathsThatAreUpArePolled)
{
    EXPECT_TRUE(receiver->path[0].is_polled);
    EXPECT_FALSE(receiver->path[1].is_polled);
    receiver->has_switched = true;
    dt_connection_choose_path(receiver);
    EXPECT_TRUE(receiver->path[0].is_polled);
    EXPECT_TRUE(receiver->path[1].is_polled);
    receiver->path[1].state = DT_PATH_NONE;
    dt_connection_choose_path(receiver);
    EXPECT_FALSE(receiver->path[1].is_polled);
    receiver->path[1].state = DT_PATH_UP;
}

TEST_F(Connection, TheFirstFailureCounts)
{
    detour_test::ExpectWarning("first reason 1");
    dt_connection_fail(sender, DT_PEER_ERROR, "first reason %d", 1);
    dt_connection_fail(sender, DT_INVALID, "second reason");
    EXPECT_EQ((uint32_t)DT_PEER_ERROR, sender->failing);
    EXPECT_EQ(1u, detour_test::WarningCount());
    EXPECT_EQ(DT_AGAIN, dt_connection_check(sender)) << "the queue pairs are not fenced yet";
    EXPECT_TRUE(Until([&] { return dt_connection_check(sender) == DT_PEER_ERROR; }));
}

TEST_F(Connection, ARefusedPathIsPutAsideOnce)
{
    dt_connection_path_refused(sender, &sender->path[0], "refused a write");
    EXPECT_EQ((uint32_t)DT_PATH_NONE, sender->path[0].state);
    EXPECT_STREQ("refused a write", sender->path[0].refusal);
    EXPECT_EQ(&sender->path[1], sender->current);
    EXPECT_TRUE(sender->has_switched);
    EXPECT_EQ(1u << DT_FAULT_REFUSED, sender->faults);
    dt_connection_path_refused(sender, &sender->path[0], "refused another");
    EXPECT_STREQ("refused a write", sender->path[0].refusal);
    EXPECT_EQ((uint32_t)DT_OK, sender->failing);
}

TEST_F(Connection, ATransportErrorPutsThePathAside)
{
    dt_completion completion = Failed(1, DT_WC_RETRY_EXCEEDED);
    dt_connection_path_failed(sender, &sender->path[1], &completion);
    EXPECT_EQ((uint32_t)DT_PATH_NONE, sender->path[1].state);
    EXPECT_EQ(&sender->path[0], sender->current);
    EXPECT_EQ(1u << (DT_FAULT_COMPLETION + 1), sender->faults);
    EXPECT_EQ(17u, sender->path[1].bad_completion.qpn);
    EXPECT_EQ(1u, sender->meter.row->error_count);
    dt_connection_path_failed(sender, &sender->path[1], &completion);
    EXPECT_EQ(1u, sender->meter.row->error_count) << "of one failure the first completion counts";
    EXPECT_EQ((uint32_t)DT_OK, sender->failing);
}

TEST_F(Connection, AnErrorThatAnyPathWouldHaveEndsTheConnection)
{
    dt_completion completion = Failed(0, DT_WC_REMOTE_ACCESS);
    detour_test::ExpectWarning("another path would fail the same way");
    dt_connection_path_failed(sender, &sender->path[0], &completion);
    EXPECT_EQ((uint32_t)DT_PEER_ERROR, sender->failing);
    EXPECT_EQ((uint32_t)DT_PATH_UP, sender->path[0].state);
    EXPECT_EQ(0u, sender->faults);
}

TEST_F(Connection, DrainEndsWithTheFirstRoundThatCompletesNothing)
{
    static uint32_t rounds;
    const dt_end_ops *real = sender->ops;
    dt_end_ops ops = *real;
    rounds = 0;
    ops.progress = [](dt_connection *c) {
        if (rounds++ < 3)
            dt_count(&c->completions, 1);
    };
    sender->ops = &ops;
    dt_connection_drain(sender);
    EXPECT_EQ(4u, rounds);
    dt_connection_drain(sender);
    EXPECT_EQ(5u, rounds);
    sender->ops = real;
}

TEST_F(Connection, ANoticeIsAttendedToOnce)
{
    EXPECT_EQ(DT_OK, dt_connection_check(sender));
    sender->peer_close_sequence = 0;
    dt_connection_notify(sender, DT_NOTICE_PEER_CLOSED);
    EXPECT_EQ(DT_OK, dt_connection_check(sender));
    EXPECT_EQ((uint32_t)DT_NOTICE_PEER_CLOSED, sender->attended);
    EXPECT_EQ(sender->notices, sender->attended);
}

TEST_F(Connection, ALostPeerEndsOnlyAConnectionThatNeedsIt)
{
    dt_connection_notify(sender, DT_NOTICE_PEER_LOST);
    EXPECT_EQ(DT_OK, dt_connection_check(sender));
    ASSERT_NE(nullptr, Irecv(100));
    detour_test::ExpectWarning("the peer is dead");
    dt_connection_notify(receiver, DT_NOTICE_PEER_LOST);
    EXPECT_EQ(DT_AGAIN, dt_connection_check(receiver));
    EXPECT_EQ((uint32_t)DT_PEER_ERROR, receiver->failing);
}

TEST_F(Connection, APeerThatBreaksTheProtocolEndsIt)
{
    detour_test::ExpectWarning("control channel");
    dt_connection_notify(sender, DT_NOTICE_PEER_BROKEN);
    EXPECT_EQ(DT_AGAIN, dt_connection_check(sender));
    EXPECT_EQ((uint32_t)DT_PROTOCOL, sender->failing);
}

TEST_F(Connection, AnAbandonedConnectionIsClosedInAnyState)
{
    detour_test::ExpectWarning("reason");
    dt_connection_fail(sender, DT_PEER_ERROR, "reason");
    dt_connection_notify(sender, DT_NOTICE_ABANDONED);
    EXPECT_EQ(DT_CLOSED, dt_connection_check(sender));
}

TEST_F(Connection, PostingAgainIsAttendedToUntilNoneIsLeft)
{
    dt_connection_notify(sender, DT_NOTICE_AGAIN);
    EXPECT_EQ(DT_OK, dt_connection_check(sender));
    EXPECT_EQ(0u, sender->notices & DT_NOTICE_AGAIN);
    EXPECT_EQ(0u, sender->attended & DT_NOTICE_AGAIN);
}

TEST_F(Connection, OperationsOfAnEndWithoutThemAnswerNothing)
{
    dt_frame frame = {};
    EXPECT_EQ(DT_PROTOCOL, dt_end_no_frame(sender, &frame));
    EXPECT_EQ(0u, dt_end_undelivered_none(sender));
    EXPECT_FALSE(dt_end_never(sender));
}
} // namespace
