// SPDX-License-Identifier: Apache-2.0
#include "planner/balance.h"

#include "planner/model.h"
#include "tests/planner/space.h"

using namespace planner_test;

namespace
{
/* The dynamic program of Mist: the least largest stage for the first l layers in i stages; -1 if none fits.
 */
int64_t DynamicProgram(Model &model, const std::vector<int32_t> &device)
{
    const size_t layers = model.layers.size(), stages = device.size();
    std::vector<std::vector<int64_t>> best(stages + 1, std::vector<int64_t>(layers + 1, -1));
    best[0][0] = 0;
    for (size_t i = 0; i < stages; i++) {
        int64_t inflight = std::min<int64_t>(static_cast<int64_t>(stages - i), model.microbatches);
        const struct detour_model_device &on = model.devices[static_cast<size_t>(device[i])];
        for (size_t from = 0; from < layers; from++) {
            for (size_t to = from + 1; best[i][from] >= 0 && to <= layers; to++) {
                struct dt_layer_sum sum =
                    dt_sum_layers(model.get(), static_cast<int32_t>(from), static_cast<int32_t>(to));
                int64_t bytes = sum.parameter_bytes + sum.gradient_bytes + sum.optimizer_bytes +
                                inflight * sum.activation_bytes;
                if (on.capacity_bytes && bytes > on.capacity_bytes)
                    continue;
                int64_t work_ns = 0;
                for (size_t l = from; l < to; l++) {
                    const struct detour_layer &layer = model.layers[l];
                    int64_t apart_ns = layer.b_ns + layer.w_ns;
                    work_ns += layer.f_ns + (layer.bw_ns ? std::min(layer.bw_ns, apart_ns) : apart_ns);
                }
                int64_t largest_ns = std::max(best[i][from], dt_device_time_ns(&on, work_ns));
                if (best[i + 1][to] < 0 || largest_ns < best[i + 1][to])
                    best[i + 1][to] = largest_ns;
            }
        }
    }
    return best[stages][layers];
}

int64_t LargestStage(const struct dt_space *space, const struct dt_pipeline *pipeline)
{
    int64_t largest_ns = 0;
    for (int32_t i = 0; i < pipeline->stage_count; i++)
        largest_ns = std::max(largest_ns, dt_device_time_ns(&space->model->devices[pipeline->device[i]],
                                                            space->work_ns[pipeline->first_layer[i + 1]] -
                                                                space->work_ns[pipeline->first_layer[i]]));
    return largest_ns;
}
} // namespace

TEST(Balance, TheLargestStageIsThatOfTheDynamicProgram)
{
    struct dt_prng prng;
    int infeasible = 0;
    dt_prng_init(&prng, 3);
    for (int round = 0; round < 300; round++) {
        Model model = RandomModel(&prng, {});
        Space space(model);
        std::vector<int32_t> device;
        for (size_t d = 0; d < model.devices.size(); d++)
            device.push_back(static_cast<int32_t>(d));
        struct dt_pipeline *pipeline = space.Pipeline({}, device);
        int64_t best_ns = DynamicProgram(model, device);
        SCOPED_TRACE("round " + std::to_string(round));
        bool found = false;
        ASSERT_EQ(dt_partition_balanced(space.arena(), space, INT32_MAX, pipeline, &found, nullptr),
                  DETOUR_OK);
        ASSERT_EQ(found, best_ns >= 0);
        infeasible += best_ns < 0;
        if (best_ns >= 0) {
            EXPECT_EQ(LargestStage(space, pipeline), best_ns);
        }
    }
    EXPECT_GT(infeasible, 10);
}

TEST(Balance, UniformGivesInputAndOutputLayersToTheirStageInAddition)
{
    Model model = Model::Uniform(12, 4);
    model.layers.front().type = "embedding";
    model.layers.back().type = "head";
    Space space(model);
    struct dt_pipeline *pipeline = space.Pipeline({}, {0, 1, 2, 3});
    ASSERT_TRUE(dt_partition_uniform(space, pipeline));
    EXPECT_EQ(FirstLayers(pipeline), (std::vector<int32_t>{0, 4, 7, 9, 12}));
    pipeline = space.Pipeline({}, std::vector<int32_t>(11, 0));
    ASSERT_TRUE(dt_partition_uniform(space, pipeline)) << "11 stages: one of them is counted as a layer";
    EXPECT_EQ(FirstLayers(pipeline).back(), 12);
}
