// SPDX-License-Identifier: Apache-2.0
#include "sched/memory.h"

#include "sched/simulate.h"
#include "tests/sched/made.h"
#include "tests/sched/slow_simulator.h"

using namespace sched_test;

namespace
{
Profile WithBytes(int64_t bytes_f, int64_t bytes_w)
{
    Profile profile = Profile::Uniform(1, 2, 10, 10, 10);
    profile.stages[0].bytes_f = bytes_f;
    profile.stages[0].bytes_w = bytes_w;
    return profile;
}
} // namespace

/* What F takes is given back by B and W together, or by BW; B may take more than F did. */
TEST(Memory, EveryMicrobatchReturnsItsMemory)
{
    for (int64_t bytes_w : {int64_t(0), int64_t(4), int64_t(10), int64_t(13)}) {
        Profile profile = WithBytes(10, bytes_w);
        Made made(profile);
        struct dt_memory memory;
        ASSERT_EQ(dt_memory_init(&made.call, made.p, &memory), DETOUR_OK);
        dt_memory_apply(&memory, DETOUR_OP_F, 0);
        EXPECT_EQ(memory.bytes[0], 10);
        EXPECT_EQ(memory.inflight[0], 1);
        dt_memory_apply(&memory, DETOUR_OP_B, 0);
        EXPECT_EQ(memory.bytes[0], bytes_w);
        dt_memory_apply(&memory, DETOUR_OP_W, 0);
        EXPECT_EQ(memory.bytes[0], 0);
        dt_memory_apply(&memory, DETOUR_OP_F, 0);
        dt_memory_apply(&memory, DETOUR_OP_BW, 0);
        EXPECT_EQ(memory.bytes[0], 0);
        EXPECT_EQ(memory.inflight[0], 0);
    }
}

TEST(Memory, MicrobatchesLeaveAtTheChosenOperation)
{
    for (int release : {DETOUR_RELEASE_B, DETOUR_RELEASE_W}) {
        Profile profile = WithBytes(1, 1);
        profile.release = release;
        Made made(profile);
        EXPECT_EQ(dt_memory_inflight_change(made.p, DETOUR_OP_F), 1);
        EXPECT_EQ(dt_memory_inflight_change(made.p, DETOUR_OP_B), release == DETOUR_RELEASE_B ? -1 : 0);
        EXPECT_EQ(dt_memory_inflight_change(made.p, DETOUR_OP_W), release == DETOUR_RELEASE_W ? -1 : 0);
        EXPECT_EQ(dt_memory_inflight_change(made.p, DETOUR_OP_BW), -1);
    }
}

TEST(Memory, FitsUpToTheLimitAndNotBeyond)
{
    Profile profile = WithBytes(10, 14);
    profile.devices[0].capacity_bytes = 24;
    Made made(profile);
    struct dt_memory memory;
    ASSERT_EQ(dt_memory_init(&made.call, made.p, &memory), DETOUR_OK);
    EXPECT_TRUE(dt_memory_fits(&memory, DETOUR_OP_F, 0));
    dt_memory_apply(&memory, DETOUR_OP_F, 0);
    EXPECT_TRUE(dt_memory_fits(&memory, DETOUR_OP_F, 0));
    dt_memory_apply(&memory, DETOUR_OP_F, 0);
    EXPECT_FALSE(dt_memory_fits(&memory, DETOUR_OP_F, 0));
    EXPECT_TRUE(dt_memory_fits(&memory, DETOUR_OP_B, 0)) << "4 more bytes: exactly the limit";
    made.p->capacity[0] = 23;
    EXPECT_FALSE(dt_memory_fits(&memory, DETOUR_OP_B, 0));
}

TEST(Memory, PeaksAreThoseOfTheSlowSimulator)
{
    struct dt_prng prng;
    RandomLimits limits;
    dt_prng_init(&prng, 21);
    for (int round = 0; round < 200 && !testing::Test::HasFailure(); round++) {
        Profile profile = RandomProfile(&prng, limits);
        SCOPED_TRACE("round " + std::to_string(round) + ": " + Describe(profile));
        Made made(profile);
        struct detour_schedule *s = Generate(made.arena, profile, DETOUR_ALGORITHM_ADAPTRA)->schedule;
        struct dt_peaks peaks;
        ASSERT_EQ(dt_memory_peaks(&made.call, made.p, s, &peaks), DETOUR_OK);
        SlowResult expected = SlowSimulate(profile, s);
        for (int32_t d = 0; d < made.p->device_count; d++)
            EXPECT_EQ(peaks.bytes[d], expected.peak_bytes[d]) << "device " << d;
        for (int32_t i = 0; i < made.p->stage_count; i++)
            EXPECT_EQ(peaks.inflight[i], expected.peak_inflight[i]) << "stage " << i;
    }
}

TEST(Memory, CheckNamesTheDeviceOrStageBeyondItsLimit)
{
    Profile profile = Profile::Uniform(1, 3, 10, 10, 10);
    profile.stages[0].bytes_f = 10;
    Made free(profile);
    struct detour_schedule *s = Schedule(free.arena, profile, {"F0 F1 F2 B0 B1 B2 W0 W1 W2"});
    EXPECT_EQ(dt_memory_check(&free.call, free.p, s), DETOUR_OK);
    profile.devices[0].capacity_bytes = 29;
    Made tight(profile);
    EXPECT_EQ(dt_memory_check(&tight.call, tight.p, s), DETOUR_OVER_MEMORY);
    EXPECT_NE(std::string(tight.error.text).find("30"), std::string::npos) << tight.error.text;
    EXPECT_NE(std::string(tight.error.text).find("29"), std::string::npos) << tight.error.text;
    profile.devices[0].capacity_bytes = 0;
    profile.MaxInflight({2});
    Made few(profile);
    EXPECT_EQ(dt_memory_check(&few.call, few.p, s), DETOUR_OVER_MEMORY);
    EXPECT_NE(std::string(few.error.text).find("3"), std::string::npos) << few.error.text;
}
