// SPDX-License-Identifier: Apache-2.0
#include "tests/planner/planner_test.h"

namespace
{
using planner_test::Arena;
using planner_test::Partition;

TEST(Family, NamesAreFoundAgain)
{
    for (int i = 0; i < DETOUR_FAMILY_COUNT; i++) {
        enum detour_family found = DETOUR_FAMILY_COUNT;
        ASSERT_TRUE(detour_family_find(detour_family_name((enum detour_family)i), &found));
        EXPECT_EQ(found, i);
    }
    for (int i = 0; i < DETOUR_MODEL_SIZE_COUNT; i++) {
        enum detour_model_size found = DETOUR_MODEL_SIZE_COUNT;
        ASSERT_TRUE(detour_model_size_find(detour_model_size_name((enum detour_model_size)i), &found));
        EXPECT_EQ(found, i);
    }
    enum detour_family family = DETOUR_FAMILY_GPT;
    enum detour_model_size size = DETOUR_MODEL_LARGE;
    EXPECT_FALSE(detour_family_find("llama", &family));
    EXPECT_FALSE(detour_model_size_find("huge", &size));
    EXPECT_EQ(detour_family_name(DETOUR_FAMILY_COUNT), nullptr);
    EXPECT_EQ(detour_model_size_name(DETOUR_MODEL_SIZE_COUNT), nullptr);
}

TEST(Family, DefaultsAreDocumented)
{
    Arena arena;
    struct detour_family_options options = {};
    struct detour_model *model = nullptr;

    ASSERT_EQ(detour_model_of_family(arena, &options, &model, nullptr), DETOUR_OK);
    EXPECT_STREQ(model->name, "gemma-small s2048 b1 t1 e1 d1 h800");
    EXPECT_EQ(model->layer_count, 34);
    EXPECT_EQ(model->device_count, 4);
    EXPECT_EQ(model->microbatch_count, 16);
    EXPECT_EQ(model->devices[3].capacity_bytes, 80000000000);
    EXPECT_EQ(model->links[1].bytes_per_s, 40000000000);
    EXPECT_EQ(model->links[1].latency_ns, 10000);
    EXPECT_EQ(model->layers[5].message_bytes, 2 * 2048 * 1536);
    EXPECT_EQ(model->layers[0].parameter_bytes, 2LL * 262144 * 1536);
    EXPECT_EQ(model->layers[33].optimizer_bytes, 12LL * 262144 * 1536);
    EXPECT_STREQ(model->layers[33].type, "head");
}

TEST(Family, DataParallelismSharesTheOptimizer)
{
    Arena arena;
    struct detour_family_options options = {};
    struct detour_model *model = nullptr;

    options.data_parallel = 8;
    ASSERT_EQ(detour_model_of_family(arena, &options, &model, nullptr), DETOUR_OK);
    EXPECT_EQ(model->layers[33].optimizer_bytes, 12LL * 262144 * 1536 / 8);
    EXPECT_EQ(model->layers[33].gradient_bytes, 4LL * 262144 * 1536);
}

TEST(Family, RefusesWhatIsOutOfRange)
{
    Arena arena;
    struct detour_model *model = nullptr;
    struct detour_error error = {};
    struct detour_family_options options = {};

    options.tensor_parallel = 65;
    EXPECT_EQ(detour_model_of_family(arena, &options, &model, &error), DETOUR_INVALID);
    EXPECT_STREQ(error.text, "tensor_parallel is 65; it must be from 1 to 64");
    options = {};
    options.gpu = "abacus";
    EXPECT_EQ(detour_model_of_family(arena, &options, &model, &error), DETOUR_INVALID);
    EXPECT_STREQ(error.text, "no GPU 'abacus'; there are h800, h100 and a100");
    options = {};
    options.device_count = 35;
    EXPECT_EQ(detour_model_of_family(arena, &options, &model, &error), DETOUR_INVALID);
    EXPECT_STREQ(error.text, "35 devices for 34 layers; every device needs a layer");
    options = {};
    options.sequence_tokens = 1 << 20;
    options.batch_sequences = 1024;
    EXPECT_EQ(detour_model_of_family(arena, &options, &model, &error), DETOUR_LIMIT);
    EXPECT_EQ(model, nullptr);
}

struct NineModels : testing::TestWithParam<std::tuple<int, int, int>> {
};

// The performance model at the paper's models, 4, 8 and 16 devices: it agrees with the simulator, its parts
// sum up, and memory is what the layers of a device need.
TEST_P(NineModels, PerformanceIsThatOfTheSimulator)
{
    auto [family, size, devices] = GetParam();
    Arena arena;
    struct detour_family_options options = {};
    struct detour_model *model = nullptr;
    struct detour_error error = {};
    options.family = static_cast<enum detour_family>(family);
    options.size = static_cast<enum detour_model_size>(size);
    options.device_count = devices;
    options.microbatch_count = 2 * devices;
    options.expert_parallel = 8;
    options.tensor_parallel = 2;
    ASSERT_EQ(detour_model_of_family(arena, &options, &model, &error), DETOUR_OK) << error.text;

    Partition partition;
    for (int i = 0; i <= devices; i++)
        partition.first_layer.push_back(model->layer_count * i / devices);
    for (int i = 0; i < devices; i++)
        partition.device.push_back(i);
    struct detour_profile *profile = nullptr;
    struct detour_plan *plan = nullptr;
    struct detour_performance *performance = nullptr;
    struct detour_report *report = nullptr;
    struct detour_options generate = {};
    generate.algorithm = DETOUR_ALGORITHM_1F1B;
    ASSERT_EQ(detour_model_profile(arena, model, partition.get(), &profile, &error), DETOUR_OK) << error.text;
    ASSERT_EQ(detour_generate(arena, profile, &generate, &plan, &error), DETOUR_OK) << error.text;
    ASSERT_EQ(detour_simulate(arena, profile, plan->schedule, &report, &error), DETOUR_OK) << error.text;
    ASSERT_EQ(detour_model_evaluate(arena, model, partition.get(), plan->schedule, &performance, &error),
              DETOUR_OK)
        << error.text;

    EXPECT_EQ(performance->makespan_ns, report->makespan_ns);
    for (int d = 0; d < devices; d++) {
        const struct detour_device_performance *device = &performance->devices[d];
        int64_t compute_ns = 0, static_bytes = 0, gradient_bytes = 0, activation_bytes = 0;
        for (int32_t i = partition.first_layer[static_cast<size_t>(d)];
             i < partition.first_layer[static_cast<size_t>(d) + 1]; i++) {
            const struct detour_layer *layer = &model->layers[i];
            compute_ns += (layer->f_ns + layer->b_ns + layer->w_ns) * model->microbatch_count;
            static_bytes += layer->parameter_bytes + layer->optimizer_bytes;
            gradient_bytes += layer->gradient_bytes;
            activation_bytes += layer->activation_bytes;
        }
        EXPECT_EQ(device->compute_ns, compute_ns);
        EXPECT_EQ(device->compute_ns + device->exposed_ns + device->bubble_ns, performance->makespan_ns);
        EXPECT_EQ(device->static_bytes, static_bytes);
        EXPECT_EQ(device->gradient_bytes, gradient_bytes);
        EXPECT_GE(device->activation_bytes, activation_bytes * (devices - d)); // the warm-up of 1F1B
        EXPECT_EQ(device->peak_bytes, static_bytes + gradient_bytes + device->activation_bytes);
        EXPECT_TRUE(device->fits);
    }
}

INSTANTIATE_TEST_SUITE_P(All, NineModels,
                         testing::Combine(testing::Range(0, 3), testing::Range(0, 3),
                                          testing::Values(4, 8, 16)));
} // namespace
