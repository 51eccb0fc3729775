// SPDX-License-Identifier: Apache-2.0
#include "sched/timeline.h"

#include "tests/sched/made.h"

using namespace sched_test;

TEST(Timeline, AnOperationStartsWhenItsInputAndItsDeviceAreThere)
{
    Profile profile = Profile::Uniform(2, 2, 10, 20, 5);
    profile.Delay(0, 7);
    Made made(profile);
    struct dt_timeline tl;
    ASSERT_EQ(dt_timeline_init(&made.call, made.p, &tl), DETOUR_OK);
    EXPECT_EQ(dt_timeline_input_ns(&tl, DETOUR_OP_F, 0), 0);
    EXPECT_EQ(dt_timeline_input_ns(&tl, DETOUR_OP_F, 1), DT_FOREVER);
    EXPECT_EQ(dt_timeline_put(&tl, DETOUR_OP_F, 0), 10);
    EXPECT_EQ(dt_timeline_input_ns(&tl, DETOUR_OP_F, 1), 17);
    EXPECT_EQ(dt_timeline_put(&tl, DETOUR_OP_F, 0), 20) << "the device is busy until 10";
    EXPECT_EQ(dt_timeline_next(&tl, DETOUR_OP_F, 0), 2) << "all forwards are done";
    EXPECT_EQ(dt_timeline_put(&tl, DETOUR_OP_F, 1), 27);
    EXPECT_EQ(dt_timeline_put(&tl, DETOUR_OP_BW, 1), 52);
    EXPECT_EQ(dt_timeline_input_ns(&tl, DETOUR_OP_B, 0), 59);
    EXPECT_EQ(dt_timeline_next(&tl, DETOUR_OP_W, 1), 1) << "the W of a BW does not exist";
}

TEST(Timeline, AnUnfinishedScheduleIsRefused)
{
    Profile profile = Profile::Uniform(1, 1, 10, 10, 10);
    Made made(profile);
    struct dt_timeline tl;
    struct detour_schedule *s = nullptr;
    ASSERT_EQ(dt_timeline_init(&made.call, made.p, &tl), DETOUR_OK);
    dt_timeline_put(&tl, DETOUR_OP_F, 0);
    EXPECT_EQ(dt_timeline_finish(&made.call, &tl, &s), DETOUR_MEMORY_TOO_SMALL);
}

/* Two stages on a device: an F leaves room for one microbatch to go through both. */
TEST(Timeline, AForwardLeavesRoomForTheOldestMicrobatch)
{
    Profile profile = Profile::Uniform(2, 3, 10, 10, 10);
    for (struct detour_stage &stage : profile.stages) {
        stage.device = 0;
        stage.bytes_f = 10;
    }
    profile.devices.resize(1);
    profile.devices[0].capacity_bytes = 30;
    Made made(profile);
    struct dt_timeline tl;
    ASSERT_EQ(dt_timeline_init(&made.call, made.p, &tl), DETOUR_OK);
    dt_timeline_put(&tl, DETOUR_OP_F, 0);
    EXPECT_TRUE(dt_timeline_fits(&tl, DETOUR_OP_F, 0));
    dt_timeline_put(&tl, DETOUR_OP_F, 0);
    EXPECT_FALSE(dt_timeline_fits(&tl, DETOUR_OP_F, 0)) << "10 bytes are free, and stage 1 needs them";
    EXPECT_TRUE(dt_timeline_fits(&tl, DETOUR_OP_F, 1));
}
