/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/send.h"

#include "tests/transport/message/ends.h"

namespace
{
class Send : public detour_test::Ends
{
};

TEST_F(Send, HasNoRequestBeforeTheClearToSendIsThere)
{
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(nullptr, Isend(10));
        Step();
    }
    EXPECT_EQ(0u, s->next);
    EXPECT_EQ(20u, sender->meter.row->refused_count);
    Transfer(10);
}

TEST_F(Send, CarriesEverySizeFromNothingToTheWholeBuffer)
{
    for (uint32_t bytes : {0u, 1u, 63u, 64u, 4096u, 65537u, kBytes})
        Transfer(bytes);
    EXPECT_EQ(7u, s->next);
    EXPECT_EQ(s->next, s->next_post);
    EXPECT_EQ(0u, sender->open_requests);
    EXPECT_EQ(0u, from_memory->open);
    EXPECT_EQ(0u, to_memory->open);
}

TEST_F(Send, AnIsendOfAnotherTagWaitsForItsMessage)
{
    dt_request *receive = Irecv(100, 5);
    ASSERT_TRUE(Until([&] { return dt_sender_matching_slot(s) != nullptr; }));
    EXPECT_EQ(nullptr, Isend(100, 4));
    dt_request *send = Isend(100, 5);
    Wait(receive);
    Wait(send);
}

TEST_F(Send, AMessageLongerThanItsIrecvEndsTheConnection)
{
    dt_request *receive = Irecv(100), *send = nullptr;
    ASSERT_TRUE(Until([&] { return dt_sender_matching_slot(s) != nullptr; }));
    detour_test::ExpectWarning("isend of 101 bytes");
    EXPECT_EQ(DT_INVALID, dt_isend(sender, from.data(), 101, 0, from_memory, &send));
    EXPECT_EQ(nullptr, send);
    detour_test::ExpectWarning("outstanding");
    EXPECT_TRUE(Until([&] {
        int done;
        return dt_test(receive, &done, nullptr) != DT_OK;
    }));
}

TEST_F(Send, MessagesHeldByTheModuleAboveAreNotPosted)
{
    dt_request *receive = Irecv(100), *send = nullptr;
    dt_send_slot *complete = nullptr;

    ASSERT_TRUE(Until([&] { return dt_sender_matching_slot(s) != nullptr; }));
    ASSERT_EQ(DT_OK, dt_sender_isend_part(s, from.data(), 100, 0, from_memory, &send, &complete));
    ASSERT_EQ(SlotOf(0), complete);
    dt_sender_hand_over(s, complete);
    EXPECT_EQ(DT_BODY_DATA, complete->body.kind);
    complete->body.kind = DT_BODY_PENDING;
    for (int i = 0; i < 10; i++) {
        EXPECT_FALSE(dt_sender_post_oldest(s));
        Step();
    }
    EXPECT_EQ(0u, s->next_post);
    complete->body = dt_sender_payload_body(sender, complete);
    EXPECT_TRUE(dt_sender_post_oldest(s));
    EXPECT_EQ(1u, s->next_post);
    EXPECT_FALSE(dt_sender_post_oldest(s));
    Wait(receive);
    Wait(send);
}

TEST_F(Send, APartWithoutARequestIsReportedByItsModule)
{
    dt_request *receive = Irecv(100);
    dt_send_slot *slot = nullptr;

    ASSERT_TRUE(Until([&] { return (slot = dt_sender_matching_slot(s)) != nullptr; }));
    EXPECT_EQ(0, dt_sender_find_part(slot, 0));
    EXPECT_EQ(-1, dt_sender_find_part(slot, 1));
    EXPECT_TRUE(dt_sender_fill_part(slot, 0, from.data(), 100, from_memory));
    dt_sender_hand_over(s, slot);
    slot->part[0].ready_bytes = 100;
    EXPECT_TRUE(dt_sender_post_oldest(s));
    Wait(receive);
    ASSERT_TRUE(Until([&] {
        dt_sender_progress(s);
        return slot->state == DT_SEND_DONE;
    }));
    EXPECT_EQ(0u, sender->open_requests);
    dt_sender_report_parts(slot, 1);
    EXPECT_EQ(DT_SEND_FREE, slot->state);
    Transfer(200);
}

TEST_F(Send, ACompletionOfAnotherEpochIsIgnored)
{
    dt_request *receive = Irecv(100);
    dt_request *send = SendWhenPossible(100);
    dt_send_slot *slot = SlotOf(0);
    dt_completion late = {};

    ASSERT_EQ(DT_SEND_POSTED, slot->state);
    late.wr_id = sender->path[0].payload_id[0] + (1ull << 32);
    late.status = DT_WC_SUCCESS;
    dt_sender_handle(s, &sender->path[0], &late);
    EXPECT_EQ(DT_SEND_POSTED, slot->state);
    Wait(receive);
    Wait(send);
}

TEST_F(Send, ARequestThatIsNotOpenCannotBeTested)
{
    dt_request *receive = Irecv(100);
    dt_request *send = SendWhenPossible(100);
    int done = 0;

    Wait(receive);
    Wait(send);
    EXPECT_EQ(DT_INVALID, dt_test(send, &done, nullptr));
    EXPECT_EQ(DT_INVALID, dt_test(receive, &done, nullptr));
}
} // namespace
