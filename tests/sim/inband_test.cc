// SPDX-License-Identifier: Apache-2.0
/* The control network and a path fail together: frames about the path go in band, over one that works. */
#include <gtest/gtest.h>

#include <cstring>

#include "base/clock.h"
#include "tests/sim/two_hosts.h"
#include "tests/sim/wire_sim.h"

namespace
{
using detour_test::Now;

const uint64_t kDeadMs = 2000;

void Set(void *, dt_params *params)
{
    params->timeout_exponent = 10;
    params->retry_count = 2;
    params->fence_ms = 100;
    params->dead_ms = kDeadMs;
}

class InBand : public detour_test::TwoHosts
{
  protected:
    InBand() : TwoHosts(DT_NS_PER_MS) {}

    void SetUp() override
    {
        Hosts hosts(2, Set);

        TwoHosts::Start(hosts);
        Connect();
        Register(from_, to_, sizeof from_);
        ASSERT_FALSE(HasFailure());
        ASSERT_TRUE(Move(DT_NS_PER_S));
    }
    /* Nothing passes on the control network for the rest of the test, and no end is informed of that. */
    static void LoseControlNetwork()
    {
        dt_sim_network_hold(dt_plugin_sim_control(), Now() + 1000 * DT_NS_PER_S);
    }
    /* The cable of path 0 or 1, whose devices have the same number at both hosts. */
    static void SetCable(uint32_t path, bool is_cut)
    {
        dt_sim_cut(dt_driver_sim_port(path), dt_driver_sim_port(2 + path), is_cut);
        dt_sim_cut(dt_driver_sim_port(2 + path), dt_driver_sim_port(path), is_cut);
    }
    /* A message from host 0 to host 1; false: it did not arrive in time, or failed (at both ends: `errors`).
     */
    bool Move(uint64_t limit_ns)
    {
        void *to = to_;
        int bytes = sizeof to_, tag = 0, is_sent = 0, is_received = 0;
        bool has_failed[2] = {};

        from_[0]++;
        for (uint64_t end_ns = Now() + limit_ns; !(is_sent && is_received) && Now() < end_ns; Step()) {
            On(1);
            if (!has_failed[1] && !received_)
                has_failed[1] =
                    net->irecv(recv, 1, &to, &bytes, &tag, &to_mhandle, &received_) != ncclSuccess;
            else if (!has_failed[1] && !is_received)
                has_failed[1] = net->test(received_, &is_received, nullptr) != ncclSuccess;
            On(0);
            if (!has_failed[0] && !sent_)
                has_failed[0] = net->isend(send, from_, bytes, tag, from_mhandle, &sent_) != ncclSuccess;
            else if (!has_failed[0] && !is_sent)
                has_failed[0] = net->test(sent_, &is_sent, nullptr) != ncclSuccess;
            if (has_failed[0] && has_failed[1])
                break;
        }
        errors = has_failed[0] + has_failed[1];
        if (!is_sent || !is_received)
            return false;
        sent_ = received_ = nullptr;
        return memcmp(from_, to_, sizeof to_) == 0;
    }
    /* A message every 20 ms. */
    void MoveFor(uint64_t duration_ns)
    {
        for (uint64_t end_ns = Now() + duration_ns; Now() < end_ns && !HasFailure();) {
            ASSERT_TRUE(Move(DT_NS_PER_S));
            for (uint64_t next_ns = Now() + 20 * DT_NS_PER_MS; Now() < next_ns;)
                Step();
        }
    }

    /* A send to a peer that has closed: the error is the answer of test. */
    bool FailsWithin(uint64_t limit_ns)
    {
        int is_done = 0;

        for (uint64_t end_ns = Now() + limit_ns; Now() < end_ns; Step()) {
            On(0);
            if (!sent_)
                EXPECT_EQ(ncclSuccess, net->isend(send, from_, sizeof from_, 0, from_mhandle, &sent_));
            else if (net->test(sent_, &is_done, nullptr) != ncclSuccess)
                return true;
        }
        return false;
    }

