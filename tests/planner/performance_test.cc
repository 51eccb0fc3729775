// SPDX-License-Identifier: Apache-2.0
#include "tests/planner/planner_test.h"

namespace
{
using planner_test::Arena;
using planner_test::kMs;
using planner_test::Model;
using planner_test::Partition;

/* A model's partition with a schedule, evaluated. */
struct Evaluated {
    Arena arena;
    struct detour_profile *profile = nullptr;
    struct detour_plan *plan = nullptr;
    struct detour_performance *performance = nullptr;

    Evaluated(Model &model, Partition &partition, enum detour_algorithm algorithm)
    {
        struct detour_options options = {};
        options.algorithm = algorithm;
        EXPECT_EQ(detour_model_profile(arena, model.get(), partition.get(), &profile, nullptr), DETOUR_OK);
        EXPECT_EQ(detour_generate(arena, profile, &options, &plan, nullptr), DETOUR_OK);
        EXPECT_EQ(
            detour_model_evaluate(arena, model.get(), partition.get(), plan->schedule, &performance, nullptr),
            DETOUR_OK);
    }
};

// Two stages, two microbatches, all F first. Device 0: F 0-1 1-2, device 1: F 2-3 3-4 (messages 1 ms), BW 4-9
// 9-14; device 0: BW 10-15 15-20 (gradients 9-10, 14-15).
TEST(Performance, TwoStagesByHand)
{
    Model model = Model::Uniform(2, 2).Links({kMs, 0, false});
    Partition partition{{0, 1, 2}, {0, 1}};
    model.microbatches = 2;
    Evaluated run(model, partition, DETOUR_ALGORITHM_GPIPE);
    const struct detour_device_performance *devices = run.performance->devices;

    EXPECT_EQ(run.performance->makespan_ns, 20 * kMs);
    EXPECT_EQ(devices[0].compute_ns, 12 * kMs);
    EXPECT_EQ(devices[0].exposed_ns, 1 * kMs); // the first gradient
    EXPECT_EQ(devices[0].overlapped_ns, 1 * kMs);
    EXPECT_EQ(devices[0].bubble_ns, 7 * kMs);
    EXPECT_EQ(devices[1].compute_ns, 12 * kMs);
    EXPECT_EQ(devices[1].exposed_ns, 1 * kMs); // the first activation
    EXPECT_EQ(devices[1].overlapped_ns, 1 * kMs);
    EXPECT_EQ(devices[1].bubble_ns, 7 * kMs);
    EXPECT_DOUBLE_EQ(run.performance->bubble_ratio, 1 - 24.0 / 40);
    EXPECT_EQ(devices[0].static_bytes, 700);
    EXPECT_EQ(devices[0].gradient_bytes, 200);
    EXPECT_EQ(devices[0].activation_bytes, 80);
    EXPECT_EQ(devices[0].peak_bytes, 980);
    EXPECT_TRUE(run.performance->fits);
}

// Both devices exchange 300 bytes with two other replicas, in twice two steps: 6 ms. Device 1 ends its last
// BW at 14 ms and has more bytes in the second part: 2 * (2 ms + 6 ms).
TEST(Performance, ReplicasExchangeAfterTheLastOperationOfADevice)
{
    Model model = Model::Uniform(2, 2).Links({kMs, 0, false});
    Partition partition{{0, 1, 2}, {0, 1}};
    model.microbatches = 2;
    model.replicas = {3, kMs, 100000};
    Evaluated equal(model, partition, DETOUR_ALGORITHM_GPIPE);
    EXPECT_EQ(equal.performance->makespan_ns, 20 * kMs);
    EXPECT_EQ(equal.performance->devices[0].exchange_ns, 6 * kMs);
    EXPECT_EQ(equal.performance->devices[1].exchange_ns, 6 * kMs);
    EXPECT_EQ(equal.performance->iteration_ns, 26 * kMs);
    model.layers[1].gradient_bytes += 1500;
    Evaluated uneven(model, partition, DETOUR_ALGORITHM_GPIPE);
    EXPECT_EQ(uneven.performance->devices[1].exchange_ns, 16 * kMs);
    EXPECT_EQ(uneven.performance->iteration_ns, 30 * kMs);
    model.replicas.count = 1;
    Evaluated alone(model, partition, DETOUR_ALGORITHM_GPIPE);
    EXPECT_EQ(alone.performance->devices[1].exchange_ns, 0);
    EXPECT_EQ(alone.performance->iteration_ns, 20 * kMs);
}

// The same with messages that block their sender for 1 ms: device 0: F 0-2 2-4 (half of each sends); device
// 1: F 2-3 4-5, BW 5-11 11-17 (the last of each sends); device 0: BW 11-16 17-22.
TEST(Performance, ABlockedSenderCommunicatesAndDoesNotCompute)
{
    Model model = Model::Uniform(2, 2).Links({0, 1000000, true});
    Partition partition{{0, 1, 2}, {0, 1}};
    model.microbatches = 2;
    Evaluated run(model, partition, DETOUR_ALGORITHM_GPIPE);
    const struct detour_device_performance *devices = run.performance->devices;

    EXPECT_EQ(run.performance->makespan_ns, 22 * kMs);
    EXPECT_EQ(devices[0].compute_ns, 12 * kMs);
    EXPECT_EQ(devices[0].exposed_ns, 4 * kMs); // two activations sent, 10-11 and 16-17 awaited
    EXPECT_EQ(devices[0].overlapped_ns, 0);
    EXPECT_EQ(devices[0].bubble_ns, 6 * kMs);
    EXPECT_EQ(devices[1].compute_ns, 12 * kMs);
    EXPECT_EQ(devices[1].exposed_ns, 4 * kMs); // 1-2 and 3-4 awaited, two gradients sent
    EXPECT_EQ(devices[1].bubble_ns, 6 * kMs);
}

TEST(Performance, AScheduleThatNeedsTooMuchMemoryIsDescribed)
{
    Model model = Model::Uniform(2, 2);
    Partition partition{{0, 1, 2}, {0, 1}};
    Evaluated run(model, partition, DETOUR_ALGORITHM_GPIPE);

    model.devices[0].capacity_bytes = 900 + 4 * 40;
    model.devices[1].capacity_bytes = 900 + 4 * 40 - 1;
    ASSERT_EQ(detour_model_evaluate(run.arena, model.get(), partition.get(), run.plan->schedule,
                                    &run.performance, nullptr),
              DETOUR_OK);
    EXPECT_TRUE(run.performance->devices[0].fits);
    EXPECT_FALSE(run.performance->devices[1].fits);
    EXPECT_FALSE(run.performance->fits);
}

struct Shape {
    enum detour_placement placement;
    size_t chunks;
    enum detour_algorithm algorithm;
};

class PerformanceOfPlacement : public testing::TestWithParam<Shape>
{
};

// Compute, exposed communication and bubble fill the makespan of every device; the makespan is the
// simulator's.
TEST_P(PerformanceOfPlacement, PartsSumUp)
{
    const Shape &shape = GetParam();
    Model model = Model::Uniform(12, 3).Links({kMs / 2, 2000000, false});
    Partition partition;
    model.microbatches = 9;
    model.devices[1].speed_permille = 700;
    int32_t stage_count = static_cast<int32_t>(3 * shape.chunks);
    partition.device.resize(static_cast<size_t>(stage_count));
    for (int32_t i = 0; i <= stage_count; i++)
        partition.first_layer.push_back(12 * i / stage_count);
    ASSERT_EQ(detour_placement_fill(shape.placement, stage_count, 3, partition.device.data(), nullptr),
              DETOUR_OK);
    Evaluated run(model, partition, shape.algorithm);
    struct detour_report *report = nullptr;
    ASSERT_EQ(detour_simulate(run.arena, run.profile, run.plan->schedule, &report, nullptr), DETOUR_OK);

    EXPECT_EQ(run.performance->makespan_ns, run.plan->makespan_ns);
    for (int32_t d = 0; d < 3; d++) {
        const struct detour_device_performance *device = &run.performance->devices[d];
        EXPECT_EQ(device->compute_ns, report->devices[d].busy_ns);
        EXPECT_EQ(device->compute_ns + device->exposed_ns + device->bubble_ns, report->makespan_ns);
        EXPECT_GT(device->overlapped_ns + device->exposed_ns, 0);
        EXPECT_EQ(device->activation_bytes, report->devices[d].peak_bytes);
    }
    EXPECT_EQ(run.performance->slowest_device, 1);
}

INSTANTIATE_TEST_SUITE_P(All, PerformanceOfPlacement,
                         testing::Values(Shape{DETOUR_PLACEMENT_SEQUENTIAL, 1, DETOUR_ALGORITHM_1F1B},
                                         Shape{DETOUR_PLACEMENT_SEQUENTIAL, 1, DETOUR_ALGORITHM_ZB},
                                         Shape{DETOUR_PLACEMENT_INTERLEAVED, 2, DETOUR_ALGORITHM_INTERLEAVED},
                                         Shape{DETOUR_PLACEMENT_WAVE, 2, DETOUR_ALGORITHM_ADAPTRA},
                                         Shape{DETOUR_PLACEMENT_WAVE, 4, DETOUR_ALGORITHM_ADAPTRA}));
} // namespace
