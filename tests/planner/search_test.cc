// SPDX-License-Identifier: Apache-2.0
// Baselines, quick and full schedules, and the two searches, each on its own.
#include "planner/search.h"

#include "planner/baseline.h"
#include "planner/bound.h"
#include "planner/evaluate.h"
#include "tests/planner/space.h"

using namespace planner_test;

namespace
{
/* An optimizer as detour_optimize() makes it, before its first step. */
struct Optimizer {
    Model model;
    Arena arena;
    struct detour_optimize_options options = {};
    struct detour_optimization result = {};
    struct detour_error error = {};
    struct dt_optimizer o = {};

    explicit Optimizer(Model from, int parts = DETOUR_TUNE_ALL) : model(std::move(from))
    {
        o.arena = arena;
        o.model = model.get();
        o.options = &options;
        o.error = &error;
        o.result = &result;
        o.parts = parts;
        o.budget = 300000;
        o.best_ns = INT64_MAX;
        EXPECT_EQ(dt_space_create(arena, o.model, &o.space, &error), DETOUR_OK);
        EXPECT_EQ(dt_model_bound(arena, o.space, &result.bound, &error), DETOUR_OK);
    }

    struct dt_pipeline *Pipeline(const std::vector<int32_t> &first_layer, const std::vector<int32_t> &device)
    {
        struct dt_pipeline *pipeline = dt_pipeline_create(arena, o.space);
        pipeline->stage_count = static_cast<int32_t>(device.size());
        std::copy(first_layer.begin(), first_layer.end(), pipeline->first_layer);
        std::copy(device.begin(), device.end(), pipeline->device);
        return pipeline;
    }
};

/* Twelve layers on three devices, the last one three times as heavy as the others. */
Model Uneven()
{
    Model model = Model::Uniform(12, 3);
    model.microbatches = 6;
    for (int64_t *time_ns : {&model.layers[11].f_ns, &model.layers[11].b_ns, &model.layers[11].w_ns})
        *time_ns *= 3;
    return model;
}
} // namespace

TEST(Baseline, RowsAreWhatTheirNamesSay)
{
    Optimizer t(Uneven());
    ASSERT_EQ(dt_baselines_make(&t.o), DETOUR_OK);
    const struct detour_pipeline *rows = t.result.baselines;
    const enum detour_algorithm algorithms[] = {DETOUR_ALGORITHM_1F1B,   DETOUR_ALGORITHM_INTERLEAVED,
                                                DETOUR_ALGORITHM_ZB,     DETOUR_ALGORITHM_ZB_V,
                                                DETOUR_ALGORITHM_HANAYO, DETOUR_ALGORITHM_1F1B};
    for (int b = 0; b < DETOUR_BASELINE_COUNT; b++) {
        ASSERT_NE(rows[b].plan, nullptr) << rows[b].problem;
        EXPECT_EQ(rows[b].plan->algorithm, algorithms[b]);
        EXPECT_NE(detour_baseline_name(static_cast<enum detour_baseline>(b)), nullptr);
    }
    EXPECT_EQ(detour_baseline_name(DETOUR_BASELINE_COUNT), nullptr);
    EXPECT_EQ(rows[DETOUR_BASELINE_ZB_V].partition.stage_count, 6);
    EXPECT_GE(rows[DETOUR_BASELINE_MIST].partition.first_layer[2], 9) << "14 units in parts of at most 5";
    EXPECT_LT(rows[DETOUR_BASELINE_MIST].plan->makespan_ns, rows[DETOUR_BASELINE_S_1F1B].plan->makespan_ns);
}

