// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "tests/planner/planner_test.h"

namespace
{
using planner_test::Model;
using planner_test::Partition;

struct BadModel {
    const char *text; // the error line contains it
    enum detour_status status;
    std::function<void(Model &)> spoil;
};

TEST(ModelCheck, NamesTheFieldThatIsOutOfRange)
{
    static const int32_t crossed[] = {0, 3, 2, 4}, short_of[] = {0, 1, 3}, one_device[] = {0, 0, 0};
    const BadModel cases[] = {
        {"layers[1].f_ns is -1", DETOUR_INVALID, [](Model &m) { m.layers[1].f_ns = -1; }},
        {"layers[3].message_bytes is 1099511627777", DETOUR_LIMIT,
         [](Model &m) { m.layers[3].message_bytes = DETOUR_BYTES_MAX + 1; }},
        {"layers[0].type", DETOUR_INVALID, [](Model &m) { m.layers[0].type = ""; }},
        {"layers[0].type", DETOUR_INVALID, [](Model &m) { m.layers[0].type = "two\nlines"; }},
        {"devices[1].speed_permille is 0", DETOUR_INVALID, [](Model &m) { m.devices[1].speed_permille = 0; }},
        {"devices[0].capacity_bytes is -5", DETOUR_INVALID,
         [](Model &m) { m.devices[0].capacity_bytes = -5; }},
        {"links[3].bytes_per_s is -1", DETOUR_INVALID,
         [](Model &m) { m.Links({}).links[3].bytes_per_s = -1; }},
        {"replicas.count is -1", DETOUR_INVALID, [](Model &m) { m.replicas.count = -1; }},
        {"replicas.bytes_per_s is 1000000000000001", DETOUR_LIMIT,
         [](Model &m) { m.replicas.bytes_per_s = DETOUR_BANDWIDTH_MAX + 1; }},
        {"links[2].latency_ns", DETOUR_LIMIT,
         [](Model &m) { m.Links({}).links[2].latency_ns = DETOUR_TIME_MAX_NS + 1; }},
        {"microbatch_count is 0", DETOUR_INVALID, [](Model &m) { m.microbatches = 0; }},
        {"2 devices for 1 layers", DETOUR_INVALID, [](Model &m) { m.layers.resize(1); }},
        {"5 stages; 4 layers on 2 devices can have 2 to 4", DETOUR_INVALID,
         [](Model &m) { m.fixed.stage_count = 5; }},
        {"stage 1 begins with layer 3 and the next one with 2", DETOUR_INVALID,
         [](Model &m) {
             m.fixed = {3, crossed, nullptr};
         }},
        {"the stages have the layers 0 to 2", DETOUR_INVALID,
         [](Model &m) {
             m.fixed = {2, short_of, nullptr};
         }},
        {"device 1 has no stage", DETOUR_INVALID,
         [](Model &m) {
             m.fixed = {3, nullptr, one_device};
         }},
    };

    EXPECT_EQ(detour_model_check(Model::Uniform(4, 2).get(), nullptr), DETOUR_OK);
    for (const BadModel &bad : cases) {
        Model model = Model::Uniform(4, 2);
        struct detour_error error = {};
        bad.spoil(model);
        EXPECT_EQ(detour_model_check(model.get(), &error), bad.status) << bad.text;
        EXPECT_NE(strstr(error.text, bad.text), nullptr) << error.text;
    }
}

TEST(PartitionCheck, NeedsEveryLayerOnceAndEveryDevice)
{
    Model model = Model::Uniform(4, 2);
    const struct {
        Partition partition;
        const char *text;
    } cases[] = {
        {{{0, 4}, {0}}, "1 stages; 4 layers on 2 devices can have 2 to 4"},
        {{{0, 2, 2, 4}, {0, 1, 0}},
         "stage 1 begins with layer 2 and the next one with 2; every stage needs a layer"},
        {{{1, 2, 4}, {0, 1}}, "the stages have the layers 1 to 3; the model has 0 to 3"},
        {{{0, 2, 4}, {0, 2}}, "stage 1 is on device 2; devices are 0 to 1"},
        {{{0, 2, 4}, {1, 1}}, "device 0 has no stage"},
    };

    EXPECT_EQ(detour_partition_check(model.get(), Partition{{0, 1, 4}, {1, 0}}.get(), nullptr), DETOUR_OK);
    for (const auto &bad : cases) {
        struct detour_error error = {};
        Partition partition = bad.partition;
        EXPECT_EQ(detour_partition_check(model.get(), partition.get(), &error), DETOUR_INVALID);
        EXPECT_STREQ(error.text, bad.text);
    }
}

TEST(PartitionCheck, KeepsWhatTheModelFixes)
{
    static const int32_t first_layer[] = {0, 1, 4}, device[] = {1, 0};
    Model model = Model::Uniform(4, 2);
    struct detour_error error = {};

    model.fixed = {2, first_layer, device};
    EXPECT_EQ(detour_partition_check(model.get(), Partition{{0, 1, 4}, {1, 0}}.get(), &error), DETOUR_OK);
    EXPECT_EQ(detour_partition_check(model.get(), Partition{{0, 2, 4}, {1, 0}}.get(), &error),
              DETOUR_INVALID);
    EXPECT_STREQ(error.text, "stage 1: the first layer is 2; the model fixes 1");
    EXPECT_EQ(detour_partition_check(model.get(), Partition{{0, 1, 4}, {0, 1}}.get(), &error),
              DETOUR_INVALID);
    EXPECT_STREQ(error.text, "stage 0: the device is 0; the model fixes 1");
    EXPECT_EQ(detour_partition_check(model.get(), Partition{{0, 1, 2, 4}, {1, 0, 1}}.get(), &error),
              DETOUR_INVALID);
    EXPECT_STREQ(error.text, "3 stages; the model fixes 2");
}
} // namespace
