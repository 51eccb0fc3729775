// SPDX-License-Identifier: Apache-2.0
// Estimates against schedules, and moves: whatever is done, a pipeline stays a valid partition.
#include "planner/pipeline.h"

#include "detour/optimize.h"
#include "planner/move.h"
#include "planner/search.h"
#include "tests/planner/space.h"

using namespace planner_test;

TEST(Estimate, NoScheduleIsBelowIt)
{
    struct dt_prng prng;
    ModelLimits limits;
    int met = 0, over = 0;
    limits.layers_max = 5;
    limits.devices_max = 3;
    dt_prng_init(&prng, 6);
    for (int round = 0; round < 25; round++) {
        Model model = RandomModel(&prng, limits);
        Space space(model);
        ForEachPartition(model, [&](Partition &partition) {
            struct detour_profile *profile = nullptr;
            struct detour_plan *plan = nullptr;
            struct detour_options options = {};
            Arena arena;
            options.algorithm = DETOUR_ALGORITHM_ADAPTRA;
            struct dt_estimate estimate =
                dt_pipeline_estimate(space, space.Pipeline(partition.first_layer, partition.device));
            bool fits =
                detour_model_profile(arena, model.get(), partition.get(), &profile, nullptr) == DETOUR_OK;
            if (estimate.over_bytes > 0) {
                EXPECT_FALSE(fits);
                over++;
            }
            if (!fits || detour_generate(arena, profile, &options, &plan, nullptr) != DETOUR_OK)
                return;
            EXPECT_LE(estimate.bound_ns, plan->makespan_ns) << "round " << round;
            met += estimate.bound_ns == plan->makespan_ns;
        });
    }
    EXPECT_GT(met, 100);
    EXPECT_GT(over, 20);
}

TEST(Move, EveryMoveLeavesAPartition)
{
    struct dt_prng prng;
    int applied[DT_MOVE_KINDS] = {};
    dt_prng_init(&prng, 7);
    for (int round = 0; round < 40; round++) {
        Model model = RandomModel(&prng, {});
        Space space(model);
        std::vector<int32_t> first_layer, device;
        for (int32_t d = 0; d < static_cast<int32_t>(model.devices.size()); d++) {
            first_layer.push_back(d);
            device.push_back(d);
        }
        first_layer.push_back(static_cast<int32_t>(model.layers.size()));
        struct dt_pipeline *pipeline = space.Pipeline(first_layer, device);
        unsigned allowed = dt_moves_allowed(space, DETOUR_TUNE_ALL);
        for (int step = 0; step < 500; step++) {
            struct dt_move move = dt_move_draw(space, pipeline, allowed, &prng);
            std::vector<int32_t> before = FirstLayers(pipeline), placed = Devices(pipeline);
            bool done = dt_move_apply(space, pipeline, &move);
            struct detour_partition partition = dt_pipeline_partition(pipeline);
            struct detour_error error = {};
            ASSERT_EQ(detour_partition_check(model.get(), &partition, &error), DETOUR_OK)
                << "kind " << int{move.kind} << ": " << error.text;
            applied[move.kind] += done;
            if (!done) {
                EXPECT_EQ(FirstLayers(pipeline), before);
                EXPECT_EQ(Devices(pipeline), placed);
            }
        }
    }
    for (int kind = 0; kind < DT_MOVE_KINDS; kind++)
        EXPECT_GT(applied[kind], 20) << "kind " << kind;
}

TEST(Move, ListedMovesTakeWorkFromTheBusiestDevice)
{
    Model model = Model::Uniform(8, 2);
    Space space(model);
    struct dt_pipeline *pipeline = space.Pipeline({0, 6, 8}, {0, 1});
    std::vector<struct dt_move> moves(200);
    unsigned cuts = dt_moves_allowed(space, DETOUR_TUNE_PARTITION);
    size_t count = dt_moves_list(space, pipeline, cuts, 0, moves.data(), moves.size());
    struct dt_estimate before = dt_pipeline_estimate(space, pipeline);
    int better = 0;
    ASSERT_EQ(count, 3u) << "the cut by one either way, and a layer for the other stage";
    EXPECT_EQ(before.busiest, 0);
    for (size_t k = 0; k < count; k++) {
        struct dt_pipeline *trial = space.Pipeline({0, 6, 8}, {0, 1});
        ASSERT_TRUE(dt_move_apply(space, trial, &moves[k]));
        struct dt_estimate after = dt_pipeline_estimate(space, trial);
        better += dt_estimate_compare(&after, &before) < 0;
    }
    EXPECT_EQ(better, 2);
}

TEST(Pool, KeepsTheBestDifferentPipelines)
{
    Model model = Model::Uniform(12, 2);
    Space space(model);
    struct dt_optimizer o = {};
    struct dt_pool pool;
    o.arena = space.arena();
    o.space = const_cast<struct dt_space *>(static_cast<const struct dt_space *>(space));
    ASSERT_EQ(dt_pool_init(&o, &pool), DETOUR_OK);
    for (int32_t cut = 1; cut < 12; cut++)
        dt_pool_offer(&pool, space.Pipeline({0, cut, 12}, {0, 1}), 100 - 5 * cut);
    dt_pool_offer(&pool, space.Pipeline({0, 11, 12}, {0, 1}), 1);
    dt_pool_offer(&pool, space.Pipeline({0, 1, 12}, {1, 0}), INT64_MAX);
    ASSERT_EQ(pool.count, DT_POOL_SIZE);
    for (int k = 0; k < DT_POOL_SIZE; k++) {
        EXPECT_EQ(pool.entries[k].pipeline->first_layer[1], 11 - k);
        EXPECT_EQ(pool.entries[k].makespan_ns, 45 + 5 * k);
    }
}
