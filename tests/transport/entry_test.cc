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

/* The answer to a request is the error, once the queue pairs are fenced; until then it is not done. */
void ExpectErrorOfTest(dt_connection *c, dt_request *request)
{
    int done = 1;

    ASSERT_NE(nullptr, request);
    dt_store_release(&c->error, (uint32_t)DT_OK);
    EXPECT_EQ(DT_OK, dt_test(request, &done, nullptr));
    EXPECT_EQ(0, done);
    dt_store_release(&c->error, (uint32_t)DT_PEER_ERROR);
    EXPECT_EQ(DT_PEER_ERROR, dt_test(request, &done, nullptr));
    EXPECT_EQ(0, done);
}

TEST_F(Entry, AnIsendToAPeerThatHasClosedIsAnErrorOfItsTest)
{
    dt_request *first = nullptr, *second = nullptr, *third = nullptr;

    sender->peer_close_sequence = 0;
    dt_connection_notify(sender, DT_NOTICE_PEER_CLOSED);
    detour_test::ExpectWarning("isend of message 0, but the receiver has closed");
    EXPECT_EQ(DT_OK, dt_isend(sender, from.data(), 10, 0, from_memory, &first));
    EXPECT_EQ(DT_PEER_ERROR, (int)sender->failing);
    EXPECT_EQ(DT_OK, dt_isend(sender, from.data(), 10, 0, from_memory, &second));
    ExpectErrorOfTest(sender, first);
    ExpectErrorOfTest(sender, second);
    EXPECT_EQ(DT_OK, dt_isend(sender, from.data(), 10, 0, from_memory, &third));
    ExpectErrorOfTest(sender, third);
}

TEST_F(Entry, AnIrecvFromAPeerThatHasClosedIsAnErrorOfItsTest)
{
    dt_connection_notify(receiver, DT_NOTICE_PEER_CLOSED);
    detour_test::ExpectWarning("irecv of message 0, but the sender has closed");
    dt_request *first = Irecv(10), *second = Irecv(10);
    EXPECT_EQ(DT_PEER_ERROR, (int)receiver->failing);
    ExpectErrorOfTest(receiver, first);
    ExpectErrorOfTest(receiver, second);
}

TEST_F(Entry, AConnectionThatFailsWhileThePeerIsThereIsAnErrorOfIsend)
{
    dt_request *request = nullptr;

    detour_test::ExpectWarning("for another reason");
    dt_connection_fail(sender, DT_SYSTEM, "for another reason");
    EXPECT_EQ(nullptr, Isend(10));
    dt_store_release(&sender->error, (uint32_t)DT_SYSTEM);
    EXPECT_EQ(DT_SYSTEM, dt_isend(sender, from.data(), 10, 0, from_memory, &request));
    EXPECT_EQ(nullptr, request);
}

/* Without open requests the death of a peer is no error; the next call is the first that needs the peer. */
TEST_F(Entry, TheFirstCallAfterThePeersDeathReportsTheDeath)
{
    dt_request *request = nullptr;

    dt_connection_notify(sender, DT_NOTICE_PEER_LOST);
    detour_test::ExpectWarning("isend of message 0, but the peer is dead");
    EXPECT_EQ(DT_OK, dt_isend(sender, from.data(), 10, 0, from_memory, &request));
    EXPECT_NE(nullptr, request);
    EXPECT_EQ(DT_PEER_ERROR, (int)sender->failing);
    dt_connection_notify(receiver, DT_NOTICE_PEER_LOST);
    detour_test::ExpectWarning("irecv of message 0, but the peer is dead");
    EXPECT_NE(nullptr, Irecv(10));
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

class WithoutFlush : public detour_test::Ends
{
  protected:
    WithoutFlush() : Ends([](dt_params &params, dt_net_options &) { params.flush_disable = 1; }) {}
};

TEST_F(WithoutFlush, AnIflushIsNeverNeeded)
{
    dt_request *request = nullptr;
    void *data = to.data();
    uint32_t bytes = 100;

    Transfer(100);
    EXPECT_EQ(DT_OK, dt_iflush(receiver, 1, &data, &bytes, &to_memory, &request));
    EXPECT_EQ(nullptr, request) << "to NCCL: nothing to wait for";
    EXPECT_EQ(0u, r->flush_wanted_mask);
}
} // namespace
