// SPDX-License-Identifier: Apache-2.0
// Bubbles of S-1F1B with the frozen cost model, beside Figure 1 of AdaPtis: 4 devices, 2 GPUs for each layer,
// 16 microbatches.
#include "tests/planner/planner_test.h"

namespace
{
using planner_test::Arena;
using planner_test::Partition;

/* Equal numbers of layers, the embedding with the first stage and the head with the last. */
Partition Even(const struct detour_model *model)
{
    Partition partition;
    int32_t inner = model->layer_count - 2, devices = model->device_count;

    for (int32_t i = 0; i <= devices; i++)
        partition.first_layer.push_back(i == 0         ? 0
                                        : i == devices ? model->layer_count
                                                       : 1 + inner * i / devices);
    for (int32_t i = 0; i < devices; i++)
        partition.device.push_back(i);
    return partition;
}

/* In percent. */
double Bubbles(enum detour_family family)
{
    Arena arena;
    struct detour_family_options options = {};
    struct detour_options generate = {};
    struct detour_model *model = nullptr;
    struct detour_profile *profile = nullptr;
    struct detour_plan *plan = nullptr;
    struct detour_performance *performance = nullptr;

    options.family = family;
    options.tensor_parallel = 2;
    options.data_parallel = 16; // memory is not the question here
    options.expert_parallel = 4;
    EXPECT_EQ(detour_model_of_family(arena, &options, &model, nullptr), DETOUR_OK);
    Partition partition = Even(model);
    EXPECT_EQ(detour_model_profile(arena, model, partition.get(), &profile, nullptr), DETOUR_OK);
    generate.algorithm = DETOUR_ALGORITHM_1F1B;
    EXPECT_EQ(detour_generate(arena, profile, &generate, &plan, nullptr), DETOUR_OK);
    EXPECT_EQ(detour_model_evaluate(arena, model, partition.get(), plan->schedule, &performance, nullptr),
              DETOUR_OK);
    return performance->bubble_ratio * 100;
}

TEST(BubbleRatio, IsNearThePapersForGemmaAndNemotronH)
{
    const struct {
        enum detour_family family;
        double published;
    } rows[] = {
        {DETOUR_FAMILY_GEMMA, 36.2}, {DETOUR_FAMILY_DEEPSEEK, 44.7}, {DETOUR_FAMILY_NEMOTRON_H, 47.9}};

    for (const auto &row : rows) {
        double ratio = Bubbles(row.family);
        printf("%s: bubbles %.1f %%, in Figure 1 %.1f %%\n", detour_family_name(row.family), ratio,
               row.published);
        if (row.family == DETOUR_FAMILY_DEEPSEEK)
            EXPECT_LT(ratio, row.published); // its experts' loads are not published
        else
            EXPECT_NEAR(ratio, row.published, 4.5);
    }
}
} // namespace
