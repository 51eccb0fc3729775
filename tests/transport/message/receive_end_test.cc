/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/receive_end.h"

#include "tests/transport/message/ends.h"

namespace
{
class ReceiveEnd : public detour_test::Ends
{
};

TEST_F(ReceiveEnd, ASenderThatClosedWithMessagesToSendFailsTheConnection)
{
    ASSERT_NE(nullptr, Irecv(100));
    ASSERT_NE(nullptr, Irecv(100, 0, 100));
    EXPECT_TRUE(dt_receiver_needs_peer(receiver));
    EXPECT_EQ(0u, dt_receiver_close_sequence(receiver));
    detour_test::ExpectWarning("the sender closed with 1 messages outstanding");
    dt_receiver_peer_closed(receiver, 1);
    EXPECT_EQ(DT_PEER_ERROR, (int)receiver->failing);
    EXPECT_TRUE(receiver->path[1].is_polled);
}

TEST_F(ReceiveEnd, ASenderThatClosedWhenAllHadBeenSentFailsNothing)
{
    ASSERT_NE(nullptr, Irecv(100));
    dt_receiver_peer_closed(receiver, 1);
    EXPECT_EQ(DT_OK, (int)receiver->failing);
    dt_receiver_slot(r, 0)->source = DT_PAYLOAD_IN_PLACE;
    EXPECT_FALSE(dt_receiver_needs_peer(receiver));
    dt_receiver_peer_closed(receiver, 0);
    EXPECT_EQ(DT_OK, (int)receiver->failing);
    EXPECT_EQ(1u, dt_receiver_close_sequence(receiver));
}

TEST_F(ReceiveEnd, AMessageThatWasAcknowledgedAndNeverArrivedFailsTheConnection)
{
    ASSERT_NE(nullptr, Irecv(100));
    receiver->peer_close_sequence = 0;
    dt_receiver_peer_drained(receiver);
    EXPECT_EQ(DT_OK, (int)receiver->failing);
    receiver->peer_close_sequence = 1;
    detour_test::ExpectWarning("message 0 was acknowledged, and the sender has closed, but it never came");
    dt_receiver_peer_drained(receiver);
    EXPECT_EQ(DT_PEER_ERROR, (int)receiver->failing);
}

TEST_F(ReceiveEnd, CountsTheRowsToBePublishedAgain)
{
    ASSERT_NE(nullptr, Irecv(100));
    EXPECT_EQ(0u, dt_receiver_count_again(receiver));
    dt_receiver_slot(r, 0)->is_unpublished = true;
    r->again = 1;
    EXPECT_EQ(1u, dt_receiver_count_again(receiver));
    EXPECT_EQ(0u, dt_receiver_post_again(receiver));
    EXPECT_EQ(0u, dt_receiver_count_again(receiver));
}
} // namespace
