/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/sender.h"

#include <memory>

#include "tests/transport/message/ends.h"

namespace
{
using detour_test::Ends;

TEST(SendSlot, MayChangeOnlyAlongTheTable)
{
    const struct {
        dt_send_state from, to;
    } legal[] = {
        {DT_SEND_FREE, DT_SEND_MATCHING},  {DT_SEND_MATCHING, DT_SEND_READY},
        {DT_SEND_READY, DT_SEND_PARTIAL},  {DT_SEND_READY, DT_SEND_POSTED},
        {DT_SEND_READY, DT_SEND_DONE},     {DT_SEND_PARTIAL, DT_SEND_PARTIAL},
        {DT_SEND_PARTIAL, DT_SEND_POSTED}, {DT_SEND_PARTIAL, DT_SEND_READY},
        {DT_SEND_POSTED, DT_SEND_DONE},    {DT_SEND_POSTED, DT_SEND_READY},
        {DT_SEND_DONE, DT_SEND_FREE},      {DT_SEND_DONE, DT_SEND_READY},
    };
    for (uint32_t from = 0; from < DT_SEND_STATES; from++) {
        for (uint32_t to = 0; to < DT_SEND_STATES; to++) {
            bool is_listed = false;
            for (const auto &change : legal)
                is_listed |= change.from == from && change.to == to;
            EXPECT_EQ(is_listed, dt_send_is_legal(from, to)) << from << " to " << to;
        }
    }
}

TEST(SendSlot, IsFreeWhenAllItsPartsAreReported)
{
    dt_send_slot slot = {};
    slot.state = DT_SEND_DONE;
    slot.parts = 3;
    dt_sender_report_parts(&slot, 1);
    EXPECT_EQ(DT_SEND_DONE, slot.state);
    dt_sender_report_parts(&slot, 2);
    EXPECT_EQ(DT_SEND_FREE, slot.state);
}

TEST(SendSlot, StartsAgainAsAWholeWhenItsEpochIsSettled)
{
    dt_send_slot slot = {};
    slot.state = DT_SEND_PARTIAL;
    slot.posted_bytes = 4096;
    slot.is_refused = true;
    dt_sender_restart(&slot);
    EXPECT_EQ(DT_SEND_READY, slot.state);
    EXPECT_EQ(0u, slot.posted_bytes);
    EXPECT_FALSE(slot.is_refused);
}

TEST(SendSlotDeath, OnlyAPartialMessageStartsAgain)
{
    dt_send_slot slot = {};
    slot.state = DT_SEND_POSTED;
    EXPECT_DEATH(dt_sender_restart(&slot), "DT_SEND_PARTIAL");
}

TEST(SendSlot, PayloadIsReadyWhenThatOfEveryPartIs)
{
    dt_send_slot slot = {};
    slot.parts = 2;
    slot.part[0].bytes = slot.part[0].ready_bytes = 100;
    slot.part[1].bytes = 50;
    EXPECT_FALSE(dt_send_is_payload_ready(&slot));
    slot.part[1].ready_bytes = 50;
    EXPECT_TRUE(dt_send_is_payload_ready(&slot));
    slot.parts = 0;
    EXPECT_TRUE(dt_send_is_payload_ready(&slot));
}

class Sender : public Ends
{
};

TEST_F(Sender, AMessageThatIsReopenedIsPostedAgainAndCounts)
{
    dt_request *receive = Irecv(100);
    dt_request *send = SendWhenPossible(100);
    dt_send_slot *slot = SlotOf(0);

    ASSERT_TRUE(Until([&] {
        dt_connection_progress(sender);
        return slot->state == DT_SEND_DONE;
    }));
    EXPECT_EQ(1u, dt_sender_first_incomplete(s));
    dt_sender_reopen(s, slot);
    EXPECT_EQ(0u, dt_sender_first_incomplete(s));
    EXPECT_EQ(DT_SEND_READY, slot->state);
    EXPECT_EQ(DT_BODY_DATA, slot->body.kind);
    EXPECT_EQ(1u, s->again);
    EXPECT_FALSE(send->is_done);
    EXPECT_TRUE(sender->notices & DT_NOTICE_AGAIN);
    Wait(receive);
    /* The receiver has it already; that it comes once more is for the receiver to notice. */
    slot->state = DT_SEND_DONE;
    send->is_done = true;
    s->again = 0;
    Wait(send);
    EXPECT_EQ(DT_SEND_FREE, slot->state);
    EXPECT_EQ(0u, sender->open_requests);
}

TEST_F(Sender, ATakeThatIsReopenedHasToBeDecidedAnew)
{
    dt_send_slot *slot = SlotOf(0);
    slot->state = DT_SEND_POSTED;
    slot->body.kind = DT_BODY_TAKE;
    s->next = s->next_post = 1;
    dt_sender_reopen(s, slot);
    EXPECT_EQ(DT_BODY_PENDING, slot->body.kind);
    slot->state = DT_SEND_FREE;
    s->again = 0;
}
} // namespace
