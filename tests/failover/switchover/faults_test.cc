// SPDX-License-Identifier: Apache-2.0
#include "failover/switchover/faults.h"

#include "tests/failover/switchover/pair.h"
#include "tests/harness/harness.h"
#include "transport/session/session.h"

namespace
{
class Faults : public detour_test::Pair
{
};

TEST_F(Faults, ADrainedDeviceIsLeftForTheOtherPathAndUsedAgainAfterwards)
{
    char answer[256];
    ASSERT_EQ(DT_OK, dt_net_drain(there.net, "soft0", true, answer, sizeof answer));
    Until([&] { return sender->current == &sender->path[1]; });
    EXPECT_NE(nullptr, strstr(State(sender, 0)->why, "soft0 was drained by the operator"));
    Move();
    ASSERT_EQ(DT_OK, dt_net_drain(there.net, "soft0", false, answer, sizeof answer));
    Until([&] { return sender->path[0].state == DT_PATH_UP; });
    EXPECT_EQ(1u, sender->path[0].epoch);
    Move();
}

TEST_F(Faults, ADrainWaitsWhileThereIsNoOtherPath)
{
    char answer[256];
    ASSERT_EQ(DT_OK, dt_net_drain(there.net, "soft1", true, answer, sizeof answer));
    Until([&] { return sender->path[1].state == DT_PATH_NONE; });
    dt_store_release(&sender->path[0].nic->is_drained, 1u);
    dt_connection_suspect(sender, &sender->path[0], DT_FAULT_ADMIN);
    dt_faults_process(sender, now_ns);
    EXPECT_EQ(0u, sender->faults) << "taken";
    EXPECT_EQ(DT_PATH_UP, sender->path[0].state) << "and not acted upon";
    dt_store_release(&sender->path[0].nic->is_drained, 0u);
    Move();
}

TEST_F(Faults, DrainedDevicesAreTheLastResort)
{
    char answer[256];
    ASSERT_EQ(DT_OK, dt_net_drain(there.net, "soft1", true, answer, sizeof answer));
    Until([&] { return sender->path[1].machine.state == DT_SENDER_SETTLED; });
    EXPECT_TRUE(dt_faults_is_out_of_use(&sender->path[1]));
    ASSERT_EQ(DT_OK, dt_net_drain(there.net, "soft0", true, answer, sizeof answer));
    dt_completion bad = {};
    bad.status = DT_WC_RETRY_EXCEEDED;
    bad.qpn = dt_qp_number(sender->path[0].qp[0]);
    dt_connection_path_failed(sender, &sender->path[0], &bad);
    EXPECT_FALSE(dt_faults_is_out_of_use(&sender->path[1])) << "no other path is up";
    Move();
    EXPECT_LE(1, CountLines("no path is left"));
}

TEST_F(Faults, ASenderThatHasClosedIsNotAwaited)
{
    dt_path *path = &receiver->path[1];
    EXPECT_TRUE(dt_faults_may_await_switch(path));
    EXPECT_FALSE(dt_faults_may_await_switch(&sender->path[1])) << "a sender awaits RESUME";
    for (bool *fact : {&receiver->session->has_peer_closed, &receiver->session->is_peer_dead}) {
        *fact = true;
        EXPECT_FALSE(dt_faults_may_await_switch(path));
        *fact = false;
    }
    dt_faults_begin(path, now_ns);
    EXPECT_EQ((uint32_t)DT_RECEIVER_STOPPING, path->machine.state);
    EXPECT_FALSE(path->fence.is_active) << "it receives until SWITCH has arrived";
    dt_faults_expire_stop(path, now_ns + 1);
    EXPECT_EQ((uint32_t)DT_RECEIVER_STOPPING, path->machine.state);
    receiver->session->has_peer_closed = true; // meanwhile
    dt_faults_expire_stop(path, now_ns + 1);
    receiver->session->has_peer_closed = false;
    EXPECT_EQ((uint32_t)DT_RECEIVER_DOWN, path->machine.state);
    EXPECT_TRUE(path->fence.is_active);
    EXPECT_EQ(0, CountLines("has not confirmed"));
    Move(); // over the other path
}

TEST_F(Faults, ASenderThatDoesNotAnswerIsAwaitedForALimitedTime)
{
    dt_path *path = &receiver->path[1];
    dt_faults_begin(path, now_ns);
    EXPECT_EQ(now_ns + there.net->environment.params.fence_ms * DT_NS_PER_MS, State(receiver, 1)->stop_ns);
    dt_faults_expire_stop(path, State(receiver, 1)->stop_ns - 1);
    EXPECT_EQ((uint32_t)DT_RECEIVER_STOPPING, path->machine.state);
    dt_faults_expire_stop(path, State(receiver, 1)->stop_ns);
    EXPECT_EQ((uint32_t)DT_RECEIVER_DOWN, path->machine.state);
    EXPECT_EQ(1, CountLines("has not confirmed"));
    Move(); // over the other path
}

/* The path is polled no more, so that its first reason stays; what has arrived counts when it is fenced. */
TEST_F(Faults, ASecondFailedCompletionWhileTheSenderIsAwaitedLosesNothing)
{
    dt_path *path = &receiver->path[0];
    dt_completion bad = {};
    PostReceive(0);
    PostSend(0);
    bad.qpn = dt_qp_number(path->qp[0]);
    for (uint32_t status : {DT_WC_RETRY_EXCEEDED, DT_WC_REMOTE_OPERATION}) {
        bad.status = status;
        dt_connection_path_failed(receiver, path, &bad);
        EXPECT_EQ(DT_PATH_NONE, path->state);
        dt_faults_process(receiver, now_ns);
        EXPECT_EQ((uint32_t)DT_RECEIVER_STOPPING, path->machine.state);
        EXPECT_EQ(status == DT_WC_RETRY_EXCEEDED ? DT_PATH_LISTENING : DT_PATH_NONE, path->state);
        EXPECT_FALSE(path->fence.is_active);
        EXPECT_NE(nullptr, strstr(State(receiver, 0)->why, "transport retry count exceeded"));
    }
    EXPECT_EQ(now_ns + there.net->environment.params.fence_ms * DT_NS_PER_MS, State(receiver, 0)->stop_ns);
    Finish();
    EXPECT_EQ(0, memcmp(from, to, kBytes));
    Until([&] { return sender->path[0].machine.state == DT_SENDER_SETTLED; });
    EXPECT_EQ(0, CountLines("has not confirmed")) << "the sender has stopped";
    Until([&] { return sender->path[0].state == DT_PATH_UP && receiver->path[0].state == DT_PATH_UP; });
    Move();
}

TEST_F(Faults, ADrainThatWasEndedMeanwhileIsNoFault)
{
    dt_connection_suspect(sender, &sender->path[0], DT_FAULT_ADMIN); // is_drained is 0
    dt_faults_process(sender, now_ns);
    EXPECT_EQ(DT_PATH_UP, sender->path[0].state);
    EXPECT_FALSE(sender->path[0].fence.is_active);
}

TEST_F(Faults, AFailedCompletionFencesEvenTheOnlyPath)
{
    char answer[256];
    ASSERT_EQ(DT_OK, dt_net_drain(there.net, "soft1", true, answer, sizeof answer));
    Until([&] { return sender->path[1].state == DT_PATH_NONE; });
    dt_completion bad = {};
    bad.status = DT_WC_RETRY_EXCEEDED;
    bad.qpn = dt_qp_number(sender->path[0].qp[0]);
    dt_connection_path_failed(sender, &sender->path[0], &bad);
    dt_faults_process(sender, now_ns);
    EXPECT_TRUE(sender->path[0].fence.is_active);
    EXPECT_NE(nullptr, strstr(State(sender, 0)->why, "transport retry count exceeded"));
    ASSERT_EQ(DT_OK, dt_net_drain(there.net, "soft1", false, answer, sizeof answer));
    Move();
}

TEST_F(Faults, AHintHasTheSenderTryThePathAtOnce)
{
    char answer[256];
    ASSERT_EQ(DT_OK, dt_net_drain(there.net, "soft1", true, answer, sizeof answer));
    Until([&] { return sender->path[1].machine.state == DT_SENDER_SETTLED; });
    State(sender, 1)->recovery.next_ns = now_ns + 100 * DT_NS_PER_S;
    __atomic_fetch_or(&sender->hints, 2u, __ATOMIC_ACQ_REL);
    dt_hints_process(sender, now_ns);
    EXPECT_EQ(0u, sender->hints) << "taken";
    EXPECT_LE(State(sender, 1)->recovery.next_ns, now_ns + DT_NS_PER_S);
    ASSERT_EQ(DT_OK, dt_net_drain(there.net, "soft1", false, answer, sizeof answer));
    Until([&] { return sender->path[1].state == DT_PATH_UP; });
}

TEST_F(Faults, WithoutAnyPathTheConnectionFailsAfterItsTimeLimit)
{
    const uint64_t limit_ns = there.net->environment.params.dead_ms * DT_NS_PER_MS;
    dt_path *current = sender->current;
    sender->current = nullptr;
    dt_faults_watch_pathless(sender, now_ns);
    EXPECT_EQ(now_ns, sender->switchover->pathless_ns);
    EXPECT_EQ(1, CountLines("no path is left"));
    dt_faults_watch_pathless(sender, now_ns + limit_ns - 1);
    EXPECT_EQ(static_cast<uint32_t>(DT_OK), sender->failing);
    sender->current = current;
    dt_faults_watch_pathless(sender, now_ns + limit_ns);
    EXPECT_EQ(0u, sender->switchover->pathless_ns) << "a path came back in time";
    sender->current = nullptr;
    dt_faults_watch_pathless(sender, now_ns);
    detour_test::ExpectWarning("no path for ");
    dt_faults_watch_pathless(sender, now_ns + limit_ns);
    EXPECT_EQ(static_cast<uint32_t>(DT_PEER_ERROR), sender->failing);
}
} // namespace
