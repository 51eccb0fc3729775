/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/receiver.h"

#include "tests/transport/message/ends.h"

namespace
{
TEST(ReceiveSlot, MayChangeOnlyAlongTheTable)
{
    const uint8_t expected[DT_RECV_STATES] = {1u << DT_RECV_OPEN, 1u << DT_RECV_DONE | 1u << DT_RECV_FREE,
                                              1u << DT_RECV_FREE};
    for (uint32_t from = 0; from < DT_RECV_STATES; from++)
        EXPECT_EQ(expected[from], dt_recv_transitions[from]) << from;
}

class Receiver : public detour_test::Ends
{
};

TEST_F(Receiver, AMessageInPlaceIsIncompleteButNotMissing)
{
    ASSERT_NE(nullptr, Irecv(100));
    ASSERT_NE(nullptr, Irecv(100, 0, 100));
    EXPECT_EQ(0u, dt_receiver_first_incomplete(r));
    EXPECT_EQ(0u, dt_receiver_first_missing(r));
    dt_recv_slot *slot = dt_receiver_slot(r, 0);
    slot->source = DT_PAYLOAD_STORE;
    EXPECT_TRUE(dt_recv_slot_is_missing(slot));
    uint32_t open = to_memory->open;
    dt_receiver_place_payload(r, slot, 60);
    EXPECT_EQ(open - 1, to_memory->open);
    EXPECT_EQ(DT_PAYLOAD_IN_PLACE, slot->source);
    EXPECT_FALSE(dt_recv_slot_is_missing(slot));
    EXPECT_EQ(0u, dt_receiver_first_incomplete(r));
    EXPECT_EQ(1u, dt_receiver_first_missing(r));
    dt_receiver_take(&receiver->path[1], slot);
    EXPECT_EQ(DT_RECV_DONE, slot->state);
    EXPECT_EQ(1u, slot->path);
    EXPECT_EQ(1u, dt_receiver_first_incomplete(r));
}

/* The ring is written over while the device thread is away: the count of the messages stays right. */
TEST_F(Receiver, StampsOfArrivalsCountEachMessageOnce)
{
    uint64_t stamp = 0;
    EXPECT_EQ(0u, dt_receiver_take_stamp(r, &stamp));
    dt_receiver_stamp(r, 1);
    EXPECT_EQ(0u, dt_receiver_take_stamp(r, &stamp)) << "0 has not arrived, 1 was faster";
    dt_receiver_stamp(r, 0);
    EXPECT_EQ(1u, dt_receiver_take_stamp(r, &stamp));
    EXPECT_EQ(1u, dt_receiver_take_stamp(r, &stamp));
    EXPECT_EQ(0u, dt_receiver_take_stamp(r, &stamp));
    uint64_t count = 2, last = 0;
    for (uint64_t sequence = 2; sequence < 2 + 5 * DT_ARRIVAL_STAMPS; sequence++)
        dt_receiver_stamp(r, sequence);
    for (uint64_t messages; (messages = dt_receiver_take_stamp(r, &stamp)) > 0; count += messages) {
        EXPECT_GE(stamp, last);
        last = stamp;
    }
    EXPECT_EQ(2u + 5 * DT_ARRIVAL_STAMPS, count);
    dt_receiver_stamp(r, count);
    EXPECT_EQ(1u, dt_receiver_take_stamp(r, &stamp));
}

TEST_F(Receiver, TheTakeOfAMessageThatWasReportedFreesItsSlot)
{
    ASSERT_NE(nullptr, Irecv(100));
    dt_recv_slot *slot = dt_receiver_slot(r, 0);
    slot->source = DT_PAYLOAD_STORE;
    dt_receiver_place_payload(r, slot, 100);
    slot->request.is_open = false;
    dt_receiver_take(&receiver->path[0], slot);
    EXPECT_EQ(DT_RECV_FREE, slot->state);
}
} // namespace
