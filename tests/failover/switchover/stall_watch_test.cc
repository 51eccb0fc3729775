/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked when work makes no progress, and of whom. Time is the test's; the devices have their own. */
#include "failover/switchover/state.h"
#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"
#include "transport/message/send.h"
#include "transport/message/receive.h"

namespace
{
class Watch : public detour_test::TwoNets
{
  protected:
    void SetUp() override
    {
        here.net->environment.params.paths = there.net->environment.params.paths =
            1; // no other path whose answer could be compared
        Listen();
        Establish();
        ASSERT_FALSE(HasFailure());
        Register(from, to, sizeof from);
        Move();
        SetTimes(100, 12);
    }
    void TearDown() override
    {
        if (silent)
            Speak();
        for (dt_request *request : {send, receive})
            EXPECT_EQ(nullptr, request);
        TwoNets::TearDown();
    }

    /* What the rules go by; the queue pairs that are there have their own. */
    void SetTimes(uint64_t stall_ms, uint64_t timeout_exponent)
    {
        for (dt_net *net : {here.net, there.net}) {
            net->environment.params.stall_ms = stall_ms;
            net->environment.params.timeout_exponent = timeout_exponent;
        }
    }
    /* Until the sender leaves its path for this reason; then the path is up again. */
    void AwaitFault(const char *why)
    {
        Until([&] {
            IsDone(&receive);
            return !sender->current;
        });
        EXPECT_NE(nullptr, strstr(sender->path[0].switchover->why, why)) << sender->path[0].switchover->why;
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
        Until([&] { return (send = Isend(from, sizeof from)) != nullptr; });
    }
    void SendTheAwaitedMessage()
    {
        Send();
        Until([&] { return IsDone(&receive) && IsDone(&send); });
    }
    void PostReceive()
    {
        receive = Irecv(to, sizeof to);
        ASSERT_NE(nullptr, receive);
    }
    void Until(const std::function<bool()> &is_so)
    {
        StepUntil(is_so, kStepNs);
    }
    void Pass(uint64_t duration_ns)
    {
        for (uint64_t end_ns = now_ns + duration_ns; now_ns < end_ns && !HasFailure();) {
            now_ns += kStepNs;
            Step();
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

    /* Long, but several steps for each query of the stall watch. */
    static constexpr uint64_t kStepNs = 4 * DT_NS_PER_MS;
    uint8_t from[1000] = {}, to[1000] = {};
    dt_request *send = nullptr, *receive = nullptr;
    dt_cq *silent = nullptr;
};

/* Longer than any rule takes: 100 ms without progress, and then the hardware's retries, of 117 ms. */
const uint64_t kLong = 800 * DT_NS_PER_MS;

TEST_F(Watch, APeerThatHasTheMessageReportsIt)
{
    Silence();
    Post();
    AwaitFault("its completion queue is silent: the peer has had ");
}

/* The queue that is silent is the receiver's: the sender reports that its message was acknowledged. */
TEST_F(Watch, ASenderReportsItsAcknowledgedMessageAfterAnyNumberBefore)
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
    EXPECT_NE(nullptr,
              strstr(receiver->path[0].switchover->why, "its completion queue is silent: the peer has had "))
        << receiver->path[0].switchover->why;
    SetTimes(500, 16);
    dt_cq_destroy(receiver->path[0].recv_cq);
    receiver->path[0].recv_cq = cq;
    Until([&] { return IsDone(&receive) && IsDone(&send); });
}

/* The queue pair has failed, its completion queue is silent, and the peer does not have the message. */
TEST_F(Watch, AQueuePairInTheErrorStateIsFoundByAskingTheDevice)
{
    Silence();
    PostReceive();
    Pass(20 * DT_NS_PER_MS); // for the CTS to arrive
    ASSERT_EQ(DT_OK, dt_qp_fail(sender->path[0].qp[0]));
    Send();
    AwaitFault("is in the error state, and no completion reports it");
}

/* The same questions, but the message is only late. */
TEST_F(Watch, AReceiverWhoseMessageIsOnlyLateKeepsItsPath)
{
    PostReceive();
    Pass(kLong);
    EXPECT_TRUE(sender->current && receiver->current);
    SendTheAwaitedMessage();
    EXPECT_EQ(0u, sender->path[0].epoch);
}
/* The fence has to wait for the control thread; Detour's thread does not wait awake. */
TEST_F(Watch, WhileAVerbHangsNoThreadSpins)
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
