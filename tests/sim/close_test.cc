// SPDX-License-Identifier: Apache-2.0
/*
 * A peer that is gone when its messages are looked at, in virtual time. Acknowledgements and CLOSE both tell
 * a sender that a receiver, which closed and died, had everything. What a sender sent before it died counts.
 */
#include <gtest/gtest.h>

#include <string>

#include "base/log.h"
#include "softrnic/engine_state.h"
#include "tests/sim/two_hosts.h"
#include "tests/sim/verbs_sim.h"

namespace
{
using detour_test::Now;

const int kMessages = 4, kBytes = 3000;

void Collect(void *arg, enum dt_log_level level, const char *, int, const char *text)
{
    if (level == DT_LOG_WARN)
        *static_cast<std::string *>(arg) += text;
}

void Set(void *, struct dt_params *params)
{
    params->timeout_exponent = 10;
    params->retry_count = 2;
    params->fence_ms = 10;
}

class Close : public detour_test::TwoHosts
{
  protected:
    Close() : TwoHosts(10 * DT_NS_PER_US) {}
    void SetUp() override
    {
        dt_log_set_sink(Collect, &warnings, DT_LOG_WARN);
        Start(Hosts(2, Set));
        Connect();
        Register(from, to, sizeof from);
    }
    void Pass(uint64_t duration_ns)
    {
        for (uint64_t end_ns = Now() + duration_ns; Now() < end_ns;)
            Step();
    }
    void PostReceives()
    {
        int bytes = kBytes, tag = 0;

        On(1);
        for (int i = 0; i < kMessages; i++) {
            void *data = to[i];
            ASSERT_EQ(ncclSuccess, net->irecv(recv, 1, &data, &bytes, &tag, &to_mhandle, &received[i]));
            ASSERT_TRUE(received[i]);
        }
        Pass(DT_NS_PER_MS);
    }
    void PostSends()
    {
        On(0);
        for (int i = 0; i < kMessages; i++) {
            ASSERT_EQ(ncclSuccess, net->isend(send, from[i], kBytes, 0, from_mhandle, &sent[i]));
            ASSERT_TRUE(sent[i]);
        }
    }
    /* Nothing passes between the RNICs any more. */
    void CutCables()
    {
        for (uint32_t p = 0; p < 2; p++) {
            dt_sim_cut(dt_driver_sim_port(p), dt_driver_sim_port(2 + p), true);
            dt_sim_cut(dt_driver_sim_port(2 + p), dt_driver_sim_port(p), true);
        }
    }
    /* All messages arrive, and the receiver closes, while the sender's process stands still. CLOSE in band is
     * lost with the cables. */
    void ReceiveAllAndClose(bool is_cut)
    {
        PostReceives();
        PostSends();
        SetStopped(0, true);
        Pass(DT_NS_PER_MS);
        if (is_cut)
            CutCables();
        On(1);
        for (int i = 0; i < kMessages; i++) {
            int done = 0;
            ASSERT_EQ(ncclSuccess, net->test(received[i], &done, nullptr));
            ASSERT_TRUE(done);
        }
        ASSERT_EQ(ncclSuccess, net->deregMr(recv, to_mhandle));
        ASSERT_EQ(ncclSuccess, net->closeRecv(recv));
        recv = to_mhandle = nullptr;
        Pass(DT_NS_PER_MS);
    }
    /* A reset, which takes away what the peer has not read. */
    void Kill(uint32_t host)
    {
        dt_sim_network_kill(dt_plugin_sim_control(), host, DT_STREAM_DESTROYED);
        dt_rnic_set_fatal(dt_driver_sim_rnic(2 * host));
        dt_rnic_set_fatal(dt_driver_sim_rnic(2 * host + 1));
        SetStopped(host, true);
        Pass(100 * DT_NS_PER_MS);
    }
    /* Tests and flushes a message that has arrived. */
    void ReceiveAndFlush(int i)
    {
        void *data = to[i], *flush = nullptr;
        int bytes = 0, done = 0;

        On(1);
        ASSERT_EQ(ncclSuccess, net->test(received[i], &done, &bytes));
        ASSERT_TRUE(done);
        EXPECT_EQ(kBytes, bytes);
        ASSERT_EQ(ncclSuccess, net->iflush(recv, 1, &data, &bytes, &to_mhandle, &flush));
        ASSERT_TRUE(flush);
        done = 0;
        for (uint64_t end_ns = Now() + DT_NS_PER_S; !done && Now() < end_ns; Step()) {
            On(1);
            ASSERT_EQ(ncclSuccess, net->test(flush, &done, nullptr));
        }
        EXPECT_TRUE(done);
    }
    /* Until each send is done or has failed; those that were done. */
    int AwaitSends()
    {
        int answered = 0, good = 0;

        SetStopped(0, false);
        for (uint64_t end_ns = Now() + 5 * DT_NS_PER_S; answered < kMessages && Now() < end_ns; Step()) {
            On(0);
            int done = 0;
            ncclResult_t result = net->test(sent[answered], &done, nullptr);
            answered += done || result != ncclSuccess;
            good += done;
        }
        EXPECT_EQ(kMessages, answered);
        return good;
    }

