// SPDX-License-Identifier: Apache-2.0
// The search against every partition, placement and schedule of tiny models, and what must hold for all
// models.
#include "detour/optimize.h"

#include <algorithm>
#include <cstdlib>

#include "tests/planner/fuzz/model_fuzz.h"
#include "tests/planner/random_model.h"

using namespace planner_test;

namespace
{
uint64_t Rounds(uint64_t otherwise)
{
    const char *text = getenv("DETOUR_PLANNER_ROUNDS");
    return text ? strtoull(text, nullptr, 10) : otherwise;
}

/* The best makespan of any pipeline: INT64_MAX if none fits, -1 if one could not be solved. */
int64_t Enumerate(Model &model)
{
    int64_t best_ns = INT64_MAX;
    bool solved = true;
    ForEachPartition(model, [&](Partition &partition) {
        Arena arena;
        struct detour_profile *profile = nullptr;
        struct detour_plan *plan = nullptr;
        struct detour_options options = {};
        options.algorithm = DETOUR_ALGORITHM_EXACT;
        options.node_budget = 20000;
        if (detour_model_profile(arena, model.get(), partition.get(), &profile, nullptr))
            return;
        if (detour_generate(arena, profile, &options, &plan, nullptr))
            return;
        solved = solved && plan->proven_optimal;
        best_ns = std::min(best_ns, plan->makespan_ns);
    });
    return solved ? best_ns : -1;
}

/* What the header promises about a result. */
void CheckResult(Model &model, const struct detour_optimization *result)
{
    const struct detour_pipeline &best = result->best;
    struct detour_error error = {};
    ASSERT_NE(best.plan, nullptr);
    EXPECT_EQ(detour_partition_check(model.get(), &best.partition, &error), DETOUR_OK) << error.text;
    Arena arena;
    EXPECT_EQ(detour_validate(arena, best.profile, best.plan->schedule, &error), DETOUR_OK) << error.text;
    EXPECT_TRUE(best.performance->fits);
    EXPECT_EQ(best.performance->makespan_ns, best.plan->makespan_ns);
    EXPECT_GE(best.plan->makespan_ns, result->bound.makespan_ns);
    EXPECT_GE(best.performance->iteration_ns, result->bound.iteration_ns);
    EXPECT_GE(result->bound.iteration_ns, result->bound.makespan_ns);
    for (const struct detour_pipeline &baseline : result->baselines) {
        EXPECT_TRUE(baseline.plan || baseline.problem[0]);
        if (!baseline.plan)
            continue;
        EXPECT_TRUE(baseline.performance->fits);
        EXPECT_GE(baseline.performance->iteration_ns, best.performance->iteration_ns);
        EXPECT_GE(baseline.plan->makespan_ns, result->bound.makespan_ns);
        EXPECT_GE(baseline.performance->iteration_ns, result->bound.iteration_ns);
    }
}

struct detour_optimization *Optimize(struct detour_arena *arena, Model &model, uint64_t budget, int parts = 0)
{
    struct detour_optimize_options options = {};
    struct detour_optimization *result = nullptr;
    struct detour_error error = {};
    options.budget = budget;
    options.parts = parts;
    EXPECT_EQ(detour_optimize(arena, model.get(), &options, &result, &error), DETOUR_OK) << error.text;
    return result;
}

TEST(Optimize, EnumerationOfTinyModelsAgrees)
{
    struct dt_prng prng;
    ModelLimits limits;
    int agreed = 0, optimal = 0;
    limits.layers_max = 4;
    limits.devices_max = 2;
    limits.microbatches_max = 3;
    dt_prng_init(&prng, 1);
    for (uint64_t round = 0; round < Rounds(80); round++) {
        Arena arena;
        Model model = RandomModel(&prng, limits);
        struct detour_optimization *result = nullptr;
        int64_t best_ns = Enumerate(model);
        SCOPED_TRACE("round " + std::to_string(round));
        if (best_ns < 0)
            continue;
        agreed++;
        struct detour_optimize_options options = {};
        options.budget = 200000;
        enum detour_status status = detour_optimize(arena, model.get(), &options, &result, nullptr);
        if (best_ns == INT64_MAX) {
            EXPECT_EQ(status, DETOUR_MEMORY_TOO_SMALL);
            continue;
        }
        ASSERT_EQ(status, DETOUR_OK);
        CheckResult(model, result);
        EXPECT_GE(best_ns, result->bound.makespan_ns) << "the bound is above the optimum";
        EXPECT_EQ(result->best.plan->makespan_ns, best_ns);
        optimal += result->bound.makespan_ns == best_ns;
    }
    EXPECT_GE(agreed, 50);
    EXPECT_GE(optimal, 15) << "models whose bound is met";
}

/* The first layer has most of the gradients: the device that exchanges them gets fewer layers. */
TEST(Optimize, ReplicasMoveLayersAwayFromGradients)
{
    Arena arena;
    Model model = Model::Uniform(6, 2);
    model.layers[0].gradient_bytes = 96000;
    const struct detour_optimization *alone = Optimize(arena, model, 400000);
    EXPECT_EQ(alone->best.performance->iteration_ns, alone->best.plan->makespan_ns);
    EXPECT_EQ(alone->bound.iteration_ns, alone->bound.makespan_ns);
    model.replicas = {2, 0, 1000000}; /* 48 ms for that layer */
    const struct detour_optimization *result = Optimize(arena, model, 400000);
    CheckResult(model, result);
    struct detour_performance *kept = nullptr;
    ASSERT_EQ(detour_model_evaluate(arena, model.get(), &alone->best.partition, alone->best.plan->schedule,
                                    &kept, nullptr),
              DETOUR_OK);
    EXPECT_LT(result->best.performance->iteration_ns, kept->iteration_ns - 10 * kMs);
    EXPECT_LT(result->best.performance->iteration_ns, result->bound.iteration_ns * 5 / 4);
}

/* A heavy last layer and three devices: the other layers pack beside it, or do not. */
TEST(Optimize, EnumerationIsNotBelowTheBoundOfPacking)
{
    struct dt_prng prng;
    ModelLimits limits;
    int packed = 0;
    limits.layers_max = 5;
    limits.devices_max = 3;
    limits.microbatches_max = 3;
    limits.memory = false;
    dt_prng_init(&prng, 6);
    for (uint64_t round = 0; round < Rounds(60); round++) {
        Arena arena;
        Model model = RandomModel(&prng, limits);
        struct detour_model_bound bound = {};
        struct detour_layer &last = model.layers.back();
        last.w_ns += 5 * last.f_ns;
        last.bw_ns = 0;
        ASSERT_EQ(detour_model_lower_bound(arena, model.get(), &bound, nullptr), DETOUR_OK);
        if (bound.packing_ns <= std::max({bound.chain_ns, bound.layer_ns, bound.work_ns}))
            continue;
        int64_t best_ns = Enumerate(model);
        packed += best_ns >= 0;
        EXPECT_TRUE(best_ns < 0 || best_ns >= bound.packing_ns) << "round " << round;
    }
    EXPECT_GE(packed, 5) << "models whose bound is that of packing";
}

TEST(Optimize, NeverWorseThanABaselineAndWithinMemory)
{
    struct dt_prng prng;
    int made = 0;
    dt_prng_init(&prng, 2);
    for (uint64_t round = 0; round < Rounds(200); round++) {
        Arena arena;
        Model model = RandomModel(&prng, {});
        struct detour_optimize_options options = {};
        struct detour_optimization *result = nullptr;
        struct detour_error error = {};
        options.budget = 20000;
        if (round % 3 == 0)
            model.replicas = {2 + (int32_t)round % 5, (int64_t)round % 7, 1000000000000};
        SCOPED_TRACE("round " + std::to_string(round));
        enum detour_status status = detour_optimize(arena, model.get(), &options, &result, &error);
        if (status == DETOUR_OK) {
            CheckResult(model, result);
            made++;
        } else {
            EXPECT_EQ(status, DETOUR_MEMORY_TOO_SMALL) << error.text;
        }
    }
    EXPECT_GE(made, 150);
}

/* The largest times, sizes and speeds among small ones; tests/sched/fuzz/run.sh has the guided search. */
TEST(Optimize, ExtremesKeepThePromises)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 3);
    for (uint64_t round = 0; round < Rounds(60); round++) {
        std::string bytes;
        for (int i = 0; i < 200; i++)
            bytes.push_back(
                static_cast<char>(dt_prng_chance(&prng, 1, 12) ? 255 : dt_prng_below(&prng, 256)));
        const char *problem = dt_fuzz_optimize(bytes.data(), bytes.size());
        EXPECT_EQ(problem, nullptr) << problem << ", round " << round;
    }
}