TEST(Evaluate, AFullPlanIsNeverWorseThanTheQuickOne)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 8);
    for (int round = 0; round < 40; round++) {
        Optimizer t(RandomModel(&prng, {}));
        std::vector<int32_t> first_layer, device;
        for (int32_t d = 0; d < t.o.model->device_count; d++) {
            first_layer.push_back(d);
            device.push_back(d);
        }
        first_layer.push_back(t.o.model->layer_count);
        struct dt_pipeline *pipeline = t.Pipeline(first_layer, device);
        enum detour_status status = DETOUR_OK;
        int64_t quick_ns = dt_quick_iteration(&t.o, pipeline, &status);
        struct detour_pipeline full = {};
        ASSERT_EQ(status, DETOUR_OK);
        ASSERT_EQ(dt_best_plan(&t.o, pipeline, true, &full), DETOUR_OK);
        EXPECT_EQ(full.plan != nullptr, quick_ns != INT64_MAX) << full.problem;
        if (full.plan) {
            EXPECT_LE(full.plan->makespan_ns, quick_ns);
        }
        EXPECT_EQ(t.result.scheduled, 2u);
    }
}

TEST(Evaluate, TheFixedOrderGoesWithThePlacement)
{
    Optimizer t(Uneven(), DETOUR_TUNE_PLACEMENT);
    struct detour_pipeline made = {};
    ASSERT_EQ(dt_best_plan(&t.o, t.Pipeline({0, 2, 4, 6, 8, 10, 12}, {0, 1, 2, 0, 1, 2}), true, &made),
              DETOUR_OK);
    EXPECT_EQ(made.plan->algorithm, DETOUR_ALGORITHM_INTERLEAVED);
    ASSERT_EQ(dt_best_plan(&t.o, t.Pipeline({0, 2, 4, 6, 8, 10, 12}, {0, 1, 2, 2, 1, 0}), true, &made),
              DETOUR_OK);
    EXPECT_EQ(made.plan->algorithm, DETOUR_ALGORITHM_HANAYO);
    ASSERT_EQ(dt_best_plan(&t.o, t.Pipeline({0, 4, 8, 12}, {2, 1, 0}), true, &made), DETOUR_OK);
    EXPECT_EQ(made.plan->algorithm, DETOUR_ALGORITHM_1F1B);
}

TEST(Tune, MovesLayersUntilNothingPays)
{
    Optimizer t(Uneven());
    struct dt_pipeline *pipeline = t.Pipeline({0, 4, 8, 12}, {0, 1, 2});
    enum detour_status status = DETOUR_OK;
    int64_t before_ns = dt_quick_iteration(&t.o, pipeline, &status), after_ns = 0;
    ASSERT_EQ(dt_tune(&t.o, pipeline, &after_ns), DETOUR_OK);
    EXPECT_LT(after_ns, before_ns);
    EXPECT_EQ(after_ns, dt_quick_iteration(&t.o, pipeline, &status));
}

TEST(Tune, LeavesWhatMayNotChange)
{
    Optimizer t(Uneven(), DETOUR_TUNE_SCHEDULE);
    struct dt_pipeline *pipeline = t.Pipeline({0, 4, 8, 12}, {0, 1, 2});
    int64_t makespan_ns = 0;
    ASSERT_EQ(dt_tune(&t.o, pipeline, &makespan_ns), DETOUR_OK);
    EXPECT_EQ(FirstLayers(pipeline), (std::vector<int32_t>{0, 4, 8, 12}));
    EXPECT_EQ(t.result.scheduled, 1u);
}

TEST(Explore, FillsThePoolWithinItsBudget)
{
    Optimizer t(Uneven());
    struct dt_pool pool;
    ASSERT_EQ(dt_pool_init(&t.o, &pool), DETOUR_OK);
    ASSERT_EQ(dt_explore(&t.o, &pool), DETOUR_OK);
    ASSERT_GT(pool.count, 0);
    EXPECT_EQ(pool.entries[0].makespan_ns, t.o.best_ns);
    EXPECT_LE(pool.entries[0].makespan_ns, t.result.bound.makespan_ns * 11 / 10);
    EXPECT_LT(t.o.effort, t.o.budget + 200000) << "a round of estimates is finished";
}

TEST(Explore, StopsWhenTheBoundIsMet)
{
    Optimizer t(Uneven());
    struct dt_pool pool;
    t.o.best_ns = t.result.bound.makespan_ns;
    ASSERT_EQ(dt_pool_init(&t.o, &pool), DETOUR_OK);
    ASSERT_EQ(dt_explore(&t.o, &pool), DETOUR_OK);
    EXPECT_EQ(t.result.scheduled, 0u);
}