    int errors = 0;

  private:
    uint8_t from_[4096] = {}, to_[4096] = {};
    void *sent_ = nullptr, *received_ = nullptr;
};

TEST_F(InBand, MessagesGoOnWhileControlNetworkAndPathAreAway)
{
    LoseControlNetwork();
    SetCable(0, true);
    MoveFor(5 * DT_NS_PER_S);
}

TEST_F(InBand, ThePathComesBackWithoutTheControlNetwork)
{
    static int ups;

    ups = 0;
    dt_log_set_sink([](void *, dt_log_level, const char *, int,
                       const char *text) { ups += strstr(text, "is in use again as epoch ") != nullptr; },
                    nullptr, DT_LOG_INFO);
    LoseControlNetwork();
    SetCable(0, true);
    MoveFor(2 * DT_NS_PER_S);
    SetCable(0, false);
    MoveFor(5 * DT_NS_PER_S);
    EXPECT_EQ(2, ups) << "both ends";
    SetCable(1, true); /* over the path that came back */
    MoveFor(3 * DT_NS_PER_S);
}

/* The paths fail in turn for a long time: frames never need the other channel. */
TEST_F(InBand, PathsMayFailInTurnForAsLongAsOneWorks)
{
    LoseControlNetwork();
    for (uint32_t i = 0; i < 6 && !HasFailure(); i++) {
        SetCable(i % 2, true);
        MoveFor(2 * DT_NS_PER_S);
        SetCable(i % 2, false);
        MoveFor(5 * DT_NS_PER_S);
    }
}

TEST_F(InBand, APeerThatNothingButItsPathsReachesLives)
{
    LoseControlNetwork();
    MoveFor(2 * kDeadMs * DT_NS_PER_MS);
    for (uint64_t end_ns = Now() + 2 * kDeadMs * DT_NS_PER_MS; Now() < end_ns;)
        Step(); /* idle */
    EXPECT_TRUE(Move(DT_NS_PER_S));
}

/* As a firewall does that answers with resets. */
TEST_F(InBand, APeerWhoseAddressRefusesLivesAsLongAsAProbeIsAnswered)
{
    for (uint32_t host = 0; host < 2; host++)
        dt_sim_network_kill(dt_plugin_sim_control(), host, DT_STREAM_DESTROYED);
    MoveFor(5 * DT_NS_PER_S);
    SetCable(0, true);
    MoveFor(5 * DT_NS_PER_S);
    SetCable(1, true);
    EXPECT_FALSE(Move(60 * DT_NS_PER_S));
    EXPECT_EQ(2, errors) << "both ends report that the peer is dead";
}

TEST_F(InBand, AnEndThatClosesReachesThePeer)
{
    LoseControlNetwork();
    SetCable(0, true);
    MoveFor(DT_NS_PER_S);
    On(1);
    ASSERT_EQ(ncclSuccess, net->deregMr(recv, to_mhandle));
    ASSERT_EQ(ncclSuccess, net->closeRecv(recv));
    recv = to_mhandle = nullptr;
    On(0);
    EXPECT_TRUE(FailsWithin(DT_NS_PER_S)) << "not after DETOUR_DEAD_MS";
}

TEST_F(InBand, APeerThatNothingReachesIsGivenUpInTime)
{
    LoseControlNetwork();
    MoveFor(DT_NS_PER_S);
    SetCable(0, true);
    SetCable(1, true);
    uint64_t begun_ns = Now();
    EXPECT_FALSE(Move(60 * DT_NS_PER_S));
    EXPECT_EQ(2, errors) << "both ends report it";
    EXPECT_GE(Now() - begun_ns, kDeadMs * DT_NS_PER_MS);
    /* A failure of both is found when the retries of probes are over: 4.3 s (DT_PROBE_TIMEOUT_EXPONENT). */
    EXPECT_LT(Now() - begun_ns, (kDeadMs + 6000) * DT_NS_PER_MS);
}
} // namespace
