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
    fence.marker_mask = 3;
    fence.receives_mask = 1;
    EXPECT_EQ(DT_FENCE_WAIT, dt_fence_verdict(&fence, 200));
    fence.receives_mask = 3;
    fence.marker_mask = 2;
    EXPECT_EQ(DT_FENCE_WAIT, dt_fence_verdict(&fence, 200));
    fence.marker_mask = 3;
    EXPECT_EQ(DT_FENCE_PROVEN, dt_fence_verdict(&fence, 200));
    EXPECT_STREQ("flushed", dt_fence_evidence(&fence));
}

TEST_F(Fence, IsNotProvenByFlushesBeforeAnybodyAskedForThem)
{
    fence.marker_mask = fence.receives_mask = 3;
    EXPECT_EQ(DT_FENCE_WAIT, dt_fence_verdict(&fence, 200));
    EXPECT_STREQ("none", dt_fence_evidence(&fence));
}

TEST_F(Fence, IsProvenByDestruction)
{
    fence.is_destroyed = true;
    EXPECT_EQ(DT_FENCE_PROVEN, dt_fence_verdict(&fence, 200));
    EXPECT_STREQ("destroyed", dt_fence_evidence(&fence));
}

TEST_F(Fence, IsProvenByADeviceThatIsGone)
{
    fence.is_device_gone = true;
    EXPECT_EQ(DT_FENCE_PROVEN, dt_fence_verdict(&fence, 200));
    EXPECT_STREQ("device gone", dt_fence_evidence(&fence));
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

TEST_F(Fence, OfADeadDeviceAsksForDestructionAtOnce)
{
    fence.is_device_dead = true;
    EXPECT_EQ(100u, dt_fence_deadline_ns(&fence));
    EXPECT_EQ(DT_FENCE_DESTROY, dt_fence_verdict(&fence, 100));
    EXPECT_EQ(DT_FENCE_WAIT, dt_fence_verdict(&fence, 1099));
    EXPECT_EQ(DT_FENCE_LATE, dt_fence_verdict(&fence, 1100));
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
    fence.marker_mask = fence.receives_mask = 0x7f;
    EXPECT_EQ(DT_FENCE_WAIT, dt_fence_verdict(&fence, 1));
    fence.marker_mask = fence.receives_mask = 0xff;
    EXPECT_EQ(DT_FENCE_PROVEN, dt_fence_verdict(&fence, 1));
}
} // namespace
