/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/receive.h"

#include "tests/transport/message/ends.h"
#include "transport/protocol/immediate.h"
#include "transport/protocol/work_id.h"

namespace
{
class Receive : public detour_test::Ends
{
  protected:
    /* An arrival on queue pair 0 of path 0. */
    void Arrive(uint32_t imm, uint32_t bytes)
    {
        dt_completion completion = {};
        completion.wr_id = dt_work_encode(DT_WORK_RECEIVE, 0, 0, 0, 0);
        completion.status = DT_WC_SUCCESS;
        completion.has_imm = true;
        completion.imm = imm;
        completion.bytes = bytes;
        dt_receiver_handle(r, &receiver->path[0], &completion);
    }
};

TEST_F(Receive, ANewReceiveTakesNothingOverFromTheSlotsLastOne)
{
    for (uint32_t i = 0; i < receiver->slots + 3; i++)
        Transfer(10 + i);
    dt_recv_slot *slot = dt_receiver_slot(r, r->next);
    slot->is_unpublished = true;
    slot->source = DT_PAYLOAD_IN_PLACE;
    dt_request *receive = Irecv(100);
    EXPECT_FALSE(slot->is_unpublished);
    EXPECT_EQ(DT_PAYLOAD_WIRE, slot->source);
    Wait(SendWhenPossible(100));
    Wait(receive);
}

TEST_F(Receive, HasNoRequestWhenAllSlotsAreOpen)
{
    for (uint32_t i = 0; i < receiver->slots; i++)
        ASSERT_NE(nullptr, Irecv(10)) << i;
    EXPECT_EQ(nullptr, Irecv(10));
    EXPECT_EQ(1u, receiver->meter.row->refused_count);
    EXPECT_EQ(receiver->slots, receiver->open_requests);
}

TEST_F(Receive, IsPublishedAgainOverThePathThatIsLeft)
{
    dt_request *receive = Irecv(100);
    dt_recv_slot *slot = dt_receiver_slot(r, 0);
    uint32_t posted = receiver->path[1].cts_posted;

    ASSERT_EQ(0u, slot->path);
    receiver->current = &receiver->path[1];
    slot->is_unpublished = true;
    r->again = 1;
    dt_receiver_publish_again(r);
    EXPECT_FALSE(slot->is_unpublished);
    EXPECT_EQ(1u, slot->path);
    EXPECT_EQ(posted + 1, receiver->path[1].cts_posted);
    EXPECT_EQ(0u, r->again);
    receiver->current = &receiver->path[0];
    Wait(SendWhenPossible(100));
    Wait(receive);
}

/* The memory waited for the device of path 1 when the receive was opened. */
TEST_F(Receive, OfferedWithRenewedKeysHasThePathsThatItsMemoryHasNow)
{
    to_memory->path_mask = 1;
    dt_request *receive = Irecv(100);
    to_memory->path_mask = 3;
    receiver->path[1].keys_since = 1;
    dt_receiver_renew_keys(r, &receiver->path[1]);
    const dt_cts_entry *entry = reinterpret_cast<dt_cts_row *>(receiver->path[1].control)->entry;
    EXPECT_EQ(3u, entry->path_mask);
    EXPECT_EQ(to_memory->mr[1]->rkey, le32toh(entry->rkey[1]));
    receiver->path[1].keys_since = 0;
    Wait(SendWhenPossible(100));
    Wait(receive);
}

TEST_F(Receive, WithoutAPathNothingIsPublishedAgain)
{
    ASSERT_NE(nullptr, Irecv(100));
    dt_receiver_slot(r, 0)->is_unpublished = true;
    r->again = 1;
    receiver->current = nullptr;
    dt_receiver_publish_again(r);
    EXPECT_EQ(1u, r->again);
    EXPECT_TRUE(dt_receiver_slot(r, 0)->is_unpublished);
    receiver->current = &receiver->path[0];
}

TEST_F(Receive, AnImmediateOfNoOpenMessageFailsTheConnection)
{
    detour_test::ExpectWarning("an arrival that is no open message's");
    Arrive(dt_imm_encode(DT_IMM_DATA, 0, 0), 10);
    EXPECT_EQ(DT_PROTOCOL, (int)receiver->failing);
}

TEST_F(Receive, AnImmediateOfAPartThatTheMessageDoesNotHaveFailsTheConnection)
{
    ASSERT_NE(nullptr, Irecv(100));
    detour_test::ExpectWarning("an arrival that is no open message's");
    Arrive(dt_imm_encode(DT_IMM_DATA, 1, 0), 10);
    EXPECT_EQ(DT_PROTOCOL, (int)receiver->failing);
}

TEST_F(Receive, MoreBytesThanWerePostedFailTheConnection)
{
    ASSERT_NE(nullptr, Irecv(100));
    detour_test::ExpectWarning("part 0 of message 0 has 101 bytes, 100 were posted");
    Arrive(dt_imm_encode(DT_IMM_DATA, 0, 0), 101);
    EXPECT_EQ(DT_PROTOCOL, (int)receiver->failing);
}

TEST_F(Receive, APayloadThatComesTwoWaysFailsTheConnection)
{
    ASSERT_NE(nullptr, Irecv(100));
    dt_receiver_slot(r, 0)->source = DT_PAYLOAD_STORE;
    detour_test::ExpectWarning("was sent twice, eagerly and directly");
    Arrive(dt_imm_encode(DT_IMM_DATA, 0, 0), 100);
    EXPECT_EQ(DT_PROTOCOL, (int)receiver->failing);
}

TEST_F(Receive, ReportedEarlyTheRequestIsClosedAndTheSlotIsNot)
{
    int bytes = 0;
    ASSERT_NE(nullptr, Irecv(100));
    dt_recv_slot *slot = dt_receiver_slot(r, 0);
    slot->source = DT_PAYLOAD_STORE;
    dt_receiver_place_payload(r, slot, 70);
    dt_receiver_report_early(r, slot, &bytes);
    EXPECT_EQ(70, bytes);
    EXPECT_EQ(DT_RECV_OPEN, slot->state);
    EXPECT_FALSE(slot->request.is_open);
    EXPECT_EQ(0u, receiver->open_requests);
}
} // namespace