TEST(Optimize, AHeavyLayerGetsADeviceOfItsOwn)
{
    Arena arena;
    Model model = Model::Uniform(9, 4);
    model.microbatches = 16;
    model.layers[8].f_ns = model.layers[8].b_ns = model.layers[8].w_ns = 8 * kMs;
    const struct detour_optimization *result = Optimize(arena, model, 400000);
    const struct detour_partition &partition = result->best.partition;
    EXPECT_EQ(result->best.plan->makespan_ns, result->bound.makespan_ns);
    EXPECT_EQ(partition.first_layer[partition.stage_count - 1], 8);
}

/* 40 ms on one link: the answer is another order of the devices, or another cut. */
TEST(Optimize, ASlowLinkChangesTheResult)
{
    Arena arena;
    Model model = Model::Uniform(12, 3);
    model.microbatches = 6;
    model.Links({0, 0, false});
    int64_t fast_ns = Optimize(arena, model, 400000)->best.plan->makespan_ns;
    for (auto [from, to] : {std::pair(0, 1), std::pair(1, 0)})
        model.links[static_cast<size_t>(from) * 3 + static_cast<size_t>(to)].latency_ns = 40 * kMs;
    struct detour_optimization *slow = Optimize(arena, model, 400000);
    int64_t uniform_ns = slow->baselines[DETOUR_BASELINE_S_1F1B].plan->makespan_ns;
    EXPECT_LT(slow->best.plan->makespan_ns, fast_ns + 10 * kMs);
    EXPECT_GT(uniform_ns, fast_ns + 40 * kMs);
}

