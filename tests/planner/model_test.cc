// SPDX-License-Identifier: Apache-2.0
#include "planner/model.h"

#include "sched/problem.h"
#include "tests/planner/planner_test.h"

namespace
{
using planner_test::Arena;
using planner_test::kMs;
using planner_test::Model;
using planner_test::Partition;

TEST(LayerSum, FusedTimesCountWhereTheyExist)
{
    Model model = Model::Uniform(3, 1);
    model.layers[1].bw_ns = 4 * kMs;

    struct dt_layer_sum sum = dt_sum_layers(model.get(), 0, 3);
    EXPECT_EQ(sum.f_ns, 3 * kMs);
    EXPECT_EQ(sum.b_ns, 6 * kMs);
    EXPECT_EQ(sum.w_ns, 9 * kMs);
    EXPECT_EQ(sum.bw_ns, (5 + 4 + 5) * kMs);
    EXPECT_EQ(sum.parameter_bytes, 300);
    EXPECT_EQ(sum.gradient_bytes, 600);
    EXPECT_EQ(sum.optimizer_bytes, 1800);
    EXPECT_EQ(sum.activation_bytes, 120);
    EXPECT_EQ(sum.activation_w_bytes, 30);
    EXPECT_EQ(dt_sum_layers(model.get(), 1, 1).f_ns, 0);
}

TEST(DeviceTime, IsRoundedUp)
{
    struct detour_model_device third = {0, 3000}, half = {0, 500};
    EXPECT_EQ(dt_device_time_ns(&third, 10), 4);
    EXPECT_EQ(dt_device_time_ns(&third, 9), 3);
    EXPECT_EQ(dt_device_time_ns(&half, 10), 20);
    EXPECT_EQ(dt_device_time_ns(&half, 0), 0);
}

TEST(LinkSerial, IsBytesOverBandwidth)
{
    struct detour_model_link link = {7, 3, false};
    EXPECT_EQ(dt_link_serial_ns(&link, 1), 333333334);
    EXPECT_EQ(dt_link_serial_ns(&link, 0), 0);
    EXPECT_EQ(dt_link_serial_ns(&link, DETOUR_BYTES_MAX), DT_FOREVER);
    link.bytes_per_s = 0;
    EXPECT_EQ(dt_link_serial_ns(&link, DETOUR_BYTES_MAX), 0);
}

TEST(ModelProfile, StagesAreSumsOverLayersAtTheSpeedOfTheirDevice)
{
    Arena arena;
    Model model = Model::Uniform(5, 2);
    Partition partition{{0, 2, 4, 5}, {0, 1, 0}};
    struct detour_profile *profile = nullptr;

    model.devices[1].speed_permille = 500;
    model.devices[0].capacity_bytes = 3000;
    ASSERT_EQ(detour_model_profile(arena, model.get(), partition.get(), &profile, nullptr), DETOUR_OK);
    EXPECT_EQ(profile->stage_count, 3);
    EXPECT_EQ(profile->device_count, 2);
    EXPECT_EQ(profile->microbatch_count, 4);
    EXPECT_EQ(profile->stages[0].f_ns, 2 * kMs);
    EXPECT_EQ(profile->stages[1].f_ns, 4 * kMs);
    EXPECT_EQ(profile->stages[1].b_ns, 8 * kMs);
    EXPECT_EQ(profile->stages[1].w_ns, 12 * kMs);
    EXPECT_EQ(profile->stages[1].bw_ns, 20 * kMs);
    EXPECT_EQ(profile->stages[2].bytes_f, 40);
    EXPECT_EQ(profile->stages[0].bytes_w, 20);
    EXPECT_EQ(profile->stages[2].device, 0);
    EXPECT_EQ(profile->devices[0].capacity_bytes, 3000 - 3 * 900); // three layers stay on device 0
    EXPECT_EQ(profile->devices[1].capacity_bytes, 0);
    EXPECT_EQ(profile->links[0].forward_ns, 0);
}

TEST(ModelProfile, LinksComeFromTheirDevicesAndTheLayerBeforeTheCut)
{
    Arena arena;
    Model model = Model::Uniform(4, 2);
    Partition partition{{0, 1, 3, 4}, {0, 1, 1}};
    struct detour_profile *profile = nullptr;

    model.Links({}).links[0 * 2 + 1] = {5, 1000000, false};
    model.links[1 * 2 + 0] = {9, 500000, false};
    model.layers[0].message_bytes = 3000;
    ASSERT_EQ(detour_model_profile(arena, model.get(), partition.get(), &profile, nullptr), DETOUR_OK);
    EXPECT_EQ(profile->links[0].forward_ns, 5);
    EXPECT_EQ(profile->links[0].backward_ns, 9);
    EXPECT_EQ(profile->links[0].forward_serial_ns, 3 * kMs);
    EXPECT_EQ(profile->links[0].backward_serial_ns, 6 * kMs);
    EXPECT_EQ(profile->links[1].forward_serial_ns, 0); // both stages are on device 1
}

TEST(ModelProfile, ABlockingLinkTakesTimeOfTheSender)
{
    Arena arena;
    Model model = Model::Uniform(2, 2);
    Partition partition{{0, 1, 2}, {0, 1}};
    struct detour_profile *profile = nullptr;

    model.Links({4, 1000000, true});
    ASSERT_EQ(detour_model_profile(arena, model.get(), partition.get(), &profile, nullptr), DETOUR_OK);
    EXPECT_EQ(profile->stages[0].f_ns, 2 * kMs);
    EXPECT_EQ(profile->stages[0].b_ns, 2 * kMs);
    EXPECT_EQ(profile->stages[1].f_ns, 1 * kMs);
    EXPECT_EQ(profile->stages[1].b_ns, 3 * kMs);
    EXPECT_EQ(profile->stages[1].w_ns, 3 * kMs);
    EXPECT_EQ(profile->stages[1].bw_ns, 6 * kMs);
    EXPECT_EQ(profile->links[0].forward_serial_ns, 0);
    EXPECT_EQ(profile->links[0].backward_ns, 4);
}

TEST(ModelProfile, RefusesADeviceThatCannotHoldItsLayers)
{
    Arena arena;
    Model model = Model::Uniform(4, 2);
    Partition partition{{0, 1, 4}, {0, 1}};
    struct detour_profile *profile = nullptr;
    struct detour_error error = {};

    model.devices[1].capacity_bytes = 2700;
    EXPECT_EQ(detour_model_profile(arena, model.get(), partition.get(), &profile, &error),
              DETOUR_MEMORY_TOO_SMALL);
    EXPECT_STREQ(error.text,
                 "device 1: parameters, gradients and optimizer state of its layers need 2700 bytes; "
                 "its capacity is 2700");
    model.devices[1].capacity_bytes = 2819; // one byte less than one microbatch needs
    EXPECT_EQ(detour_model_profile(arena, model.get(), partition.get(), &profile, &error),
              DETOUR_MEMORY_TOO_SMALL);
    EXPECT_EQ(profile, nullptr);
    model.devices[1].capacity_bytes = 2820;
    EXPECT_EQ(detour_model_profile(arena, model.get(), partition.get(), &profile, &error), DETOUR_OK);
}

TEST(ModelProfile, RefusesTimesBeyondTheLimit)
{
    Arena arena;
    Model model = Model::Uniform(2, 2);
    Partition partition{{0, 1, 2}, {0, 1}};
    struct detour_profile *profile = nullptr;

    model.layers[0].message_bytes = DETOUR_BYTES_MAX;
    model.Links({0, 1, true});
    EXPECT_EQ(detour_model_profile(arena, model.get(), partition.get(), &profile, nullptr), DETOUR_LIMIT);
    model.Links({0, 1, false});
    EXPECT_EQ(detour_model_profile(arena, model.get(), partition.get(), &profile, nullptr), DETOUR_LIMIT);
    model.devices[0].speed_permille = 1;
    model.layers[0].f_ns = DETOUR_TIME_MAX_NS;
    EXPECT_EQ(detour_model_profile(arena, model.get(), partition.get(), &profile, nullptr), DETOUR_LIMIT);
}
} // namespace
