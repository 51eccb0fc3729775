// SPDX-License-Identifier: Apache-2.0
#include "tests/planner/planner_test.h"

namespace
{
using planner_test::Arena;
using planner_test::kMs;

enum detour_status Read(struct detour_arena *arena, const std::string &layers, struct detour_model **model,
                        struct detour_error *error)
{
    struct detour_measured_options options = {2, 8, 80000, 1000000, 10000};
    std::string text = R"({"version": 1, "name": "measured", "layers": )" + layers + "}";
    return detour_model_from_measured(arena, &options, "m.json", text.data(), text.size(), model, error);
}

TEST(Measured, MediansOfSamples)
{
    Arena arena;
    struct detour_model *model = nullptr;
    struct detour_error error = {};

    ASSERT_EQ(Read(arena, R"([{"type": "a", "f_ms": [9, 1, 2], "b_ms": [4, 2, 8, 3], "w_ms": 5, "count": 2},
                              {"type": "b", "f_ms": [7], "b_ms": 1, "w_ms": 1}])",
                   &model, &error),
              DETOUR_OK)
        << error.text;
    EXPECT_EQ(model->layer_count, 3);
    EXPECT_EQ(model->layers[1].f_ns, 2 * kMs);
    EXPECT_EQ(model->layers[0].b_ns, 3500000);
    EXPECT_EQ(model->layers[0].w_ns, 5 * kMs);
    EXPECT_EQ(model->layers[2].f_ns, 7 * kMs);
}

TEST(Measured, DevicesLinksAndMicrobatchesComeFromTheOptions)
{
    Arena arena;
    struct detour_model *model = nullptr;
    struct detour_error error = {};

    ASSERT_EQ(Read(arena, R"([{"type": "a", "count": 2, "f_ms": 1, "b_ms": 1, "w_ms": 1}])", &model, &error),
              DETOUR_OK)
        << error.text;
    EXPECT_EQ(model->device_count, 2);
    EXPECT_EQ(model->microbatch_count, 8);
    EXPECT_EQ(model->devices[1].capacity_bytes, 80000);
    EXPECT_EQ(model->links[1].bytes_per_s, 1000000);
    EXPECT_EQ(model->links[1].latency_ns, 10000);
}

TEST(Measured, TheFileOverridesTheOptions)
{
    Arena arena;
    struct detour_measured_options options = {2, 8, 80000, 1000000, 10000};
    struct detour_model *model = nullptr;
    std::string text = R"({"version": 1, "name": "m", "microbatches": 3, "devices": [{}], "links": {},
                           "layers": [{"type": "a", "f_ms": 1, "b_ms": 1, "w_ms": 1}]})";

    ASSERT_EQ(detour_model_from_measured(arena, &options, "m", text.data(), text.size(), &model, nullptr),
              DETOUR_OK);
    EXPECT_EQ(model->microbatch_count, 3);
    EXPECT_EQ(model->device_count, 1);
    EXPECT_EQ(model->devices[0].capacity_bytes, 0);
}

TEST(Measured, BackwardIsSplitWhereOnlyBothWereMeasured)
{
    Arena arena;
    struct detour_model *model = nullptr;
    struct detour_error error = {};

    ASSERT_EQ(
        Read(arena,
             R"([{"type": "a", "f_ms": [2, 2], "bw_ms": [5, 5]}, {"type": "b", "f_ms": 4, "bw_ms": 6}])",
             &model, &error),
        DETOUR_OK)
        << error.text;
    EXPECT_EQ(model->layers[0].b_ns, 3 * kMs);
    EXPECT_EQ(model->layers[0].w_ns, 2 * kMs);
    EXPECT_EQ(model->layers[0].bw_ns, 5 * kMs);
    EXPECT_EQ(model->layers[1].b_ns, 3 * kMs);
    EXPECT_EQ(model->layers[1].w_ns, 3 * kMs);
}

TEST(Measured, ParametersStandForThreeSizes)
{
    Arena arena;
    struct detour_model *model = nullptr;
    struct detour_error error = {};

    ASSERT_EQ(Read(arena, R"([{"type": "a", "f_ms": 2, "b_ms": 1, "w_ms": 1, "parameters": 1000, "count": 2,
                               "optimizer_bytes": 7}])",
                   &model, &error),
              DETOUR_OK)
        << error.text;
    EXPECT_EQ(model->layers[0].parameter_bytes, 2000);
    EXPECT_EQ(model->layers[0].gradient_bytes, 4000);
    EXPECT_EQ(model->layers[0].optimizer_bytes, 7);
}

TEST(Measured, RefusesInOneLineWithThePlace)
{
    const struct {
        const char *layers, *error;
    } cases[] = {
        {R"([{"type": "a", "f_ms": [], "b_ms": 1, "w_ms": 1}])",
         "m.json: layers[0].f_ms is empty; there must be at least one sample"},
        {R"([{"type": "a", "f_ms": [1, "x"], "b_ms": 1, "w_ms": 1}])",
         "m.json: layers[0].f_ms[1] is \"x\"; it must be a number of milliseconds from 0 to 100000"},
        {R"([{"type": "a", "f_ms": 1}])", "m.json: layers[0].b_ms is missing"},
        {R"([{"type": "a", "f_ms": 1, "bw_ms": -1}])",
         "m.json: layers[0].bw_ms is -1; it must be a number of milliseconds from 0 to 100000"},
        {R"([{"type": "a", "f_ms": 1, "bw_ms": 1, "parameters": 1.5}])",
         "m.json: layers[0].parameters is 1.5; it must be a number of parameters, a whole number from 0 to "
         "91625968981"},
        {R"([3])", "m.json: layers[0] is 3; it must be an object"},
        {R"({})", "m.json: layers is an object; it must be an array"},
    };

    for (const auto &bad : cases) {
        Arena arena;
        struct detour_model *model = nullptr;
        struct detour_error error = {};
        EXPECT_NE(Read(arena, bad.layers, &model, &error), DETOUR_OK);
        EXPECT_STREQ(error.text, bad.error);
        EXPECT_EQ(model, nullptr);
    }
}
} // namespace
