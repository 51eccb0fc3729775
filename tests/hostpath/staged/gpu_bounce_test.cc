/* SPDX-License-Identifier: Apache-2.0 */
// Bounce buffers without a GPU: the receives, driven by hand. With the double of a driver:
// tests/plugin/gpu_receive_test.cc.
#include "hostpath/staged/gpu_bounce.h"

#include "tests/hostpath/staged/staged_ends.h"

namespace
{
class GpuBounce : public detour_test::StagedEnds
{
  protected:
    void SetUp() override
    {
        StagedEnds::SetUp();
        bounce = static_cast<dt_gpu_bounce *>(calloc(1, sizeof *bounce));
        bounce->gpus = &here.net->hostpath.gpus;
        dt_list_init(&bounce->open);
        for (dt_bounce_receive &receive : bounce->receive)
            dt_list_init(&receive.node);
        r->gpu_bounce = bounce;
    }
    dt_gpu_bounce *bounce = nullptr;
};

TEST_F(GpuBounce, AReceiveIntoOtherMemoryIsNotAwaited)
{
    ASSERT_NE(nullptr, Irecv(100));
    EXPECT_TRUE(dt_list_is_empty(&bounce->open));
    EXPECT_EQ(0u, r->side_open);
}

TEST_F(GpuBounce, AMessageThatCameOverAnotherPathNeedsNoCopy)
{
    to_memory->bounce_mask = 2;
    dt_request *receive = Irecv(100);
    dt_bounce_receive *bounced = &bounce->receive[0];
    EXPECT_EQ(DT_BOUNCE_AWAITED, bounced->state);
    EXPECT_EQ(1u, r->side_open);
    EXPECT_EQ(2u, to_memory->open); // the message's and the copy's
    Wait(SendWhenPossible(100));
    ASSERT_TRUE(Until([&] {
        dt_connection_progress(receiver);
        return bounced->state == DT_BOUNCE_DONE;
    }));
    EXPECT_EQ(0u, bounced->copy_count);
    EXPECT_EQ(0u, r->side_open);
    EXPECT_EQ(0u, to_memory->open);
    EXPECT_TRUE(dt_list_is_empty(&bounce->open));
    EXPECT_TRUE(IsDone(receive));
    EXPECT_EQ(DT_BOUNCE_NONE, bounced->state);
    EXPECT_EQ(DT_RECV_FREE, dt_receiver_slot(r, 0)->state);
    to_memory->bounce_mask = 0;
}

TEST_F(GpuBounce, NothingIsDoneBeforeItsCopiesAre)
{
    to_memory->bounce_mask = 2;
    dt_request *receive = Irecv(100);
    dt_bounce_receive *bounced = &bounce->receive[0];
    Wait(SendWhenPossible(100));
    dt_recv_slot *slot = dt_receiver_slot(r, 0);
    ASSERT_TRUE(Until([&] {
        dt_connection_progress(receiver);
        return slot->state == DT_RECV_DONE;
    }));
    ASSERT_EQ(DT_BOUNCE_DONE, bounced->state); // nothing was to be copied: as if something were
    bounced->state = DT_BOUNCE_COPYING;
    bounced->copies_left = 1;
    dt_list_push_back(&bounce->open, &bounced->node);
    r->side_open++;
    to_memory->open++;
    EXPECT_FALSE(IsDone(receive));
    EXPECT_EQ(DT_BOUNCE_COPYING, bounced->state);
    bounced->copies_left = 0;
    EXPECT_TRUE(IsDone(receive));
    to_memory->bounce_mask = 0;
}

TEST_F(GpuBounce, ACopyThatFailedFailsTheConnection)
{
    to_memory->bounce_mask = 2;
    dt_request *receive = Irecv(100);
    dt_bounce_receive *bounced = &bounce->receive[0];
    int done = 0;

    ASSERT_NE(nullptr, receive);
    bounced->state = DT_BOUNCE_COPYING;
    bounced->copy_count = 1;
    bounced->copy[0].is_failed = true;
    detour_test::ExpectWarning("message 0 has arrived, but could not be copied into the GPU's memory");
    dt_bounce_progress(r);
    EXPECT_EQ(DT_BOUNCE_FAILED, bounced->state);
    EXPECT_EQ(DT_SYSTEM, (int)receiver->failing);
    dt_test(receive, &done, nullptr);
    EXPECT_EQ(0, done);
    to_memory->bounce_mask = 0;
}
} // namespace
