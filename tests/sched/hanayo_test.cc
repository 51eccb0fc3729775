// SPDX-License-Identifier: Apache-2.0
// Hanayo's waves: the placement that it accepts, its order, and what section 3 of the paper states about it.
#include "tests/sched/sched_test.h"

using namespace sched_test;

namespace
{
/* `waves` times down and up over `devices`; a device's work does not depend on the number of waves. */
Profile Waves(int32_t devices, int32_t waves, int32_t microbatches)
{
    Profile profile = Profile::Uniform(2 * devices * waves, microbatches, 12 / waves, 12 / waves, 12 / waves);
    for (int32_t i = 0; i < 2 * devices * waves; i++) {
        int32_t place = i % (2 * devices);
        profile.stages[i].device = place < devices ? place : 2 * devices - 1 - place;
        profile.stages[i].bytes_f = 1;
    }
    return profile;
}
} // namespace

TEST(Hanayo, OneWaveOfTwoDevicesPrefersBackwards)
{
    Arena arena;
    Profile profile = Waves(2, 1, 2);
    const struct detour_schedule *s = Generate(arena, profile, DETOUR_ALGORITHM_HANAYO)->schedule;
    EXPECT_EQ(Line(s, 0), "F0 F1 F0 BW0 F1 BW1 BW0 BW1");
    EXPECT_EQ(Line(s, 1), "F0 F0 F1 F1 BW0 BW0 BW1 BW1");
}

/* As many microbatches as devices: more waves fill the pipeline sooner, which is the point of the paper. */
TEST(Hanayo, MoreWavesMeanFewerBubbles)
{
    for (int32_t devices : {4, 8}) {
        int64_t before_ns = INT64_MAX;
        for (int32_t waves : {1, 2, 4}) {
            Arena arena;
            Profile profile = Waves(devices, waves, devices);
            int64_t makespan_ns = Generate(arena, profile, DETOUR_ALGORITHM_HANAYO)->makespan_ns;
            EXPECT_LT(makespan_ns, before_ns) << devices << " devices, " << waves << " waves";
            before_ns = makespan_ns;
        }
    }
}

TEST(Hanayo, NoMoreMicrobatchesAreOpenThanThereAreDevices)
{
    for (int32_t waves : {1, 2}) {
        Arena arena;
        Profile profile = Waves(4, waves, 24);
        struct detour_plan *plan = Generate(arena, profile, DETOUR_ALGORITHM_HANAYO);
        struct detour_report *report = nullptr;
        ASSERT_EQ(detour_simulate(arena, profile.get(), plan->schedule, &report, nullptr), DETOUR_OK);
        EXPECT_EQ(report->stages[0].peak_inflight, 4);
        for (int32_t d = 0; d < 4; d++)
            EXPECT_LE(report->devices[d].peak_bytes, 4 * 2 * waves) << "device " << d;
    }
}

TEST(Hanayo, OtherPlacementsAreRefused)
{
    Arena arena;
    struct detour_plan *plan = nullptr;
    struct detour_error error = {};
    struct detour_options options = {};
    options.algorithm = DETOUR_ALGORITHM_HANAYO;
    Profile chain = Profile::Uniform(4, 4, 10, 10, 10);
    EXPECT_EQ(detour_generate(arena, chain.get(), &options, &plan, &error), DETOUR_UNSUPPORTED);
    EXPECT_STREQ(error.text,
                 "hanayo needs an even number of stages on each device; 4 stages are on 4 devices");
    Profile loop = Waves(2, 1, 4);
    for (int32_t i = 0; i < 4; i++)
        loop.stages[i].device = i % 2;
    EXPECT_EQ(detour_generate(arena, loop.get(), &options, &plan, &error), DETOUR_UNSUPPORTED);
    EXPECT_STREQ(error.text,
                 "hanayo needs the stages placed down and up again: stage 2 belongs on device 1, not 0");
}
