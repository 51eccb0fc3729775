/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/send_partial.h"

#include "tests/transport/message/ends.h"
#include "transport/message/send.h"

namespace
{
class SendPartial : public detour_test::Ends
{
  protected:
    void SetUp() override
    {
        Ends::SetUp();
        receive = Irecv(kBytes);
        ASSERT_TRUE(Until([&] { return (slot = dt_sender_matching_slot(s)) != nullptr; }));
        ASSERT_TRUE(dt_sender_fill_part(slot, 0, from.data(), kBytes, from_memory));
        dt_sender_hand_over(s, slot);
    }
    void Finish()
    {
        int bytes = 0;
        slot->part[0].ready_bytes = kBytes;
        EXPECT_TRUE(dt_sender_post_oldest(s));
        EXPECT_EQ(1u, s->next_post);
        Wait(receive, &bytes);
        EXPECT_EQ((int)kBytes, bytes);
        EXPECT_EQ(from, to);
        ASSERT_TRUE(Until([&] {
            dt_sender_poll(s);
            return slot->state == DT_SEND_DONE;
        }));
        dt_sender_report_parts(slot, 1);
    }
    dt_request *receive = nullptr;
    dt_send_slot *slot = nullptr;
};

TEST_F(SendPartial, NothingGoesOutBeforeAWholeWriteIsReady)
{
    slot->part[0].ready_bytes = (128 << 10) - 1;
    EXPECT_FALSE(dt_sender_post_partial(s, slot));
    EXPECT_EQ(DT_SEND_READY, slot->state);
    Finish();
}

TEST_F(SendPartial, ReadyBytesGoOutWhileTheRestIsNot)
{
    slot->part[0].ready_bytes = 300 << 10;
    EXPECT_FALSE(dt_sender_post_partial(s, slot));
    EXPECT_EQ(DT_SEND_PARTIAL, slot->state);
    EXPECT_EQ(256u << 10, slot->posted_bytes);
    ASSERT_TRUE(Until([&] {
        dt_sender_poll(s);
        return memcmp(from.data(), to.data(), 256 << 10) == 0;
    }));
    EXPECT_FALSE(IsDone(receive));
    EXPECT_NE(from, to);
    Finish();
}

TEST_F(SendPartial, TheLastWriteWaitsForAllOfThePayload)
{
    slot->part[0].ready_bytes = kBytes - 1;
    EXPECT_FALSE(dt_sender_post_partial(s, slot));
    EXPECT_EQ(kBytes - (128u << 10), slot->posted_bytes);
    for (int i = 0; i < 50; i++)
        Step();
    EXPECT_FALSE(IsDone(receive));
    Finish();
}

TEST_F(SendPartial, OnAFailedEpochNothingMoreGoesOutUntilItIsSettled)
{
    slot->part[0].ready_bytes = 256 << 10;
    EXPECT_FALSE(dt_sender_post_partial(s, slot));
    uint32_t epoch = slot->epoch++; // as if the path had another epoch by now
    slot->part[0].ready_bytes = kBytes;
    EXPECT_FALSE(dt_sender_post_partial(s, slot));
    EXPECT_EQ(256u << 10, slot->posted_bytes);
    slot->epoch = epoch;
    slot->is_refused = true;
    EXPECT_FALSE(dt_sender_post_partial(s, slot));
    dt_sender_restart(slot);
    Finish();
}
} // namespace
