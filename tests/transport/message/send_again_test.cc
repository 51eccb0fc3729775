/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/send_again.h"

#include "tests/transport/message/ends.h"
#include "transport/message/send.h"

namespace
{
class SendAgain : public detour_test::Ends
{
  protected:
    /* The clear-to-send of this message is in the sender's memory. */
    bool HasCts(uint64_t sequence)
    {
        dt_cts_entry entry[DT_PARTS_MAX];
        bool is_broken, is_here = false;

        for (uint32_t p = 0; p < sender->path_count; p++) {
            auto *rows = reinterpret_cast<const dt_cts_row *>(sender->path[p].control);
            is_here = is_here || (rows && dt_cts_read(&rows[sequence & (sender->slots - 1)], sequence, entry,
                                                      &is_broken));
        }
        return is_here;
    }
    /*
     * Messages that are posted and whose completions are not polled yet. An isend without a clear-to-send
     * polls, and so does progress: all clear-to-sends arrive before the first isend, and nothing progresses
     * after it.
     */
    std::vector<dt_send_slot *> Posted(size_t count, uint32_t bytes)
    {
        std::vector<dt_send_slot *> slots;
        uint64_t first = s->next;

        for (size_t i = 0; i < count; i++)
            EXPECT_NE(nullptr, Irecv(bytes));
        EXPECT_TRUE(Until([&] { return HasCts(first + count - 1); }));
        for (size_t i = 0; i < count; i++) {
            EXPECT_NE(nullptr, Isend(bytes));
            slots.push_back(SlotOf(first + i));
        }
        return slots;
    }
};

TEST_F(SendAgain, FindsReadyMessagesInTheirOrder)
{
    uint64_t sequence = dt_sender_first_again(s);

    EXPECT_EQ(0u, sequence);
    EXPECT_EQ(nullptr, dt_sender_find_again(s, &sequence));
    auto slots = Posted(3, 64);
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
    dt_send_slot *slot = Posted(1, 64)[0];

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
    auto slots = Posted(2, 64);

    EXPECT_EQ(0u, dt_sender_close_sequence(sender));
    EXPECT_TRUE(dt_sender_needs_peer(sender));
    EXPECT_EQ(1u, dt_sender_complete_closed(s, 1));
    EXPECT_EQ(DT_SEND_DONE, slots[0]->state);
    EXPECT_EQ(DT_SEND_POSTED, slots[1]->state);
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
