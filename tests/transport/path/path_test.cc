/* SPDX-License-Identifier: Apache-2.0 */
/* References of a path's group, operations of the control thread, and the description of the path. */
#include "transport/path/path.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "transport/path/queues.h"

namespace
{
class Path : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(DT_OK, dt_executor_init(&nic.executor, false));
        nic.environment = &environment;
        group.environment = &environment;
        group.nic = &nic;
        group.references = 1;
        group.release = [](dt_path_group *released) { released->slots = 0; };
        group.fenced = [](dt_path_group *fenced) { fenced->slots++; };
        group.slots = 64;
        path.group = &group;
        path.nic = &nic;
        dt_list_init(&path.retired);
        strcpy(nic.name, "mlx5_0");
    }
    void TearDown() override
    {
        dt_executor_stop(&nic.executor);
    }

    dt_environment environment = {};
    dt_nic nic = {};
    dt_path_group group = {};
    dt_path path = {};
};

TEST_F(Path, TheLastReferenceReleasesTheGroup)
{
    group.references = 2;
    dt_path_group_release(&group);
    EXPECT_EQ(64u, group.slots);
    dt_path_group_release(&group);
    EXPECT_EQ(0u, group.slots);
}

TEST_F(Path, AnOperationIsBusyUntilItHasRunAndIdleOnceItsResultIsTaken)
{
    dt_path_submit_op(&path, DT_PATH_OP_FENCE);
    EXPECT_EQ((uint32_t)DT_PATH_OP_IS_BUSY, path.op_state);
    EXPECT_EQ(2u, group.references);
    EXPECT_EQ(1u, dt_executor_run(&nic.executor));
    EXPECT_EQ((uint32_t)DT_PATH_OP_IS_DONE, path.op_state);
    EXPECT_EQ(DT_OK, path.op_status);
    EXPECT_EQ(1u, group.references);
    dt_path_finish_op(&path);
    EXPECT_EQ((uint32_t)DT_PATH_OP_IS_IDLE, path.op_state);
}

TEST_F(Path, AnOperationThatIsNotIdleCannotBeSubmittedAgain)
{
    dt_path_submit_op(&path, DT_PATH_OP_FENCE);
    EXPECT_DEATH(dt_path_submit_op(&path, DT_PATH_OP_QUERY), "op_state");
    EXPECT_DEATH(dt_path_finish_op(&path), "op_state");
    dt_executor_run(&nic.executor);
    EXPECT_DEATH(dt_path_submit_op(&path, DT_PATH_OP_QUERY), "op_state");
}

TEST_F(Path, AQueryWithoutQueuePairsInErrorAnswersZero)
{
    path.stopped_qpn = 7;
    dt_path_submit_op(&path, DT_PATH_OP_QUERY);
    dt_executor_run(&nic.executor);
    EXPECT_EQ(0u, path.stopped_qpn);
}

TEST_F(Path, TheLastFenceCallsFenced)
{
    dt_path other = path;
    dt_list_init(&other.retired);
    group.fences_pending = 2;
    dt_path_submit_fence(&path);
    dt_path_submit_fence(&other);
    EXPECT_EQ(3u, group.references);
    EXPECT_EQ(2u, dt_executor_run(&nic.executor));
    EXPECT_EQ(0u, group.fences_pending);
    EXPECT_EQ(65u, group.slots) << "once";
    EXPECT_EQ(1u, group.references);
}

/* Another communicator is being set up: its creations are queued. */
struct Creation {
    dt_task task;
    const dt_path *path;
    uint32_t seen; /* the path's operation when it ran */
};

void Create(dt_task *task)
{
    Creation *creation = reinterpret_cast<Creation *>(task);
    creation->seen = creation->path->op_state;
}

TEST_F(Path, AFenceDoesNotWaitBehindQueuedCreations)
{
    Creation creation = {{Create, {}, false}, &path, 0};
    dt_nic_submit(&nic, &creation.task);
    dt_path_submit_op(&path, DT_PATH_OP_FENCE);
    dt_executor_run(&nic.executor);
    EXPECT_EQ((uint32_t)DT_PATH_OP_IS_DONE, creation.seen);
    dt_path_finish_op(&path);

    path.fence.is_active = true; // it did not flush
    path.doomed = static_cast<dt_path_queues *>(calloc(1, sizeof *path.doomed));
    dt_list_init(&path.doomed->node);
    dt_nic_submit(&nic, &creation.task);
    dt_path_submit_op(&path, DT_PATH_OP_DESTROY);
    dt_executor_run(&nic.executor);
    EXPECT_EQ((uint32_t)DT_PATH_OP_IS_DONE, creation.seen);
    dt_path_finish_op(&path);

    path.fence.is_active = false;
    dt_nic_submit(&nic, &creation.task);
    dt_path_submit_op(&path, DT_PATH_OP_QUERY);
    dt_executor_run(&nic.executor);
    EXPECT_EQ((uint32_t)DT_PATH_OP_IS_BUSY, creation.seen) << "no fence: in its turn";
}

