/* SPDX-License-Identifier: Apache-2.0 */
/* dt_net_close(): what lingers after it, for how long, and what the peer gets. */
#include "transport/closing.h"

#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"
#include "transport/message/connection.h"
#include "transport/message/send.h"
#include "transport/session/session.h"

namespace
{
class Closing : public detour_test::TwoNets
{
  protected:
    explicit Closing(const Adjust &adjust = nullptr) : TwoNets(adjust) {}
    void SetUp() override
    {
        Listen();
        Establish();
    }
    static bool IsServing(const dt_nic *nic)
    {
        return !dt_list_is_empty(&nic->service->connections);
    }
    static bool HasSession(const dt_nic *nic)
    {
        return !dt_list_is_empty(&nic->service->sessions);
    }
};

TEST_F(Closing, EndsAtOnceAndTheSessionLingersUntilThePeerHasAcknowledgedClose)
{
    dt_nic *nic = receiver->nic;
    ASSERT_TRUE(IsServing(nic));
    dt_net_close(receiver);
    receiver = nullptr;
    EXPECT_FALSE(IsServing(nic));
    EXPECT_TRUE(HasSession(nic));
    StepUntil([&] { return !HasSession(nic); });
    EXPECT_TRUE(sender->session->has_peer_closed);
    EXPECT_TRUE(dt_load_relaxed(&sender->notices) & DT_NOTICE_PEER_CLOSED);
    EXPECT_EQ(0u, sender->peer_close_sequence);
}

TEST_F(Closing, WithoutStagedMessagesAConnectionDoesNotLinger)
{
    EXPECT_FALSE(dt_closing_has_staged(sender));
    EXPECT_FALSE(dt_closing_nic_has_staged(sender->nic));
    EXPECT_EQ(DT_NEVER_NS, dt_closing_progress(sender, now_ns));
    dt_closing_end_lingering(sender->nic); // only ends closed connections
    EXPECT_TRUE(IsServing(sender->nic));
}

/* A sender whose messages go over the host path, to a receiver that has posted no irecv. */
class StagedClosing : public Closing
{
  protected:
    StagedClosing()
        : Closing([](dt_params &params, dt_net_options &) {
              snprintf(params.hostpath, sizeof params.hostpath, "on");
          })
    {
    }
    void SetUp() override
    {
        Closing::SetUp();
        Register(from, to, sizeof from);
        memset(from, 0x5a, sizeof from);
        SendAndTest();
        ASSERT_TRUE(dt_closing_has_staged(sender));
    }
    /* The isend is done when the payload is copied to the stage. */
    void SendAndTest()
    {
        dt_request *request = nullptr;
        StepUntil([&] { return (request = Isend(from, sizeof from)) != nullptr; });
        StepUntil([&] { return IsDone(&request); });
    }
    dt_nic *CloseSender()
    {
        dt_nic *nic = sender->nic;
        dt_net_deregister(sender, from_memory);
        dt_net_close(sender);
        sender = nullptr;
        return nic;
    }

    uint8_t from[1000] = {}, to[1000] = {};
};

TEST_F(StagedClosing, DeliversTheMessageAfterTheClose)
{
    dt_nic *nic = CloseSender();
    EXPECT_TRUE(dt_closing_nic_has_staged(nic));
    dt_request *request = Irecv(to, sizeof to);
    ASSERT_NE(nullptr, request);
    StepUntil([&] { return IsDone(&request); });
    EXPECT_EQ(0, memcmp(from, to, sizeof to));
    StepUntil([&] { return !IsServing(nic); });
    EXPECT_FALSE(dt_closing_nic_has_staged(nic));
}

TEST_F(StagedClosing, GivesUpAfterTheLingerTimeWithOneWarning)
{
    detour_test::ExpectWarning("1 staged messages could not be delivered within");
    dt_nic *nic = CloseSender();
    uint64_t linger_ns = there.params.linger_ms * DT_NS_PER_MS;
    Step();
    now_ns += linger_ns - DT_NS_PER_MS;
    Step();
    EXPECT_TRUE(IsServing(nic)) << "the linger time is not over";
    now_ns += DT_NS_PER_MS;
    Step();
    EXPECT_FALSE(IsServing(nic));
    EXPECT_EQ(1u, detour_test::WarningCount());
}

TEST_F(StagedClosing, EndLingeringEndsItUndelivered)
{
    dt_nic *nic = CloseSender();
    ASSERT_TRUE(IsServing(nic));
    dt_closing_end_lingering(nic);
    EXPECT_FALSE(IsServing(nic));
    EXPECT_TRUE(HasSession(nic)) << "the peer gets CLOSE";
}
} // namespace
