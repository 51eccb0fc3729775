/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of devices that injection rules make, below the plugin. Each rule is shown to have acted. */
#include <cstring>

#include "tests/plugin/fault_fixture.h"

namespace
{
using detour_test::AddRule;
using detour_test::CountLines;
using detour_test::Fault;
using detour_test::Fired;
using detour_test::Inject;
using detour_test::net;
using detour_test::Order;
using detour_test::Pair;
using detour_test::ReadEvents;
using detour_test::Traffic;
using detour_test::Until;

TEST_F(Fault, ARuleTakesADeviceDownAndItComesBack)
{
    for (int round = 1; round <= 3; round++) {
        int settled = CountLines("is settled"), used = CountLines("is in use again");
        std::string rule = AddRule(round % 2 ? "device=soft0 down" : "device=soft2 down");
        Until([&] {
            traffic->Move(20);
            return (CountLines("is settled") > settled && Fired(rule) >= 1) || HasFailure();
        });
        Inject("remove " + rule);
        Until([&] {
            traffic->Move(20);
            return CountLines("is in use again") >= used + 2 || HasFailure();
        });
        traffic->Move(50);
    }
    EXPECT_GE(CountLines("is fenced"), 3);
    for (const char *text :
         {"soft0: PORT_ERROR", "soft0: PORT_ACTIVE", "soft2: PORT_ERROR", "soft2: PORT_ACTIVE"}) {
        auto events = ReadEvents(DT_EVENT_KIND_DEVICE);
        EXPECT_TRUE(std::any_of(events.begin(), events.end(), [&](const dt_event_record &event) {
            return !strcmp(event.text, text);
        })) << text;
    }
}

TEST_F(Fault, ARuleFlapsADevice)
{
    std::string rule = AddRule("device=soft0 flap=10ms/200ms");
    Until([&] {
        traffic->Move(20);
        return CountLines("is settled") >= 3 || HasFailure();
    });
    EXPECT_GE(Fired(rule), 3u);
    Inject("remove " + rule);
    traffic->Move(200);
}

TEST_F(Fault, ARuleTurnsACompletionIntoAnError)
{
    std::string rule = AddRule("device=soft0 status=retry_exceeded count=1");
    Until([&] {
        traffic->Move(20);
        return CountLines("is settled") >= 1 || HasFailure();
    });
    EXPECT_EQ(1u, Fired(rule));
    EXPECT_GE(CountLines("transport retry count exceeded"), 1);
    traffic->Move(100);
}

/* The device's queue pairs cannot be moved to ERR: the switch waits for DETOUR_FENCE_MS, not for ever. */
TEST_F(Fault, ARuleHangsTheFenceAndLetsItGo)
{
    std::string hang = AddRule("device=soft2 hang=modify_qp count=1");
    std::string error = AddRule("device=soft2 event=qp_fatal");
    /* Messages in flight when the sender stopped wait for the fence. */
    Until([&] {
        traffic->PostReceives(1 << 20);
        traffic->PostSends(1 << 20);
        traffic->Reap();
        return Fired(hang) >= 1 || HasFailure();
    });
    EXPECT_EQ(1u, Fired(error));
    Inject("clear");
    Until([&] {
        traffic->Move(20);
        return CountLines("is settled") >= 1 || HasFailure();
    });
    traffic->Move(100);
}

/* The device can neither move its queue pairs to ERR nor destroy them: nothing of them is sent again before
 * it can, and the report calls the fence unproven. */
TEST_F(Fault, ADestructionThatIsRefusedIsNoProofOfTheFence)
{
    std::string modify = AddRule("device=soft2 fail=modify_qp");
    std::string destroy = AddRule("device=soft2 fail=destroy_qp error=EBUSY");
    detour_test::ExpectWarning("cannot go to ERR");
    detour_test::ExpectWarning("cannot be destroyed");
    AddRule("device=soft2 event=qp_fatal");
    Until([&] {
        traffic->PostReceives(1 << 20); /* until the rules are in force, and as long as it takes */
        traffic->PostSends(1 << 20);
        traffic->Reap();
        return CountLines("the device refuses to destroy the queue pairs") >= 1 || HasFailure();
    });
    EXPECT_GE(Fired(modify), 1u);
    EXPECT_GE(Fired(destroy), 1u);
    EXPECT_EQ(0, CountLines("is fenced"));
    EXPECT_EQ(0, CountLines("is settled"));
    auto events = ReadEvents(DT_EVENT_KIND_PATH);
    EXPECT_EQ(1, std::count_if(events.begin(), events.end(), [](const dt_event_record &event) {
                  return strstr(event.text, "fence unproven path 0 epoch 0: the device refuses to destroy");
              }));
    Inject("clear");
    Until([&] {
        traffic->Move(20);
        return (CountLines("is settled") >= 1 && CountLines("is fenced") >= 1) || HasFailure();
    });
    EXPECT_EQ(1, CountLines("us (destroyed), agreed"));
    traffic->Move(100);
}

/* The receiver's device discards what was not polled once its queue pairs are in the error state (ionic), and
 * takes its time for that. Its operator takes it out of use under load: the sender stops first, so no message
 * that the sender counts as acknowledged is discarded. */
TEST_F(Fault, AReceiverFencesADeviceThatDiscardsCompletionsWithoutALoss)
{
    auto work = [&] {
        traffic->PostReceives(1 << 20);
        traffic->PostSends(1 << 20);
        traffic->Reap();
    };
    AddRule("device=soft2 personality=ionic");
    for (int round = 1; round <= 3 && !HasFailure(); round++) {
        std::string hang = AddRule("device=soft2 hang=modify_qp");
        char answer[256];
        traffic->Move(20); /* the rules are in force */
        int settled = CountLines("is settled"), fenced = CountLines("is fenced");
        int ups[] = {CountLines("path 0, soft0 to soft2, is in use again"),
                     CountLines("path 0, soft2 to soft0, is in use again")};
        ASSERT_EQ(DT_OK, dt_net_drain(dt_plugin_current()->net, "soft2", true, answer, sizeof answer));
        Until([&] {
            work();
            return Fired(hang) > 0 || HasFailure();
        });
        for (int i = 0; i < 1000 && !HasFailure(); i++)
            work(); /* the device is slow; soon all that can be posted waits for the fence */
        Inject("remove " + hang);
        Until([&] {
            work();
            return (CountLines("is settled") > settled && CountLines("is fenced") > fenced) || HasFailure();
        });
        ASSERT_EQ(DT_OK, dt_net_drain(dt_plugin_current()->net, "soft2", false, answer, sizeof answer));
        Until([&] {
            work();
            return (CountLines("path 0, soft0 to soft2, is in use again") > ups[0] &&
                    CountLines("path 0, soft2 to soft0, is in use again") > ups[1]) ||
                   HasFailure();
        });
    }
    EXPECT_GE(CountLines("is fenced: soft2 was drained by the operator"), 1);
    EXPECT_EQ(0, CountLines("has not confirmed"));
}

/* In the error state neither device takes a post (mana), so that no marker shows what is flushed: the fence
 * of each end is proven by the destruction of its queue pairs. */
class RefusingDevices : public Fault
{
  protected:
    RefusingDevices() /* rules of the setting are in force before a queue pair is made */
    {
        setenv("DETOUR_INJECT", "device=soft0 personality=mana; device=soft2 personality=mana", 1);
    }
};

TEST_F(RefusingDevices, AreFencedByDestruction)
{
    detour_test::ExpectWarning("soft0: QP ");
    detour_test::ExpectWarning("soft2: QP ");
    traffic->PostReceives(58);
    traffic->PostSends(58);
    Order("soft0", "down");
    AwaitReports(1);
    traffic->Move(50);
    EXPECT_GE(Fired("1"), 1u);
    EXPECT_GE(Fired("2"), 1u);
    EXPECT_EQ(0, CountLines("us (flushed), agreed"));
    EXPECT_GE(CountLines("us (destroyed), agreed"), 1) << "the receiver's, however long it takes";
}

/* The driver reports that a completion queue is lost, although its queue pairs work. */
TEST_F(Fault, ACompletionQueueThatFailsIsAFaultOfItsPath)
{
    std::string rule = AddRule("device=soft0 event=cq_error");
    Until([&] {
        traffic->Move(20);
        return CountLines("path 0, soft0 to soft2, epoch 0 is settled: CQ error;") >= 1 || HasFailure();
    });
    EXPECT_EQ(1u, Fired(rule));
    Inject("clear");
    Until([&] {
        traffic->Move(20);
        return CountLines("path 0, soft0 to soft2, is in use again") >= 1 || HasFailure();
    });
}

/*
 * The queue pair that messages are sent over is in the error state, and no completion reports it. The probe's
 * is well, the peer has not got the messages that came later, and the retries would take minutes.
 */
TEST_F(Fault, ARuleLosesTheLastCompletionAndTheDeviceIsAsked)
{
    std::string rule = AddRule("device=soft0 status=lost count=1");
    Until([&] {
        traffic->PostReceives(1 << 20); /* until the rule is in force, and as long as it takes */
        traffic->PostSends(1 << 20);
        traffic->Reap();
        return CountLines(" is in the error state, and no completion reports it") >= 1 || HasFailure();
    });
    EXPECT_EQ(1u, Fired(rule));
    traffic->Move(100);
    EXPECT_EQ(1, CountLines("path 0, soft0 to soft2, epoch 0 is settled: its completion queue is silent: "
                            "queue pair "));
}

/* The device does not answer that question. All others, and all of NCCL's calls, go on. */
TEST_F(Fault, ARuleHangsTheQueryAndNoOtherCallWaits)
{
    Pair same(net), beside(net);
    same.Connect(0, 2);
    beside.Connect(1, 3);
    ASSERT_FALSE(HasFailure());
    Traffic of_same(same), of_beside(beside);
    std::string hang = AddRule("device=soft0 hang=query_qp");
    std::string lost = AddRule("device=soft0 status=lost count=1");
    Until([&] {
        traffic->PostReceives(1 << 20);
        traffic->PostSends(1 << 20);
        traffic->Reap();
        return Fired(hang) >= 1 || HasFailure();
    });
    EXPECT_EQ(1u, Fired(lost));
    of_same.Move(300);
    of_beside.Move(300);
    EXPECT_EQ(0, CountLines("is settled")) << "the device has not answered";
    Inject("remove " + hang);
    Until([&] {
        traffic->Reap();
        return CountLines("is settled: its completion queue is silent: queue pair ") >= 1 || HasFailure();
    });
    traffic->Move(100);
    of_same.Move(100);
}

/*
 * A backup that hangs where queue pairs are made or connected: connections over another device are set up
 * without it, carry messages, register and close, and use the backup once that answers.
 */
class HangingBackup : public Fault
{
  protected:
    void DelaysNoOther(const std::string &call)
    {
        detour_test::ExpectWarning("soft1 has not answered for ");
        std::string hang = AddRule("device=soft1 hang=" + call);
        Pair first(net), second(net), closed(net);
        Until([&] { /* the rule is in force once it has acted on one */
                    first.Close();
                    first.Connect(0, 2);
                    return Fired(hang) > 0 || HasFailure();
        });
        second.Connect(0, 2);
        closed.Connect(0, 2);
        ASSERT_FALSE(HasFailure());
        EXPECT_EQ(3, CountLines("soft1 has not answered for "));
        closed.Close();
        Traffic of_first(first), of_second(second);
        of_first.Move(300);
        of_second.Move(300);
        EXPECT_EQ(0, CountLines("is in use again"));
        Inject("remove " + hang);
        Until([&] {
            of_first.Move(20);
            of_second.Move(20);
            return CountLines("is in use again") >= 4 || HasFailure();
        });
        traffic->Move(100);
        detour_test::Order("soft0", "down");
        of_first.Move(50); // also memory that was registered before it answered
        of_second.Move(50);
    }
};

TEST_F(HangingBackup, WhereQueuePairsAreMadeDelaysNoOther)
{
    DelaysNoOther("create_qp");
}

TEST_F(HangingBackup, WhereQueuePairsAreConnectedDelaysNoOther)
{
    DelaysNoOther("modify_qp");
}

TEST_F(HangingBackup, WhereCompletionQueuesAreMadeDelaysNoOther)
{
    DelaysNoOther("create_cq");
}

TEST_F(HangingBackup, WhereItsPortIsQueriedDelaysNoOther)
{
    DelaysNoOther("query_port");
}

TEST_F(HangingBackup, WhereItsGidIsQueriedDelaysNoOther)
{
    DelaysNoOther("query_gid");
}

/* The addresses that were known when the device was opened are used. */
TEST_F(HangingBackup, WhoseQueriesFailIsUsedAllTheSame)
{
    std::string port = AddRule("device=soft1 fail=query_port");
    std::string gid = AddRule("device=soft0 fail=query_gid");
    Pair both(net);
    Until([&] {
        both.Close();
        both.Connect(0, 2);
        return (Fired(port) > 0 && Fired(gid) > 0) || HasFailure();
    });
    ASSERT_FALSE(HasFailure());
    Traffic of_both(both);
    of_both.Move(100);
    detour_test::Order("soft0", "down");
    of_both.Move(50);
}

TEST_F(HangingBackup, WhereControlMemoryIsRegisteredDelaysNoOther)
{
    DelaysNoOther("reg_mr");
}

/* Of a connection that was closed: later ones wait for it no longer than for another call. */
TEST_F(HangingBackup, WhereQueuePairsAreDestroyedDelaysNoOther)
{
    DelaysNoOther("destroy_qp");
}
} // namespace
