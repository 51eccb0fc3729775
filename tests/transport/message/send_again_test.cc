/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/send_again.h"

#include "tests/transport/message/ends.h"
#include "transport/message/send.h"

namespace
{
class SendAgain : public detour_test::Ends
{
  protected:
    /* Posted, and its completion not polled yet. */
    dt_send_slot *Posted(uint32_t bytes)
    {
        dt_request *receive = Irecv(bytes);
        EXPECT_NE(nullptr, receive);
        uint64_t sequence = s->next;
        EXPECT_NE(nullptr, SendWhenPossible(bytes));
        return SlotOf(sequence);
    }
};

TEST_F(SendAgain, FindsReadyMessagesInTheirOrder)
{
    dt_send_slot *slots[3];
    uint64_t sequence = dt_sender_first_again(s);

    EXPECT_EQ(0u, sequence);
    EXPECT_EQ(nullptr, dt_sender_find_again(s, &sequence));
    for (auto &slot : slots)
        slot = Posted(64);
    dt_sender_reopen(s, slots[2]);
    dt_sender_reopen(s, slots[0]);
    EXPECT_EQ(2u, dt_sender_count_again(sender));
    sequence = dt_sender_first_again(s);
    EXPECT_EQ(slots[0], dt_sender_find_again(s, &sequence));
    ++sequence;
    EXPECT_EQ(slots[2], dt_sender_find_again(s, &sequence));
    /* Their first writes have arrived, so they are complete rather than posted again. */
    EXPECT_EQ(0u, dt_sender_complete_closed(s, 3));
    EXPECT_EQ(0u, s->again);
    for (auto *slot : slots)
        EXPECT_EQ(DT_SEND_DONE, slot->state);
}

TEST_F(SendAgain, WithoutAPathNothingIsPostedAgain)
{
    dt_send_slot *slot = Posted(64);

    dt_sender_reopen(s, slot);
    for (uint32_t p = 0; p < sender->path_count; p++)
        sender->path[p].state = DT_PATH_NONE;
    dt_connection_choose_path(sender);
    EXPECT_FALSE(dt_sender_repost(s, slot));
    EXPECT_EQ(1u, dt_sender_ops.post_again(sender));
    EXPECT_EQ(DT_SEND_READY, slot->state);
    EXPECT_EQ(0u, dt_sender_complete_closed(s, 1));
}

TEST_F(SendAgain, AClosedPeerCompletesReceivedMessagesOnly)
{
    dt_send_slot *first = Posted(64), *second = Posted(64);

    EXPECT_EQ(0u, dt_sender_close_sequence(sender));
    EXPECT_TRUE(dt_sender_needs_peer(sender));
    EXPECT_EQ(1u, dt_sender_complete_closed(s, 1));
    EXPECT_EQ(DT_SEND_DONE, first->state);
    EXPECT_EQ(DT_SEND_POSTED, second->state);
    dt_sender_fail_closed(s, 0);
    EXPECT_EQ(DT_OK, (int)sender->failing);
    EXPECT_EQ(0u, dt_sender_complete_closed(s, 2));
    EXPECT_EQ(2u, dt_sender_close_sequence(sender));
}

TEST_F(SendAgain, MessagesThatTheClosedPeerWillNeverCompleteFailTheConnection)
{
    detour_test::ExpectWarning("the receiver closed with 2 messages outstanding");
    dt_sender_fail_closed(s, 2);
    EXPECT_EQ(DT_PEER_ERROR, (int)sender->failing);
}
} // namespace
