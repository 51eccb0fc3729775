/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked when work makes no progress, and of whom. Time is the test's; the devices have their own. */
#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"
#include "transport/connection.h"

namespace
{
class Watch : public detour_test::TwoNets
{
  protected:
    void SetUp() override
    {
        here.net->params.paths = there.net->params.paths =
            1; // no other path, whose answer would say something
        Listen();
        Establish();
        ASSERT_FALSE(HasFailure());
        ASSERT_EQ(DT_OK, dt_net_register(sender, from, sizeof from, true, &from_memory));
        ASSERT_EQ(DT_OK, dt_net_register(receiver, to, sizeof to, true, &to_memory));
        Move();
        SetTimes(100, 12);
    }
    void TearDown() override
    {
        if (silent)
            Speak();
        for (dt_request *request : {send, receive})
            EXPECT_EQ(nullptr, request);
        dt_net_deregister(sender, from_memory);
        dt_net_deregister(receiver, to_memory);
        TwoNets::TearDown();
    }

    /* What the rules go by; the queue pairs that are there have their own. */
    void SetTimes(uint64_t stall_ms, uint64_t timeout_exponent)
    {
        for (dt_net *net : {here.net, there.net}) {
            net->params.stall_ms = stall_ms;
            net->params.timeout_exponent = timeout_exponent;
        }
    }
    /* Until the sender leaves its path, for this reason; then all is well again. */
    void AwaitFault(const char *why)
    {
        Until([&] {
            IsDone(&receive);
            return !sender->current;
        });
        EXPECT_NE(nullptr, strstr(sender->path[0].why, why)) << sender->path[0].why;
        SetTimes(500, 16);
        Speak();
        Until([&] { return IsDone(&receive) && IsDone(&send); });
    }
    /* A message through, from beginning to end. */
    void Move()
    {
        Post();
        Until([&] { return IsDone(&receive) && IsDone(&send); });
    }
    void Post()
    {
        PostReceive();
        Send();
    }
    void Send()
    {
        Until([&] {
            EXPECT_EQ(DT_OK, dt_isend(sender, from, sizeof from, 0, from_memory, &send));
            return send != nullptr;
        });
    }
    void SendWhatIsAwaited()
    {
        Send();
        Until([&] { return IsDone(&receive) && IsDone(&send); });
    }
    void PostReceive()
    {
        void *data = to;
        uint32_t bytes = sizeof to;
        int tag = 0;
        ASSERT_EQ(DT_OK, dt_irecv(receiver, 1, &data, &bytes, &tag, &to_memory, &receive));
        ASSERT_NE(nullptr, receive);
    }
    bool IsDone(dt_request **request)
    {
        int done = 0;
        if (!*request)
            return true;
        EXPECT_EQ(DT_OK, dt_test(*request, &done, nullptr));
        if (done)
            *request = nullptr;
        return done;
    }
    void Until(const std::function<bool()> &is_so)
    {
        for (int i = 0; i < 1000000 && !HasFailure(); i++) {
            if (is_so())
                return;
            LongStep();
        }
        FAIL() << "it did not come about";
    }
    /* Long, but several of them to each question. */
    void LongStep()
    {
        now_ns += 4 * DT_NS_PER_MS;
        Step();
    }
    void Pass(uint64_t duration_ns)
    {
        for (uint64_t end_ns = now_ns + duration_ns; now_ns < end_ns && !HasFailure();) {
            LongStep();
            IsDone(&receive);
            IsDone(&send);
        }
    }
    /* From now on the completion queue of the sender's queue pair is one on which nothing ever comes. */
    void Silence()
    {
        silent = sender->path[0].send_cq[0];
        ASSERT_EQ(DT_OK, dt_cq_create(sender->path[0].nic->device, 16, nullptr, &sender->path[0].send_cq[0]));
    }
    void Speak()
    {
        dt_cq_destroy(sender->path[0].send_cq[0]);
        sender->path[0].send_cq[0] = silent;
        silent = nullptr;
    }
    int CountLines(const char *text)
    {
        int count = 0;
        for (const std::string &line : detour_test::LoggedLines())
            count += line.find(text) != std::string::npos;
        return count;
    }