/*
 * The output layer is heavy, so that the fast pipeline passes the link often. With the link 40 ms slower, the
 * partition and placement of the fast one, with the best schedule for them, are not the answer.
 */
TEST(Optimize, ASlowLinkNeedsAnotherPartition)
{
    Arena arena;
    Model model = Model::Uniform(17, 4);
    model.microbatches = 16;
    model.layers[16].f_ns = 4 * kMs;
    model.layers[16].b_ns = model.layers[16].w_ns = 8 * kMs;
    model.Links({0, 0, false});
    const struct detour_pipeline fast = Optimize(arena, model, 400000)->best;
    int32_t from = fast.partition.device[0], to = fast.partition.device[1];
    for (auto [a, b] : {std::pair(from, to), std::pair(to, from)})
        model.links[static_cast<size_t>(a) * 4 + static_cast<size_t>(b)].latency_ns = 40 * kMs;
    const struct detour_pipeline slow = Optimize(arena, model, 400000)->best;
    model.fixed = fast.partition;
    const struct detour_pipeline kept = Optimize(arena, model, 400000)->best;
    EXPECT_GT(kept.plan->makespan_ns, fast.plan->makespan_ns + 40 * kMs) << "the link is not in use";
    EXPECT_LT(slow.plan->makespan_ns, kept.plan->makespan_ns - 20 * kMs);
    EXPECT_LT(slow.plan->makespan_ns, fast.plan->makespan_ns + 20 * kMs);
}

TEST(Optimize, ASlowDeviceGetsLess)
{
    Arena arena;
    Model model = Model::Uniform(16, 4);
    model.microbatches = 16;
    model.devices[2].speed_permille = 500;
    const struct detour_optimization *result = Optimize(arena, model, 400000);
    int32_t layers[4] = {};
    for (int32_t i = 0; i < result->best.partition.stage_count; i++)
        layers[result->best.partition.device[i]] +=
            result->best.partition.first_layer[i + 1] - result->best.partition.first_layer[i];
    EXPECT_LE(layers[2], 2);
}

