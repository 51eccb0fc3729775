// SPDX-License-Identifier: Apache-2.0
#include "failover/switchover/fencing.h"

#include "failover/switchover/faults.h"
#include "failover/switchover/switchover.h"
#include "softrnic/softrnic.h"
#include "tests/failover/switchover/pair.h"
#include "tests/harness/harness.h"
#include "transport/path/queues.h"
#include "verbs/fault.h"

namespace
{
class Fencing : public detour_test::Pair
{
  protected:
    /* Begins to fence the path as the table's action does. */
    void Begin(dt_connection *c, uint32_t p)
    {
        c->path[p].state = DT_PATH_NONE;
        dt_connection_choose_path(c);
        dt_fencing_begin(&c->path[p], now_ns);
    }
    /* The control thread's work, and what follows from it. */
    void RunTasks(dt_net *net, dt_path *path)
    {
        if (State(path->connection, path->index)->is_fence_wanted) {
            State(path->connection, path->index)->is_fence_wanted = false;
            dt_path_submit_op(path, DT_PATH_OP_FENCE);
        }
        for (size_t i = 0; i < net->nic_count; i++)
            dt_executor_run(&net->nic[i].executor);
        if (dt_load_acquire(&path->op_state) != DT_PATH_OP_IS_DONE)
            return;
        dt_store_relaxed(&path->op_state, static_cast<uint32_t>(DT_PATH_OP_IS_IDLE));
        if (path->op == DT_PATH_OP_FENCE)
            dt_fencing_requested(path, now_ns);
        if (path->op == DT_PATH_OP_DESTROY) {
            dt_fencing_destroyed(path, path->op_status == DT_OK, now_ns);
        }
    }
    /* The device refuses these calls from now on. */
    void Fail(dt_path *path, dt_device_call one, dt_device_call other = DT_DEVICE_CALL_MODIFY_QP)
    {
        dt_device_fault faults[2] = {};
        faults[0] = {1, DT_DEVICE_FAULT_FAIL, one, EIO, 0, DT_EVENT_OTHER, 0, &fired, {}};
        faults[1] = {2, DT_DEVICE_FAULT_FAIL, other, EBUSY, 0, DT_EVENT_OTHER, 0, &fired, {}};
        dt_device_set_faults(path->nic->device, faults, 2);
    }
    /* The device leaves the system. Its thread has stored that, and has made no path suspect yet. */
    void Remove(const char *device, dt_path *path)
    {
        detour_test::AllowWarning("cannot go to ERR"); // also at the close
        detour_test::AllowWarning("DEVICE_FATAL");     // read at the close
        ASSERT_EQ(0, dt_soft_device_control(device, DT_SOFT_CONTROL_FATAL, 0));
        dt_store_relaxed(&path->nic->is_dead, 1u);
    }
    /* A message from beginning to end at the sender. The receiver's threads stand still. */
    void SendAlone()
    {
        bool is_posted = false;
        for (int i = 0; i < 1000000 && !(is_posted && IsDone(&send[0])); i++) {
            if (!is_posted)
                is_posted = (send[0] = Isend(from, kBytes)) != nullptr;
            dt_net_progress(there.net, now_ns);
            struct timespec pause = {0, 50000};
            nanosleep(&pause, nullptr);
        }
        ASSERT_TRUE(is_posted && !send[0]);
    }
    uint64_t fired = 0;
    dt_path_event Await(dt_net *net, dt_path *path, uint64_t limit_ns)
    {
        for (uint64_t end_ns = now_ns + limit_ns; now_ns < end_ns;) {
            RunTasks(net, path);
            dt_path_event event = dt_fencing_progress(path, now_ns);
            if (event != DT_PATH_EVENT_COUNT)
                return event;
            now_ns += DT_NS_PER_MS;
            struct timespec pause = {0, 50000}; // the software RNIC flushes meanwhile
            nanosleep(&pause, nullptr);
        }
        return DT_PATH_EVENT_COUNT;
    }
};

TEST_F(Fencing, BothEndsAreProvenByFlushedCompletions)
{
    Begin(sender, 1);
    EXPECT_EQ(DT_PATH_FENCED, Await(there.net, &sender->path[1], DT_NS_PER_S));
    EXPECT_STREQ("flushed", dt_fence_evidence(&sender->path[1].fence, now_ns));
    Begin(receiver, 1);
    EXPECT_EQ(DT_PATH_FENCED, Await(here.net, &receiver->path[1], DT_NS_PER_S));
    EXPECT_STREQ("flushed", dt_fence_evidence(&receiver->path[1].fence, now_ns));
    EXPECT_TRUE(dt_qp_set_contains(&receiver->path[1].fence.receives, &receiver->path[1].fence.all));
    dt_fence_end(&sender->path[1].fence);
    dt_fence_end(&receiver->path[1].fence);
}

/* The sender may have counted its acknowledgement, and the move to ERR may discard its completion. */
TEST_F(Fencing, WhatHasArrivedIsReceivedBeforeTheMoveToErr)
{
    here.net->environment.params.idle_takeover_us = UINT32_MAX; // nothing else polls for the receiver
    PostReceive(0);
    PostSend(0);
    StepUntil([&] { return IsDone(&send[0]); });
    const uint32_t before = receiver->completions;
    Begin(receiver, 0);
    EXPECT_EQ(before + 1, receiver->completions);
    EXPECT_TRUE(State(receiver, 0)->is_fence_wanted) << "the control thread has not been asked yet";
    EXPECT_TRUE(IsDone(&receive[0]));
    EXPECT_EQ(0, memcmp(from, to, kBytes));
    EXPECT_EQ(DT_PATH_FENCED, Await(here.net, &receiver->path[0], DT_NS_PER_S));
    dt_fence_end(&receiver->path[0].fence);
}

/* The device refused the error state: a marker is a write like any other. */
TEST_F(Fencing, AMarkerThatSucceedsProvesNothing)
{
    dt_path *path = &sender->path[1];
    detour_test::ExpectWarning("cannot go to ERR");
    Fail(path, DT_DEVICE_CALL_MODIFY_QP);
    Begin(sender, 1);
    EXPECT_EQ(DT_PATH_EVENT_COUNT, Await(there.net, path, 100 * DT_NS_PER_MS));
    EXPECT_LE(1u, fired);
    EXPECT_TRUE(path->fence.is_err_requested);
    EXPECT_FALSE(dt_qp_set_has(&path->fence.markers, 0));
    dt_device_set_faults(path->nic->device, nullptr, 0);
    EXPECT_EQ(DT_PATH_FENCED, Await(there.net, path, 2 * DT_NS_PER_S));
    EXPECT_STREQ("destroyed", dt_fence_evidence(&path->fence, now_ns));
    dt_fence_end(&path->fence);
}

/*
 * The peer has been told that nothing more is sent, and a queue pair that was never connected refuses a
 * marker, which looks to the operator like a failure of the device.
 */
TEST_F(Fencing, NoMarkerIsPostedBeforeTheQueuePairsWereMovedToErr)
{
    dt_path *path = &sender->path[1];
    dt_path_queues old = {}, unconnected = {};
    strcpy(there.net->environment.params.posting, "std");
    ASSERT_EQ(DT_OK, dt_path_queues_create(path, path->epoch + 1, &unconnected));
    dt_path_adopt(path, &unconnected, &old);
    Begin(sender, 1);
    for (int i = 0; i < 50; i++)
        EXPECT_EQ(DT_PATH_EVENT_COUNT, dt_fencing_progress(path, now_ns += DT_NS_PER_MS));
    EXPECT_FALSE(dt_qp_set_has(&State(sender, 1)->markers, 0));
    EXPECT_EQ(DT_PATH_FENCED, Await(there.net, path, DT_NS_PER_S));
    EXPECT_STREQ("flushed", dt_fence_evidence(&path->fence, now_ns));
    dt_fence_end(&path->fence);
    dt_path_queues_destroy(path, &old);
}

TEST_F(Fencing, NothingIsProvenBeforeTheQueuePairsWereMovedToErr)
{
    Begin(sender, 1);
    for (int i = 0; i < 50; i++)
        EXPECT_EQ(DT_PATH_EVENT_COUNT, dt_fencing_progress(&sender->path[1], now_ns += DT_NS_PER_MS));
    EXPECT_EQ(DT_PATH_FENCED, Await(there.net, &sender->path[1], DT_NS_PER_S));
    dt_fence_end(&sender->path[1].fence);
}

/* The control thread's answer would come to the next fence, as if that one's queue pairs had been moved. */
TEST_F(Fencing, ARemovedDeviceProvesNothingWhileItsQueuePairsAreMovedToErr)
{
    dt_path *path = &sender->path[1];
    Begin(sender, 1);
    State(sender, 1)->is_fence_wanted = false;
    dt_path_submit_op(path, DT_PATH_OP_FENCE);
    Remove("soft1", path);
    EXPECT_EQ(DT_PATH_EVENT_COUNT, dt_fencing_progress(path, now_ns += DT_NS_PER_S / 2));
    EXPECT_FALSE(path->fence.is_device_gone);
    EXPECT_EQ(DT_PATH_FENCED, Await(there.net, path, DT_NS_PER_S));
    EXPECT_STREQ("device gone", dt_fence_evidence(&path->fence, now_ns));
    dt_fence_end(&path->fence);
}

/* The fence begins and sees the removal in one round: its task has not been submitted yet. */
TEST_F(Fencing, ARemovedDeviceProvesNothingBeforeTheControlThreadIsAsked)
{
    dt_path *path = &receiver->path[1];
    dt_faults_begin(path, now_ns);
    receiver->switchover->is_switching = true;
    ASSERT_EQ((uint32_t)DT_RECEIVER_STOPPING, path->machine.state);
    Remove("soft1", path);
    dt_switchover_progress(receiver, now_ns);
    EXPECT_EQ((uint32_t)DT_RECEIVER_DOWN, path->machine.state);
    EXPECT_EQ((uint32_t)DT_PATH_OP_IS_BUSY, dt_load_acquire(&path->op_state)) << "with the move to ERR";
    EXPECT_TRUE(path->fence.is_active);
    for (int i = 0; i < 100 && path->fence.is_active; i++) {
        dt_executor_run(&path->nic->executor);
        dt_switchover_progress(receiver, now_ns += DT_NS_PER_MS);
    }
    EXPECT_EQ((uint32_t)DT_RECEIVER_FENCED, path->machine.state);
}

/*
 * The receiver's queue pairs take a message while the control thread has them to destroy, and their device
 * dies. Only the control thread knows of the message; RESUME without it would lose it, since the sender has
 * its acknowledgement.
 */
TEST_F(Fencing, AMessageThatTheControlThreadPollsLastCountsBeforeAnyProof)
{
    dt_path *path = &receiver->path[0];
    here.net->environment.params.idle_takeover_us = UINT32_MAX; // nothing else polls for the receiver
    PostReceive(0);
    detour_test::ExpectWarning("cannot go to ERR");
    Fail(path, DT_DEVICE_CALL_MODIFY_QP);
    Begin(receiver, 0);
    RunTasks(here.net, path);
    now_ns += here.net->environment.params.fence_ms * DT_NS_PER_MS;
    ASSERT_EQ(DT_PATH_EVENT_COUNT, dt_fencing_progress(path, now_ns));
    ASSERT_TRUE(State(receiver, 0)->is_destroying);
    SendAlone();
    const uint32_t before = receiver->completions;

    dt_store_relaxed(&path->nic->is_dead, 1u);
    dt_fence_peer_stopped(&path->fence, now_ns);
    now_ns += here.net->environment.params.late_ms * DT_NS_PER_MS;
    EXPECT_EQ(DT_PATH_EVENT_COUNT, dt_fencing_progress(path, now_ns));
    EXPECT_STREQ("peer stopped", dt_fence_evidence(&path->fence, now_ns)) << "and yet";
    RunTasks(here.net, path);
    EXPECT_EQ(DT_PATH_FENCED, dt_fencing_progress(path, now_ns));
    EXPECT_EQ(before + 1, receiver->completions);
    EXPECT_TRUE(IsDone(&receive[0]));
    EXPECT_EQ(0, memcmp(from, to, kBytes));
    dt_fence_end(&path->fence);
    dt_store_relaxed(&path->nic->is_dead, 0u);
    dt_device_set_faults(path->nic->device, nullptr, 0);
}

TEST_F(Fencing, TheDestructionOfADeadDeviceProvesNothing)
{
    dt_path *path = &receiver->path[1];
    dt_store_relaxed(&path->nic->is_dead, 1u);
    Fail(path, DT_DEVICE_CALL_MODIFY_QP);
    Begin(receiver, 1);
    EXPECT_EQ(DT_PATH_UNFENCED, Await(here.net, path, 10 * DT_NS_PER_S));
    EXPECT_EQ(1, CountLines("the fence of path 1 on soft1 is unproven after 1000 ms: the device died"));
    EXPECT_NE(nullptr, path->qp[0]) << "its completions may still come";
    dt_fence_peer_stopped(&path->fence, now_ns);
    const uint64_t late_ns = here.net->environment.params.late_ms * DT_NS_PER_MS;
    EXPECT_EQ(DT_PATH_EVENT_COUNT, Await(here.net, path, late_ns - DT_NS_PER_MS));
    EXPECT_EQ(DT_PATH_FENCED, Await(here.net, path, 10 * DT_NS_PER_MS));
    EXPECT_STREQ("peer stopped", dt_fence_evidence(&path->fence, now_ns));
    dt_fence_end(&path->fence);
    dt_store_relaxed(&path->nic->is_dead, 0u);
    dt_device_set_faults(path->nic->device, nullptr, 0);
}

TEST_F(Fencing, ADestructionThatTheDeviceRefusesProvesNothingAndIsTriedAgain)
{
    dt_path *path = &receiver->path[1];
    Fail(path, DT_DEVICE_CALL_MODIFY_QP, DT_DEVICE_CALL_DESTROY_QP);
    detour_test::ExpectWarning("cannot go to ERR");
    detour_test::ExpectWarning("cannot be destroyed");
    Begin(receiver, 1);
    EXPECT_EQ(DT_PATH_UNFENCED, Await(here.net, path, 10 * DT_NS_PER_S));
    EXPECT_EQ(1, CountLines("the device refuses to destroy the queue pairs"));
    EXPECT_EQ(DT_PATH_EVENT_COUNT, Await(here.net, path, 5 * DT_NS_PER_S));
    EXPECT_EQ(1, CountLines("cannot be destroyed")) << "once";
    EXPECT_NE(nullptr, path->doomed);
    dt_device_set_faults(path->nic->device, nullptr, 0);
    EXPECT_EQ(DT_PATH_FENCED, Await(here.net, path, 20 * DT_NS_PER_S));
    EXPECT_STREQ("destroyed", dt_fence_evidence(&path->fence, now_ns));
    EXPECT_EQ(nullptr, path->doomed);
    dt_fence_end(&path->fence);
}

TEST_F(Fencing, WithoutAProofOneReportIsMadeAndTheSearchContinues)
{
    dt_path *path = &sender->path[1];
    const uint64_t limit_ns = there.net->environment.params.fence_ms * DT_NS_PER_MS;
    Begin(sender, 1);
    State(sender, 1)->is_fence_wanted = false; // the control thread hangs: no task is ever done
    dt_path_submit_op(path, DT_PATH_OP_FENCE);
    EXPECT_EQ(DT_PATH_EVENT_COUNT, dt_fencing_progress(path, now_ns + limit_ns));
    EXPECT_TRUE(State(sender, 1)->is_destroy_wanted);
    EXPECT_EQ(DT_PATH_UNFENCED, dt_fencing_progress(path, now_ns + 2 * limit_ns));
    EXPECT_EQ(1, CountLines("it has neither flushed nor destroyed the queue pairs"));
    EXPECT_EQ(DT_PATH_EVENT_COUNT, dt_fencing_progress(path, now_ns + 3 * limit_ns)) << "once";
    now_ns += 3 * limit_ns;
    EXPECT_EQ(DT_PATH_FENCED, Await(there.net, path, 10 * DT_NS_PER_S)) << "it answers after all";
    dt_fence_end(&path->fence);
}
} // namespace
