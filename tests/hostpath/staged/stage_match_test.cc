/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/staged/stage_match.h"

#include "tests/hostpath/staged/staged_ends.h"
#include "transport/message/send.h"

namespace
{
class StageMatch : public detour_test::StagedEnds
{
};

TEST_F(StageMatch, AnEntryBecomesThePartWithItsTag)
{
    Wait(Isend(100, 8));
    Wait(Isend(200, 9));
    ASSERT_NE(nullptr, Irecv(300, 9));
    dt_send_slot *slot = nullptr;
    ASSERT_TRUE(Until([&] { return (slot = dt_sender_matching_slot(s)) != nullptr; }));
    dt_stage_match(s);
    EXPECT_EQ(1u, dt_stage_unmatched(stage));
    EXPECT_TRUE(dt_stage_has_tag(stage, 8));
    EXPECT_EQ(1u, dt_stage_slot(s, slot)->mask);
    EXPECT_EQ(200u, slot->part[0].bytes);
    EXPECT_EQ(&stage->memory, slot->part[0].memory);
    EXPECT_EQ(1u, s->next);
    EXPECT_EQ(1u, s->next_post);
    ASSERT_NE(nullptr, Irecv(300, 8, 300));
    AwaitDelivery();
}

TEST_F(StageMatch, AMessageIsPostedAsFarAsItsPayloadIsCopied)
{
    dt_request *receive = Irecv(kBytes), *send = nullptr;
    ASSERT_TRUE(Until([&] { return dt_sender_matching_slot(s) != nullptr; }));
    send = Isend(kBytes);
    ASSERT_NE(nullptr, send);
    dt_send_slot *slot = SlotOf(0);
    dt_staged *entry = dt_stage_slot(s, slot)->entry[0];
    ASSERT_EQ(1u, dt_stage_slot(s, slot)->mask);
    EXPECT_EQ(DT_SEND_READY, slot->state);
    EXPECT_EQ(0u, s->next_post);
    for (int i = 0; i < 4; i++)
        dt_host_copy_help(&entry->host_copy);
    dt_stage_post(s);
    EXPECT_EQ(DT_SEND_PARTIAL, slot->state);
    EXPECT_EQ(4u * stage->piece_bytes, slot->part[0].ready_bytes);
    EXPECT_LE(slot->posted_bytes, slot->part[0].ready_bytes);
    Wait(send);
    Wait(receive);
    EXPECT_EQ(from, to);
    AwaitDelivery();
}

TEST_F(StageMatch, AnEntryThatDoesNotFitItsIrecvEndsTheConnection)
{
    Wait(Isend(500));
    ASSERT_NE(nullptr, Irecv(100));
    detour_test::ExpectWarning("isend of 500 bytes");
    ASSERT_TRUE(Until([&] {
        dt_stage_match(s);
        return sender->failing != DT_OK;
    }));
    EXPECT_EQ(0u, s->next);
    detour_test::ExpectWarning("outstanding");
    EXPECT_TRUE(Until([&] { return receiver->failing != DT_OK || dt_connection_check(receiver) != DT_OK; }));
}

TEST_F(StageMatch, WithoutAPathNothingIsPostedAgain)
{
    dt_request *receive = Irecv(100), *send = Isend(100);
    dt_send_slot *slot = SlotOf(0);
    ASSERT_TRUE(Until([&] {
        dt_stage_match(s);
        return s->next_post == 1;
    }));
    ASSERT_EQ(DT_SEND_POSTED, slot->state);
    PollUntilComplete(slot); // so that nothing of it is under way when it is taken for lost
    dt_sender_reopen(s, slot);
    dt_path *current = sender->current;
    sender->current = nullptr;
    for (uint32_t p = 0; p < sender->path_count; p++)
        sender->path[p].state = DT_PATH_NONE;
    EXPECT_EQ(1u, dt_stage_post_again(s));
    for (uint32_t p = 0; p < sender->path_count; p++)
        sender->path[p].state = DT_PATH_UP;
    sender->current = current;
    slot->state = DT_SEND_DONE; // it was not lost: before either end progresses, which would send it again
    s->again = 0;
    Wait(receive);
    AwaitDelivery();
    Wait(send);
}
} // namespace
