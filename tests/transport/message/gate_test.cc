/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/gate.h"

#include "tests/transport/message/ends.h"
#include "transport/inject.h"
#include "transport/message/send.h"

namespace
{
uint64_t clock_ns;

class Gate : public detour_test::Ends
{
  protected:
    Gate()
        : Ends([](dt_params &, dt_net_options &options) { options.now_ns = [](void *) { return clock_ns; }; })
    {
        clock_ns = now_ns;
    }
    void Run(const char *command)
    {
        char answer[512] = "";
        EXPECT_EQ(DT_OK, dt_net_inject_command(there.net, command, answer, sizeof answer)) << answer;
    }
    /* A message that is READY and at the gate. */
    dt_send_slot *Submit()
    {
        dt_send_slot *slot = nullptr;
        receive = Irecv(100);
        EXPECT_TRUE(Until([&] { return (slot = dt_sender_matching_slot(s)) != nullptr; }));
        EXPECT_TRUE(dt_sender_fill_part(slot, 0, from.data(), 100, from_memory));
        slot->part[0].ready_bytes = 100;
        dt_sender_hand_over(s, slot);
        clock_ns = now_ns;
        dt_gate_hand_over(s, slot);
        return slot;
    }
    void Finish(dt_send_slot *slot)
    {
        ASSERT_TRUE(dt_sender_post_oldest(s));
        Wait(receive);
        ASSERT_TRUE(Until([&] {
            dt_sender_progress(s);
            return slot->state == DT_SEND_DONE;
        }));
        dt_sender_report_parts(slot, 1);
    }
    dt_gate *gate()
    {
        return &s->gate;
    }
    dt_request *receive = nullptr;
};

TEST_F(Gate, IsIdleWithoutRulesAndWhileNoMessageIsHeld)
{
    EXPECT_TRUE(dt_gate_is_idle(gate()));
    EXPECT_EQ(DT_NEVER_NS, gate()->due_ns);
    Run("add latency=30ms");
    EXPECT_FALSE(dt_gate_is_idle(gate()));
    Run("clear");
    EXPECT_FALSE(dt_gate_is_idle(gate())) << "until the owner has seen it";
    EXPECT_TRUE(dt_gate_may_post(s));
    EXPECT_TRUE(dt_gate_is_idle(gate()));
}

TEST_F(Gate, AMessageIsHeldUntilItIsDue)
{
    Run("add latency=30ms");
    dt_send_slot *slot = Submit();
    uint64_t due_ns = clock_ns + 30 * DT_NS_PER_MS;

    dt_store_seq_cst(&sender->nic->has_news, 0u);
    EXPECT_FALSE(dt_gate_may_post(s));
    EXPECT_EQ(due_ns, gate()->message_ns);
    EXPECT_EQ(due_ns, gate()->due_ns);
    EXPECT_EQ(1u, sender->nic->has_news) << "the device thread has to look at it";
    clock_ns = due_ns - 1;
    EXPECT_FALSE(dt_gate_may_post(s));
    EXPECT_FALSE(dt_sender_post_oldest(s));
    EXPECT_EQ(DT_SEND_READY, slot->state);
    clock_ns = due_ns;
    EXPECT_TRUE(dt_gate_may_post(s));
    EXPECT_EQ(DT_NEVER_NS, gate()->message_ns);
    EXPECT_EQ(DT_NEVER_NS, gate()->due_ns);
    Finish(slot);
}

TEST_F(Gate, WithoutItsRuleAHeldMessageIsDueAtOnceAndTheGateIdleAfterIt)
{
    Run("add latency=30ms");
    dt_send_slot *slot = Submit();
    EXPECT_FALSE(dt_gate_may_post(s));
    Run("clear");
    EXPECT_FALSE(dt_gate_is_idle(gate()));
    EXPECT_TRUE(dt_gate_may_post(s));
    Finish(slot);
    EXPECT_TRUE(dt_gate_is_idle(gate()));
}

TEST_F(Gate, TheDelayDependsOnTheBytesOfAllParts)
{
    Run("add rate=8Mbit");
    dt_send_slot *slot = Submit();
    EXPECT_FALSE(dt_gate_may_post(s));
    EXPECT_EQ(clock_ns + 100 * DT_NS_PER_US, gate()->message_ns) << "100 bytes at 1 MB/s";
    clock_ns = gate()->message_ns;
    Finish(slot);
}

TEST_F(Gate, AnEarlyPayloadIsHeldApartFromMessages)
{
    uint64_t due_ns = 0;
    ASSERT_EQ(DT_OK, dt_gate_open_early(s));
    Run("add latency=5ms");
    dt_gate_hand_over_early(s, 7, 100);
    EXPECT_FALSE(dt_gate_may_post_early(s, 7, &due_ns));
    EXPECT_EQ(clock_ns + 5 * DT_NS_PER_MS, due_ns);
    dt_gate_hold_early(s, due_ns);
    EXPECT_EQ(due_ns, gate()->due_ns);
    EXPECT_EQ(DT_NEVER_NS, gate()->message_ns);
    clock_ns = due_ns;
    EXPECT_TRUE(dt_gate_may_post_early(s, 7, &due_ns));
    dt_gate_posted_early(s, 7);
    dt_gate_posted_early(s, 8); /* was never at the gate */
    dt_gate_hold_early(s, DT_NEVER_NS);
    EXPECT_EQ(DT_NEVER_NS, gate()->due_ns);
}

TEST_F(Gate, OfAMessageAndAnEarlyPayloadTheEarlierWakesTheDeviceThread)
{
    Run("add latency=30ms");
    dt_send_slot *slot = Submit();
    EXPECT_FALSE(dt_gate_may_post(s));
    uint64_t message_ns = gate()->message_ns;
    dt_gate_hold_early(s, message_ns - 1);
    EXPECT_EQ(message_ns - 1, gate()->due_ns);
    dt_gate_hold_early(s, message_ns + 1);
    EXPECT_EQ(message_ns, gate()->due_ns);
    dt_gate_hold_early(s, DT_NEVER_NS);
    EXPECT_EQ(message_ns, gate()->due_ns);
    clock_ns = message_ns;
    Finish(slot);
}

TEST_F(Gate, SendersAreNumberedInTheOrderOfTheirSetUp)
{
    EXPECT_EQ(0u, gate()->number);
    EXPECT_EQ(1u, sender->environment->inject->senders);
    dt_gate other = *gate();
    ASSERT_EQ(DT_OK, dt_gate_open(s));
    EXPECT_EQ(1u, gate()->number);
    EXPECT_EQ(2u, sender->environment->inject->senders);
    dt_gate_close(&other);
}

TEST_F(Gate, WithoutMemoryForItsFlowItDoesNotOpen)
{
    dt_gate open = *gate();
    detour_test_fail_alloc(0);
    EXPECT_EQ(DT_NO_MEMORY, dt_gate_open(s));
    EXPECT_TRUE(detour_test_alloc_failed());
    *gate() = open;
}
} // namespace