    std::string warnings;
    uint8_t from[kMessages][kBytes] = {}, to[kMessages][kBytes] = {};
    void *sent[kMessages] = {}, *received[kMessages] = {};
};

TEST_F(Close, ThatIsLostWithItsProcessIsNoErrorWhereTheAcknowledgementsCame)
{
    ReceiveAllAndClose(true);
    Kill(1);
    EXPECT_EQ(kMessages, AwaitSends());
    EXPECT_EQ("", warnings);
}

TEST_F(Close, ThatIsLostWithItsProcessAndTheAcknowledgementsIsADeadPeer)
{
    ReceiveAllAndClose(true);
    dt_verbs_sim_set(0, DT_VERBS_CQ_SILENT);
    Kill(1);
    EXPECT_EQ(0, AwaitSends());
    EXPECT_NE(std::string::npos, warnings.find("the peer is dead")) << warnings;
}

/* It lies in the sender's memory when the receiver's process dies and takes the control channel with it. */
TEST_F(Close, ThatCameInBandOutlivesItsProcess)
{
    ReceiveAllAndClose(false);
    dt_verbs_sim_set(0, DT_VERBS_CQ_SILENT);
    Kill(1);
    EXPECT_EQ(kMessages, AwaitSends());
    EXPECT_EQ("", warnings);
}

TEST_F(Close, ThatIsReadCompletesSendsOfASilentCompletionQueue)
{
    ReceiveAllAndClose(true);
    dt_verbs_sim_set(0, DT_VERBS_CQ_SILENT);
    EXPECT_EQ(kMessages, AwaitSends());
    EXPECT_EQ("", warnings);
}

/* Detour's thread finds the sender dead long before NCCL calls. */
TEST_F(Close, OfASenderThatDiesLeavesArrivedMessagesToBeTestedAndFlushed)
{
    void *data = to[0], *request = nullptr;
    int bytes = kBytes, tag = 0, done = -1;

    PostReceives();
    PostSends();
    Pass(DT_NS_PER_MS);
    EXPECT_EQ(kMessages, AwaitSends());
    Kill(0);
    for (int i = 0; i < kMessages; i++)
        ReceiveAndFlush(i);
    EXPECT_EQ("", warnings);
    On(1);
    ASSERT_EQ(ncclSuccess, net->irecv(recv, 1, &data, &bytes, &tag, &to_mhandle, &request));
    ASSERT_TRUE(request);
    Pass(100 * DT_NS_PER_MS);
    On(1);
    EXPECT_EQ(ncclRemoteError, net->test(request, &done, nullptr));
    EXPECT_EQ(0, done);
    EXPECT_NE(std::string::npos, warnings.find("irecv of message 4, but the peer is dead")) << warnings;
}
} // namespace
