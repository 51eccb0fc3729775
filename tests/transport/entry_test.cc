/* SPDX-License-Identifier: Apache-2.0 */
// The entry points (transport/entry.c): which way a call takes, and what is refused before it takes any.
#include "tests/transport/message/ends.h"
#include "transport/net.h"

namespace
{
class Entry : public detour_test::Ends
{
};

TEST_F(Entry, AnEndDoesNotTakeTheOtherEndsCalls)
{
    dt_request *request = nullptr;
    void *data = to.data();
    uint32_t bytes = 10;
    int tag = 0;

    EXPECT_EQ(DT_INVALID, dt_isend(receiver, from.data(), 10, 0, from_memory, &request));
    EXPECT_EQ(nullptr, request);
    EXPECT_EQ(DT_INVALID, dt_irecv(sender, 1, &data, &bytes, &tag, &to_memory, &request));
    EXPECT_EQ(nullptr, request);
}

TEST_F(Entry, ACallWhileTheDeviceThreadOwnsTheConnectionIsAnsweredNotNow)
{
    dt_request *receive = Irecv(100);
    dt_request *send = SendWhenPossible(100);
    int done = 1;

    ASSERT_TRUE(dt_owner_take(&sender->owner));
    EXPECT_EQ(nullptr, Isend(100));
    EXPECT_EQ(DT_OK, dt_test(send, &done, nullptr));
    EXPECT_EQ(0, done);
    dt_owner_give_back(&sender->owner);
    ASSERT_TRUE(dt_owner_take(&receiver->owner));
    EXPECT_EQ(nullptr, Irecv(100));
    dt_owner_give_back(&receiver->owner);
    Wait(receive);
    Wait(send);
}

TEST_F(Entry, AnIsendToAPeerThatHasClosedFailsTheConnection)
{
    dt_request *request = nullptr;

    sender->peer_close_sequence = 0;
    dt_connection_notify(sender, DT_NOTICE_PEER_CLOSED);
    detour_test::ExpectWarning("isend of message 0, but the receiver has closed");
    EXPECT_EQ(DT_OK, dt_isend(sender, from.data(), 10, 0, from_memory, &request));
    EXPECT_EQ(nullptr, request);
    EXPECT_EQ(DT_PEER_ERROR, (int)sender->failing);
}

TEST_F(Entry, AnIrecvFromAPeerThatHasClosedFailsTheConnection)
{
    dt_connection_notify(receiver, DT_NOTICE_PEER_CLOSED);
    detour_test::ExpectWarning("irecv of message 0, but the sender has closed");
    EXPECT_EQ(nullptr, Irecv(10));
    EXPECT_EQ(DT_PEER_ERROR, (int)receiver->failing);
}

/* Without open requests the death of a peer is no error; the next call is the first that needs the peer. */
TEST_F(Entry, TheFirstCallAfterThePeersDeathReportsTheDeath)
{
    dt_request *request = nullptr;

    dt_connection_notify(sender, DT_NOTICE_PEER_LOST);
    detour_test::ExpectWarning("isend of message 0, but the peer is dead");
    EXPECT_EQ(DT_OK, dt_isend(sender, from.data(), 10, 0, from_memory, &request));
    EXPECT_EQ(nullptr, request);
    EXPECT_EQ(DT_PEER_ERROR, (int)sender->failing);
    dt_connection_notify(receiver, DT_NOTICE_PEER_LOST);
    detour_test::ExpectWarning("irecv of message 0, but the peer is dead");
    EXPECT_EQ(nullptr, Irecv(10));
    EXPECT_EQ(DT_PEER_ERROR, (int)receiver->failing);
}

TEST_F(Entry, MemoryThatIsDeregisteredWithRequestsOpenEndsTheConnection)
{
    dt_request *receive = Irecv(100);
    int done = 0;

    dt_net_deregister(receiver, to_memory);
    to_memory = nullptr;
    EXPECT_TRUE(receiver->notices & DT_NOTICE_ABANDONED);
    EXPECT_EQ(DT_CLOSED, dt_test(receive, &done, nullptr));
    EXPECT_EQ(0, done);
}

TEST_F(Entry, ADmaBufWithoutAFileIsRefused)
{
    dt_memory *memory = nullptr;
    EXPECT_EQ(DT_INVALID, dt_net_register_dmabuf(sender, from.data(), 4096, 0, -1, &memory));
    EXPECT_EQ(nullptr, memory);
}
} // namespace