    uint8_t from[1000] = {}, to[1000] = {};
    dt_memory *from_memory = nullptr, *to_memory = nullptr;
    dt_request *send = nullptr, *receive = nullptr;
    dt_cq *silent = nullptr;
};

/* Longer than any rule takes: 100 ms without progress, and then the hardware's retries, of 117 ms. */
const uint64_t kLong = 800 * DT_NS_PER_MS;

TEST_F(Watch, APeerThatHasTheMessageSaysSo)
{
    EXPECT_EQ((uint32_t)DT_PROTOCOL_VERSION_MAX, sender->version);
    EXPECT_EQ((uint32_t)DT_PROTOCOL_VERSION_MAX, receiver->version);
    Silence();
    Post();
    AwaitFault("its completion queue is silent: the peer has had ");
}

/* The queue that is silent is the receiver's: the sender says that its message was acknowledged. */
TEST_F(Watch, ASenderWhoseMessageWasAcknowledgedSaysSoHoweverManyCameBefore)
{
    uint64_t many = 1ull << 32; // of which none is remembered
    dt_sender_of(sender)->next += many;
    dt_sender_of(sender)->next_post += many;
    dt_receiver_of(receiver)->next += many;
    dt_cq *cq = receiver->path[0].recv_cq;
    ASSERT_EQ(DT_OK, dt_cq_create(receiver->path[0].nic->device, 16, nullptr, &receiver->path[0].recv_cq));
    Post();
    Pass(kLong);
    EXPECT_EQ(nullptr, receiver->current);
    EXPECT_NE(nullptr, strstr(receiver->path[0].why, "its completion queue is silent: the peer has had "))
        << receiver->path[0].why;
    SetTimes(500, 16);
    dt_cq_destroy(receiver->path[0].recv_cq);
    receiver->path[0].recv_cq = cq;
    Until([&] { return IsDone(&receive) && IsDone(&send); });
}

/* To a question it would answer with the end of the connection. */
TEST_F(Watch, APeerOfAnOlderVersionIsNotAsked)
{
    sender->version = receiver->version = DT_PROTOCOL_VERSION_FACTS - 1;
    Silence();
    Post();
    Pass(kLong);
    EXPECT_TRUE(sender->current && receiver->current);
    EXPECT_EQ(nullptr, receive) << "it has come";
    EXPECT_NE(nullptr, send) << "nobody knows here";
    Speak();
    Until([&] { return IsDone(&send); });
    Move();
}

TEST_F(Watch, AReceiverDoesNotAskAnOlderSenderEither)
{
    sender->version = receiver->version = DT_PROTOCOL_VERSION_FACTS - 1;
    PostReceive();
    Pass(kLong);
    EXPECT_TRUE(sender->current && receiver->current);
    SendWhatIsAwaited();
}

/* The queue pair has failed and its queue says nothing. Whether the peer has the message does not matter. */
TEST_F(Watch, AQueuePairInTheErrorStateIsFoundByAskingTheDevice)
{
    sender->version = receiver->version = DT_PROTOCOL_VERSION_FACTS - 1;
    Silence();
    Post();
    ASSERT_EQ(DT_OK, dt_qp_fail(sender->path[0].qp[0]));
    AwaitFault("is in the error state, and no completion says so");
}

/* The same questions, but the message is only late. */
TEST_F(Watch, AReceiverWhoseMessageIsNotSentIsLeftAlone)
{
    PostReceive();
    Pass(kLong);
    EXPECT_TRUE(sender->current && receiver->current);
    SendWhatIsAwaited();
    EXPECT_EQ(0u, sender->path[0].epoch);
}
/* The fence has to wait for the control thread; Detour's thread does not wait awake. */
TEST_F(Watch, WhileAVerbHangsNobodySpins)
{
    dt_path *path = &sender->path[0];
    uint64_t next_ns = 0;
    SetTimes(500, 16);
    ASSERT_EQ((uint32_t)DT_PATH_OP_IS_IDLE, dt_load_acquire(&path->op_state));
    dt_store_release(&path->op_state, (uint32_t)DT_PATH_OP_IS_BUSY); // as during a question to the device
    dt_connection_path_refused(sender, path, "refused a write");
    for (int i = 0; i < 5; i++) {
        now_ns += 10 * DT_NS_PER_US;
        next_ns = dt_net_progress(there.net, now_ns);
    }
    EXPECT_TRUE(path->fence.is_active);
    EXPECT_GT(next_ns, now_ns);
    path->op = DT_PATH_OP_QUERY;
    path->stopped_qpn = 0;
    dt_store_release(&path->op_state, (uint32_t)DT_PATH_OP_IS_DONE);
    Until([&] { return sender->current && receiver->current && path->epoch > 0; });
    Move();
}
} // namespace
