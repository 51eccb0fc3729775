/* SPDX-License-Identifier: Apache-2.0 */
/* When the device thread takes a connection that NCCL is not calling, and the drain period of a lost peer. */
#include "transport/takeover.h"

#include "tests/transport/two_nets.h"
#include "transport/message/connection.h"
#include "transport/service_state.h"

namespace
{
class Takeover : public detour_test::TwoNets
{
  protected:
    void SetUp() override
    {
        Listen();
        Establish();
        Register(from, to, sizeof to);
        dt_takeover_observe(receiver, now_ns);
        takeover_ns = here.params.idle_takeover_us * DT_NS_PER_US;
        ASSERT_GT(takeover_ns, 0u);
    }
    void PostReceive()
    {
        ASSERT_NE(nullptr, Irecv(to, sizeof to));
    }
    bool HasLostPeer() const
    {
        return dt_load_relaxed(&receiver->notices) & DT_NOTICE_PEER_LOST;
    }

    uint8_t from[64] = {}, to[64] = {};
    uint64_t takeover_ns = 0;
};

TEST_F(Takeover, IsDueAfterTheTimeWithoutACallWhileARequestIsOpen)
{
    EXPECT_FALSE(dt_takeover_is_due(receiver, now_ns + 10 * takeover_ns)) << "no request is open";
    PostReceive();
    EXPECT_FALSE(dt_takeover_is_due(receiver, now_ns + 10 * takeover_ns)) << "NCCL has called since";
    EXPECT_TRUE(dt_takeover_observe(receiver, now_ns));
    EXPECT_FALSE(dt_takeover_is_due(receiver, now_ns + takeover_ns - 1));
    EXPECT_TRUE(dt_takeover_is_due(receiver, now_ns + takeover_ns));
    receiver->open_requests--; // the test ends before the message comes
}

TEST_F(Takeover, NeverWhileNcclIsInsideACall)
{
    PostReceive();
    dt_takeover_observe(receiver, now_ns);
    ASSERT_TRUE(dt_owner_enter(&receiver->owner));
    dt_takeover_observe(receiver, now_ns);
    EXPECT_FALSE(dt_takeover_is_due(receiver, now_ns + 10 * takeover_ns));
    dt_owner_leave(&receiver->owner);
    receiver->open_requests--;
}

TEST_F(Takeover, ARunProgressesAndStartsTheIntervalAgain)
{
    PostReceive();
    dt_takeover_observe(receiver, now_ns);
    ASSERT_TRUE(dt_owner_take(&receiver->owner));
    dt_takeover_run(receiver, now_ns + takeover_ns);
    dt_owner_give_back(&receiver->owner);
    EXPECT_EQ(1u, receiver->meter.row->takeover_count);
    EXPECT_FALSE(dt_takeover_is_due(receiver, now_ns + 2 * takeover_ns - 1));
    EXPECT_TRUE(dt_takeover_is_due(receiver, now_ns + 2 * takeover_ns));
    receiver->open_requests--;
}

TEST_F(Takeover, ADeadPeerIsReportedAfterTheDrainPeriod)
{
    dt_takeover_observe(receiver, now_ns);
    receiver->service->is_peer_lost = true;
    EXPECT_TRUE(dt_takeover_observe(receiver, now_ns)) << "a draining connection is in use";
    EXPECT_TRUE(dt_takeover_observe(receiver, now_ns + DT_PEER_DEAD_WAIT_NS - 1));
    EXPECT_FALSE(HasLostPeer());
    dt_takeover_observe(receiver, now_ns + DT_PEER_DEAD_WAIT_NS);
    EXPECT_TRUE(HasLostPeer());
}

TEST_F(Takeover, ACompletionExtendsTheDrainPeriod)
{
    receiver->service->is_peer_lost = true;
    dt_takeover_observe(receiver, now_ns);
    dt_count(&receiver->completions, 1);
    dt_takeover_observe(receiver, now_ns + DT_PEER_DEAD_WAIT_NS);
    EXPECT_FALSE(HasLostPeer());
    dt_takeover_observe(receiver, now_ns + 2 * DT_PEER_DEAD_WAIT_NS);
    EXPECT_TRUE(HasLostPeer());
}

TEST_F(Takeover, AClosedSenderIsWaitedForLongerAndOnlyWithRequestsOpen)
{
    dt_connection_notify(receiver, DT_NOTICE_PEER_CLOSED);
    dt_takeover_observe(receiver, now_ns);
    dt_takeover_observe(receiver, now_ns + 10 * DT_PEER_CLOSED_WAIT_NS);
    EXPECT_FALSE(HasLostPeer());
    receiver->open_requests++;
    dt_takeover_observe(receiver, now_ns);
    dt_takeover_observe(receiver, now_ns + DT_PEER_CLOSED_WAIT_NS - 1);
    EXPECT_FALSE(HasLostPeer());
    dt_takeover_observe(receiver, now_ns + DT_PEER_CLOSED_WAIT_NS);
    EXPECT_TRUE(HasLostPeer());
    receiver->open_requests--;
}

TEST_F(Takeover, ProgressIsTheLastCompletionOrTheLastTimeWithoutRequests)
{
    dt_takeover_observe(receiver, now_ns + 1);
    EXPECT_EQ(now_ns + 1, receiver->progress_ns);
    receiver->open_requests++;
    dt_takeover_observe(receiver, now_ns + 2);
    EXPECT_EQ(now_ns + 1, receiver->progress_ns);
    dt_count(&receiver->completions, 1);
    dt_takeover_observe(receiver, now_ns + 3);
    EXPECT_EQ(now_ns + 3, receiver->progress_ns);
    receiver->open_requests--;
}
} // namespace