TEST(Optimize, OnlyTheGivenPartsChange)
{
    Arena arena;
    Model model = Model::Uniform(12, 3);
    model.layers[0].f_ns = 5 * kMs;
    model.microbatches = 6;
    const std::vector<int32_t> uniform = {0, 4, 8, 12};
    struct detour_optimization *schedule = Optimize(arena, model, 50000, DETOUR_TUNE_SCHEDULE);
    EXPECT_TRUE(std::equal(uniform.begin(), uniform.end(), schedule->best.partition.first_layer));
    struct detour_optimization *partition = Optimize(arena, model, 50000, DETOUR_TUNE_PARTITION);
    EXPECT_EQ(partition->best.plan->algorithm, DETOUR_ALGORITHM_1F1B);
    EXPECT_EQ(partition->best.partition.stage_count, 3);
    struct detour_optimization *all = Optimize(arena, model, 50000);
    EXPECT_LE(all->best.plan->makespan_ns, schedule->best.plan->makespan_ns);
    EXPECT_LE(all->best.plan->makespan_ns, partition->best.plan->makespan_ns);
}

TEST(Optimize, WhatTheModelFixesStays)
{
    const int32_t first_layer[] = {0, 1, 5, 6, 12}, device[] = {0, 1, 2, 0};
    Arena arena;
    Model model = Model::Uniform(12, 3);
    model.fixed = {4, first_layer, nullptr};
    const struct detour_partition *made = &Optimize(arena, model, 50000)->best.partition;
    EXPECT_TRUE(std::equal(first_layer, first_layer + 5, made->first_layer));
    model.fixed = {4, nullptr, device};
    made = &Optimize(arena, model, 50000)->best.partition;
    EXPECT_TRUE(std::equal(device, device + 4, made->device));
    model.fixed = {5, nullptr, nullptr};
    EXPECT_EQ(Optimize(arena, model, 50000)->best.partition.stage_count, 5);
}

TEST(Optimize, WhatCannotFitIsRefusedWithItsDevice)
{
    Arena arena;
    struct detour_optimization *result = nullptr;
    struct detour_error error = {};
    Model model = Model::Uniform(4, 2);
    for (struct detour_model_device &device : model.devices)
        device.capacity_bytes = 1000;
    EXPECT_EQ(detour_optimize(arena, model.get(), nullptr, &result, &error), DETOUR_MEMORY_TOO_SMALL);
    EXPECT_STREQ(error.text, "one microbatch needs 1760 bytes more than all 2 devices have");
    model = Model::Uniform(3, 2);
    model.devices[0].capacity_bytes = model.devices[1].capacity_bytes = 1500;
    EXPECT_EQ(detour_optimize(arena, model.get(), nullptr, &result, &error), DETOUR_MEMORY_TOO_SMALL);
    EXPECT_STREQ(error.text,
                 "no partition was found that fits; in the closest, device 0 needs 380 bytes more "
                 "than its 1500");
    struct detour_optimize_options options = {};
    options.parts = 9;
    EXPECT_EQ(detour_optimize(arena, model.get(), &options, &result, &error), DETOUR_INVALID);
}

TEST(Optimize, ProgressIsReportedAndCanStop)
{
    Arena arena;
    Model model = Model::Uniform(11, 3);
    struct detour_optimization *result = nullptr;
    struct detour_optimize_options options = {};
    int calls = 0;
    model.layers[3].f_ns = 7 * kMs;
    model.microbatches = 8;
    options.progress_arg = &calls;
    options.progress = [](void *arg, const struct detour_optimize_progress *progress) {
        EXPECT_STRNE(progress->phase, "");
        EXPECT_GE(progress->best_ns, progress->lower_bound_ns);
        return ++*static_cast<int *>(arg) == 5;
    };
    ASSERT_EQ(detour_optimize(arena, model.get(), &options, &result, nullptr), DETOUR_OK);
    EXPECT_EQ(calls, 5);
    CheckResult(model, result);
}

TEST(Optimize, TheSameModelGivesTheSameResult)
{
    Arena arena;
    Model model = Model::Uniform(13, 4);
    model.layers[12].w_ns = 11 * kMs;
    model.microbatches = 9;
    struct detour_optimization *a = Optimize(arena, model, 200000), *b = Optimize(arena, model, 200000);
    EXPECT_EQ(a->best.plan->makespan_ns, b->best.plan->makespan_ns);
    EXPECT_EQ(a->estimated, b->estimated);
    EXPECT_EQ(a->effort, b->effort);
}
} // namespace
