// SPDX-License-Identifier: Apache-2.0
#include "failover/switchover/actions.h"

#include "failover/switchover/faults.h"
#include "failover/switchover/switchover.h"
#include "tests/failover/switchover/pair.h"

namespace
{
class Actions : public detour_test::Pair
{
};

TEST_F(Actions, AFaultTakesThePathFromTheDataPathAndBeginsItsFence)
{
    dt_path *path = &sender->path[0];
    ASSERT_EQ(path, sender->current);
    dt_switchover_step(path, DT_PATH_FAULT, now_ns);
    EXPECT_EQ(DT_PATH_NONE, path->state);
    EXPECT_EQ(&sender->path[1], sender->current);
    EXPECT_TRUE(path->fence.is_active);
    EXPECT_EQ(1, CountLines("path 0 epoch 0: FAULT: UP -> DOWN"));
    sender->switchover->is_switching = true;
    Until([&] { return path->state == DT_PATH_UP; });
    EXPECT_EQ(1u, path->epoch);
    EXPECT_EQ(1, CountLines("is in use again as epoch 1"));
    EXPECT_GE(CountLines("PROBING -> UP"), 1);
    Move();
}

TEST_F(Actions, AnEventWithoutARowChangesNothing)
{
    dt_path *path = &sender->path[0];
    const dt_path_machine before = path->machine;
    dt_switchover_step(path, DT_PATH_STABLE, now_ns);
    EXPECT_EQ(before.state, path->machine.state);
    EXPECT_EQ(DT_PATH_UP, path->state);
    EXPECT_EQ(0, CountLines("STABLE"));
}

TEST_F(Actions, AStepThatIsNotKnownIsNotCarriedOut)
{
    dt_path_step unknown = {};
    unknown.actions = DT_PATH_DO_FENCE;
    dt_switchover_follow(&sender->path[0], &unknown, now_ns);
    EXPECT_FALSE(sender->path[0].fence.is_active);
}

TEST_F(Actions, AStopOfTheReceiverIsTheReasonOfTheSender)
{
    dt_faults_begin(&receiver->path[1], now_ns);
    Until([&] { return sender->path[1].state == DT_PATH_NONE; });
    EXPECT_STREQ("the peer requested a stop", State(sender, 1)->why);
    Until([&] { return sender->path[1].state == DT_PATH_UP && receiver->path[1].state == DT_PATH_UP; });
}

TEST_F(Actions, AMessageAboutAPathReachesThePeersMachine)
{
    dt_path *path = &sender->path[1];
    path->machine.state = DT_SENDER_DOWN; // as after a fault; its SWITCH has the receiver fence the path
    path->state = DT_PATH_NONE;
    dt_switchover_send(path, DT_PATH_MSG_SWITCH, now_ns);
    Until([&] { return receiver->path[1].state == DT_PATH_NONE; });
    EXPECT_NE(nullptr, strstr(State(receiver, 1)->why, "the peer fenced it"));
    dt_switchover_step(path, DT_PATH_UNFENCED, now_ns); // and the sender's own fence goes on as usual
    path->machine.state = DT_SENDER_UP;
    dt_switchover_step(path, DT_PATH_FAULT, now_ns);
    sender->switchover->is_switching = true;
    Until([&] { return path->state == DT_PATH_UP; });
}

TEST_F(Actions, DrainedDevicesMakeTheirPathsSuspect)
{
    dt_store_release(&sender->path[1].nic->is_drained, 1u);
    dt_switchover_leave_drained(sender);
    EXPECT_EQ(1u << (DT_FAULT_ADMIN + 1), sender->faults);
    dt_store_release(&sender->path[1].nic->is_drained, 0u);
}

TEST_F(Actions, TheDriverIsDueForAFaultAHintOrAFrameAndNotOtherwise)
{
    const uint64_t watched_ns = sender->switchover->watched_ns = now_ns;
    EXPECT_FALSE(dt_switchover_is_due(sender, watched_ns));
    EXPECT_EQ(DT_NEVER_NS, dt_switchover_deadline_ns(sender, watched_ns));
    sender->hints = 1;
    EXPECT_TRUE(dt_switchover_is_due(sender, watched_ns));
    sender->hints = 0;
    sender->switchover->is_frame_pending = true;
    EXPECT_EQ(watched_ns, dt_switchover_deadline_ns(sender, watched_ns));
    sender->switchover->is_frame_pending = false;
    EXPECT_FALSE(dt_switchover_is_hurried(sender, watched_ns));
}
} // namespace
