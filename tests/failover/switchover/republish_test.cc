// SPDX-License-Identifier: Apache-2.0
#include "failover/switchover/republish.h"

#include "tests/failover/switchover/pair.h"
#include "transport/message/flush.h"

namespace
{
class Republish : public detour_test::Pair
{
  protected:
    void LosePath(uint32_t p)
    {
        receiver->path[p].state = DT_PATH_NONE;
        dt_connection_choose_path(receiver);
    }
};

TEST_F(Republish, OpenReceivesOfTheEpochArePublishedOverAnotherPath)
{
    const uint64_t first = dt_receiver_of(receiver)->next;
    PostReceive(0);
    PostReceive(1);
    LosePath(0);
    EXPECT_EQ(2u, dt_republish_discard(&receiver->path[0]));
    EXPECT_EQ(2u, dt_receiver_of(receiver)->again);
    EXPECT_TRUE(receiver->notices & DT_NOTICE_AGAIN);
    dt_receiver_publish_again(dt_receiver_of(receiver));
    EXPECT_EQ(0u, dt_receiver_of(receiver)->again);
    EXPECT_EQ(1u, ReceiveSlot(first)->path);
    EXPECT_EQ(1u, ReceiveSlot(first + 1)->path);
    PostSend(0);
    PostSend(1);
    receiver->path[0].state = DT_PATH_UP;
    dt_connection_choose_path(receiver);
    Finish();
    EXPECT_EQ(0, memcmp(from, to, 2 * kBytes));
}

TEST_F(Republish, AReceiveThatAnotherPathCompletesIsNotCountedWhenOneMorePathIsLost)
{
    const uint64_t first = dt_receiver_of(receiver)->next;
    PostReceive(0);
    PostReceive(1);
    LosePath(0);
    LosePath(1);
    EXPECT_EQ(2u, dt_republish_discard(&receiver->path[0]));
    ReceiveSlot(first)->state = DT_RECV_DONE; // over the other path, before there is one to publish it over
    EXPECT_EQ(0u, dt_republish_discard(&receiver->path[1]));
    EXPECT_EQ(1u, dt_receiver_of(receiver)->again);
    ReceiveSlot(first)->state = DT_RECV_OPEN;
    receiver->path[0].state = receiver->path[1].state = DT_PATH_UP;
    dt_connection_choose_path(receiver);
    dt_receiver_publish_again(dt_receiver_of(receiver));
    PostSend(0);
    PostSend(1);
    Finish();
}

TEST_F(Republish, ReceivesThatWerePublishedOverAnotherPathStayThere)
{
    PostReceive(0);
    LosePath(1);
    EXPECT_EQ(0u, dt_republish_discard(&receiver->path[1]));
    EXPECT_EQ(0u, dt_receiver_of(receiver)->again);
    receiver->path[1].state = DT_PATH_UP;
    dt_connection_choose_path(receiver);
    PostSend(0);
    Finish();
}

TEST_F(Republish, PartsThatArrivedOverTheEpochAreForgotten)
{
    const uint64_t first = dt_receiver_of(receiver)->next;
    PostReceive(0);
    dt_arrivals *arrivals = ReceiveSlot(first)->arrivals;
    ASSERT_TRUE(dt_arrivals_add(&arrivals[0], 0, 0, 100));
    ASSERT_TRUE(dt_arrivals_add(&arrivals[1], 0, 0, 100));
    LosePath(0);
    dt_republish_discard(&receiver->path[0]);
    EXPECT_EQ(0u, arrivals[0].seen);
    EXPECT_NE(0u, arrivals[1].seen) << "of the other path";
    dt_arrivals_clear(&arrivals[1]);
    dt_receiver_publish_again(dt_receiver_of(receiver));
    receiver->path[0].state = DT_PATH_UP;
    dt_connection_choose_path(receiver);
    PostSend(0);
    Finish();
}

TEST_F(Republish, TheSnapshotNamesCompleteMessagesAlsoBehindAGap)
{
    const uint64_t first = dt_receiver_of(receiver)->next;
    for (int i = 0; i < 3; i++)
        PostReceive(i);
    ReceiveSlot(first + 1)->state = DT_RECV_DONE; // it overtook the first
    LosePath(0);
    dt_republish_snapshot(&receiver->path[0]);
    const dt_resume *resume = &State(receiver, 0)->resume;
    EXPECT_EQ(first, resume->first);
    EXPECT_TRUE(dt_resume_has(resume, first - 1));
    EXPECT_FALSE(dt_resume_has(resume, first));
    EXPECT_TRUE(dt_resume_has(resume, first + 1));
    EXPECT_FALSE(dt_resume_has(resume, first + 2));
    ReceiveSlot(first + 1)->state = DT_RECV_OPEN;
    receiver->path[0].state = DT_PATH_UP;
    dt_connection_choose_path(receiver);
    for (int i = 0; i < 3; i++)
        PostSend(i);
    Finish();
}

TEST_F(Republish, WithoutALoopbackQueuePairThereIsNothingToRetire)
{
    LosePath(1);
    EXPECT_EQ(nullptr, dt_republish_retire_flush(&receiver->path[1]));
    receiver->path[1].state = DT_PATH_UP;
    dt_connection_choose_path(receiver);
}

/* As when the device is lost while its control thread is busy: the reads are lost, and the task is not. */
TEST_F(Republish, ALoopbackQueuePairThatIsBeingMadeIsNotAskedForAgain)
{
    dt_path *path = &receiver->path[1];
    dt_receiver *r = dt_receiver_of(receiver);
    r->flush_wanted_mask = r->flush_made_mask = 2;
    dt_path_submit_flush(path);
    dt_receiver_flush_lose(r, path);
    EXPECT_EQ(nullptr, dt_republish_retire_flush(path));
    EXPECT_EQ(2u, r->flush_made_mask);
    EXPECT_FALSE(path->is_flush_broken);
    dt_executor_run(&path->nic->executor);
    EXPECT_NE(nullptr, path->flush);
    EXPECT_EQ(0u, path->is_flush_queued);
}

/* As when the task for it was queued before the device was lost, and ran afterwards. */
TEST_F(Republish, ALoopbackQueuePairThatWasRefusedInTheLastEpochIsRequestedAgain)
{
    dt_path *path = &receiver->path[1];
    dt_receiver *r = dt_receiver_of(receiver);
    r->flush_wanted_mask = r->flush_made_mask = 2;
    path->is_flush_queued = 1;
    dt_completion bad = {};
    bad.status = DT_WC_RETRY_EXCEEDED;
    bad.qpn = dt_qp_number(sender->path[1].qp[0]);
    dt_connection_path_failed(sender, &sender->path[1], &bad);
    Until([&] { return path->machine.epoch == 1; });
    EXPECT_EQ(2u, r->flush_made_mask) << "the task was not over";
    path->is_flush_refused = 1;
    path->is_flush_queued = 0;
    Until([&] { return path->state == DT_PATH_UP && sender->path[1].state == DT_PATH_UP; });
    EXPECT_EQ(0u, path->is_flush_refused);
    EXPECT_EQ(0u, r->flush_made_mask & 2u);
    Move();
}
} // namespace
