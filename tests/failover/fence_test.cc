/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include "base/clock.h"
#include "failover/fence.h"

namespace
{
const uint64_t kLimit = 1000;

struct Fence : ::testing::Test {
    dt_fence fence = {};
    void SetUp() override
    {
        dt_fence_begin(&fence, 2, kLimit, 100);
    }
};

TEST_F(Fence, IsProvenByMarkersAndReceivesOfEveryQueuePair)
{
    fence.is_err_requested = true;
    fence.markers = dt_qp_set_of_first(2);
    fence.receives = dt_qp_set_of_first(1);
    EXPECT_EQ(DT_FENCE_WAIT, dt_fence_verdict(&fence, 200));
    fence.receives = dt_qp_set_of_first(2);
    dt_qp_set_remove(&fence.markers, 0);
    EXPECT_EQ(DT_FENCE_WAIT, dt_fence_verdict(&fence, 200));
    dt_qp_set_add(&fence.markers, 0);
    EXPECT_EQ(DT_FENCE_PROVEN, dt_fence_verdict(&fence, 200));
    EXPECT_STREQ("flushed", dt_fence_evidence(&fence, 200));
}

TEST_F(Fence, WantsEachOfAsManyQueuePairsAsAPathMayHave)
{
    dt_fence_end(&fence);
    dt_fence_begin(&fence, DT_QPS_MAX, kLimit, 100);
    fence.is_err_requested = true;
    fence.markers = fence.receives = dt_qp_set_of_first(DT_QPS_MAX);
    EXPECT_EQ(DT_FENCE_PROVEN, dt_fence_verdict(&fence, 200));
    for (uint32_t q = 0; q < DT_QPS_MAX; q++) {
        for (dt_qp_set *facts : {&fence.markers, &fence.receives}) {
            dt_qp_set_remove(facts, q);
            EXPECT_EQ(DT_FENCE_WAIT, dt_fence_verdict(&fence, 200)) << "queue pair " << q;
            dt_qp_set_add(facts, q);
        }
    }
}

TEST_F(Fence, IsNotProvenByFlushesBeforeAnybodyAskedForThem)
{
    fence.markers = fence.receives = dt_qp_set_of_first(2);
    EXPECT_EQ(DT_FENCE_WAIT, dt_fence_verdict(&fence, 200));
    EXPECT_STREQ("unproven", dt_fence_evidence(&fence, 200));
}

TEST_F(Fence, IsProvenByDestruction)
{
    fence.is_destroyed = true;
    EXPECT_EQ(DT_FENCE_PROVEN, dt_fence_verdict(&fence, 200));
    EXPECT_STREQ("destroyed", dt_fence_evidence(&fence, 200));
}

TEST_F(Fence, IsProvenByADeviceThatIsGone)
{
    fence.is_device_gone = true;
    EXPECT_EQ(DT_FENCE_PROVEN, dt_fence_verdict(&fence, 200));
    EXPECT_STREQ("device gone", dt_fence_evidence(&fence, 200));
}

TEST_F(Fence, AsksForDestructionOnTimeoutAndReportsItThen)
{
    EXPECT_EQ(1100u, dt_fence_deadline_ns(&fence));
    EXPECT_EQ(DT_FENCE_WAIT, dt_fence_verdict(&fence, 1099));
    EXPECT_EQ(DT_FENCE_DESTROY, dt_fence_verdict(&fence, 1100));
    EXPECT_EQ(2100u, dt_fence_deadline_ns(&fence));
    EXPECT_EQ(DT_FENCE_WAIT, dt_fence_verdict(&fence, 1101)) << "reported once";
    EXPECT_EQ(DT_FENCE_LATE, dt_fence_verdict(&fence, 2100));
    EXPECT_EQ(DT_NEVER_NS, dt_fence_deadline_ns(&fence));
    EXPECT_EQ(DT_FENCE_WAIT, dt_fence_verdict(&fence, 1ull << 60)) << "reported once";
    fence.is_destroyed = true;
    EXPECT_EQ(DT_FENCE_PROVEN, dt_fence_verdict(&fence, 1ull << 60)) << "late is not never";
}

TEST_F(Fence, OfADeadDeviceIsNotProvenByDestruction)
{
    fence.is_device_dead = true;
    fence.is_destroyed = true;
    EXPECT_EQ(1100u, dt_fence_deadline_ns(&fence));
    EXPECT_EQ(DT_FENCE_WAIT, dt_fence_verdict(&fence, 1099));
    EXPECT_EQ(DT_FENCE_LATE, dt_fence_verdict(&fence, 1100)) << "no destruction is asked for";
    EXPECT_STREQ("unproven", dt_fence_evidence(&fence, 1100));
    fence.is_device_gone = true;
    EXPECT_EQ(DT_FENCE_PROVEN, dt_fence_verdict(&fence, 1101));
    EXPECT_STREQ("device gone", dt_fence_evidence(&fence, 1101));
}

TEST_F(Fence, OfADeadDeviceIsProvenByTheSendersOwnProofAndALateTime)
{
    fence.late_ns = 5000;
    dt_fence_peer_stopped(&fence, 300);
    dt_fence_peer_stopped(&fence, 900); // a retransmission
    EXPECT_EQ(DT_FENCE_DESTROY, dt_fence_verdict(&fence, 1100));
    EXPECT_EQ(DT_FENCE_LATE, dt_fence_verdict(&fence, 2100));
    EXPECT_EQ(DT_FENCE_WAIT, dt_fence_verdict(&fence, 6000)) << "the device lives and has refused nothing";
    fence.is_device_dead = true;
    EXPECT_EQ(5300u, dt_fence_deadline_ns(&fence));
    EXPECT_EQ(DT_FENCE_WAIT, dt_fence_verdict(&fence, 5299));
    EXPECT_EQ(DT_FENCE_PROVEN, dt_fence_verdict(&fence, 5300));
    EXPECT_STREQ("peer stopped", dt_fence_evidence(&fence, 5300));
}

TEST_F(Fence, OfADeviceThatRefusesTheDestructionIsProvenByTheSendersProofToo)
{
    fence.late_ns = 5000;
    fence.is_refused = true;
    dt_fence_peer_stopped(&fence, 300);
    EXPECT_EQ(DT_FENCE_PROVEN, dt_fence_verdict(&fence, 5300));
    fence.is_destroyed = true; // at last
    EXPECT_STREQ("destroyed", dt_fence_evidence(&fence, 5300));
}

TEST_F(Fence, SendsNothingWhenItHasEnded)
{
    fence.is_device_gone = true;
    dt_fence_end(&fence);
    EXPECT_EQ(DT_FENCE_WAIT, dt_fence_verdict(&fence, 1ull << 60));
    EXPECT_EQ(DT_NEVER_NS, dt_fence_deadline_ns(&fence));
}

TEST(FenceOfEightQueuePairs, WantsAllOfThem)
{
    dt_fence fence = {};
    dt_fence_begin(&fence, 8, kLimit, 0);
    fence.is_err_requested = true;
    fence.markers = fence.receives = dt_qp_set_of_first(7);
    EXPECT_EQ(DT_FENCE_WAIT, dt_fence_verdict(&fence, 1));
    fence.markers = fence.receives = dt_qp_set_of_first(8);
    EXPECT_EQ(DT_FENCE_PROVEN, dt_fence_verdict(&fence, 1));
}
} // namespace
