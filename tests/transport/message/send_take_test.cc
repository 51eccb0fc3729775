/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/send_take.h"

#include "tests/transport/message/ends.h"
#include "transport/message/send.h"

namespace
{
class SendTake : public detour_test::Ends
{
  protected:
    void SetUp() override
    {
        Ends::SetUp();
        ASSERT_NE(nullptr, Irecv(100));
        ASSERT_TRUE(Until([&] { return (slot = dt_sender_matching_slot(s)) != nullptr; }));
        ASSERT_TRUE(dt_sender_fill_part(slot, 0, from.data(), 100, from_memory));
        dt_sender_hand_over(s, slot);
        slot->part[0].ready_bytes = 100;
        slot->body.kind = DT_BODY_TAKE;
        slot->body.path = DT_PATHS_MAX;
    }
    dt_send_slot *slot = nullptr;
};

TEST_F(SendTake, BoundToAFailedPathItCountsAsPostedThereAndNothingGoesOut)
{
    uint32_t room = dt_qp_room(sender->path[1].qp[0]);
    slot->body.path = 1;
    slot->body.epoch = 7;
    sender->path[1].state = DT_PATH_NONE;
    EXPECT_TRUE(dt_sender_post_taken(s, slot));
    EXPECT_EQ(DT_SEND_POSTED, slot->state);
    EXPECT_EQ(1u, slot->path);
    EXPECT_EQ(7u, slot->epoch);
    EXPECT_EQ(1u, slot->qps_left);
    EXPECT_EQ(room, dt_qp_room(sender->path[1].qp[0]));
    sender->path[1].state = DT_PATH_UP;
}

TEST_F(SendTake, WithoutAnyPathItWaits)
{
    dt_path *current = sender->current;
    sender->current = nullptr;
    EXPECT_FALSE(dt_sender_post_taken(s, slot));
    EXPECT_EQ(DT_SEND_READY, slot->state);
    sender->current = current;
}

TEST_F(SendTake, AReceiverThatGrantedNothingRejectsIt)
{
    EXPECT_TRUE(dt_sender_post_oldest(s));
    EXPECT_EQ(1u, s->next_post);
    EXPECT_EQ(DT_SEND_POSTED, slot->state);
    EXPECT_EQ(0u, slot->path);
    detour_test::ExpectWarning("an arrival that is no open message's");
    ASSERT_TRUE(Until([&] {
        dt_connection_progress(receiver);
        return receiver->failing != DT_OK;
    }));
}
} // namespace