/* A connection over a device that is late fails during its set-up. */
TEST_F(Path, TheFenceOfAConnectionOvertakesItsLinkTaskWhichThenDoesNothing)
{
    path.state = DT_PATH_UP;
    path.qp_count = 1; // linking the queue pairs, which do not exist, would end in a crash
    group.fences_pending = 1;
    dt_path_submit_link(&path);
    dt_path_submit_fence(&path);
    EXPECT_EQ(2u, dt_executor_run(&nic.executor));
    EXPECT_EQ(0u, group.fences_pending);
    EXPECT_EQ(0u, group.setup_pending);
    EXPECT_EQ((uint32_t)DT_PATH_NONE, path.state);
    EXPECT_EQ(DT_CLOSED, path.link_status);
}

TEST_F(Path, APathWithoutADeviceIsNotUpAfterItsCreation)
{
    nic.is_broken = true;
    path.state = DT_PATH_UP;
    dt_path_submit_create(&path);
    EXPECT_EQ(1u, group.setup_pending);
    dt_executor_run(&nic.executor);
    EXPECT_EQ(0u, group.setup_pending);
    EXPECT_EQ((uint32_t)DT_PATH_NONE, path.state);
}

TEST_F(Path, TheResultOfATaskThatSetUpDidNotWaitForIsDropped)
{
    nic.is_broken = true;
    dt_path_submit_create(&path);
    path.state = DT_PATH_UP;
    EXPECT_FALSE(dt_path_is_set_up(&path)) << "its task is under way";
    EXPECT_TRUE(dt_path_leave_setup(&path));
    EXPECT_FALSE(dt_path_leave_setup(&path)) << "once";
    EXPECT_EQ(0u, group.setup_pending);
    EXPECT_EQ(1u, nic.late_tasks);
    EXPECT_EQ((uint32_t)DT_PATH_NONE, path.state);
    path.state = DT_PATH_UP; /* by failover, say */
    EXPECT_EQ(1u, dt_executor_run(&nic.executor));
    EXPECT_EQ((uint32_t)DT_PATH_UP, path.state);
    EXPECT_EQ(0u, nic.late_tasks);
    EXPECT_EQ(1u, group.references);
    EXPECT_TRUE(dt_path_is_set_up(&path));
}

TEST_F(Path, ATaskThatHasEndedIsNotLate)
{
    nic.is_broken = true;
    dt_path_submit_create(&path);
    EXPECT_EQ(1u, dt_executor_run(&nic.executor));
    EXPECT_FALSE(dt_path_leave_setup(&path));
    EXPECT_EQ(0u, nic.late_tasks);
    EXPECT_EQ(0u, group.setup_pending);
}

TEST_F(Path, AnOfferThatIsNotUsableTakesThePathOut)
{
    dt_path_offer offer = {};
    path.state = DT_PATH_UP;
    dt_path_accept_offer(&path, &offer);
    EXPECT_EQ((uint32_t)DT_PATH_NONE, path.state);
    dt_path_get_offer(&path, false, &offer);
    EXPECT_FALSE(offer.is_usable);
}

TEST_F(Path, ThePeersDeviceKeepsItsFirstName)
{
    dt_path_offer offer = {};
    offer.is_usable = true;
    offer.control_addr = 4096;
    offer.control_rkey = 9;
    strcpy(offer.device, "mlx5_1");
    dt_path_accept_offer(&path, &offer);
    EXPECT_STREQ("mlx5_1", path.peer_device);
    strcpy(offer.device, "mlx5_2");
    offer.control_rkey = 10;
    dt_path_accept_offer(&path, &offer);
    EXPECT_STREQ("mlx5_1", path.peer_device);
    EXPECT_EQ(4096u, path.peer_control_addr);
    EXPECT_EQ(10u, path.peer_control_rkey);
}
} // namespace
