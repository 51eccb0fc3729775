// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <sstream>

#include "planner/format/layout.h"
#include "tests/planner/fuzz/model_fuzz.h"
#include "tests/planner/planner_test.h"
#include "tests/sched/format/mutation.h"

namespace
{
using planner_test::Arena;
using planner_test::kMs;
using planner_test::Model;

std::string Golden()
{
    std::ifstream file(DETOUR_SOURCE_DIR "/tests/planner/golden/mixed.model.json", std::ios::binary);
    std::stringstream text;
    EXPECT_TRUE(file.good());
    text << file.rdbuf();
    return text.str();
}

std::string Replace(std::string text, const std::string &from, const std::string &to)
{
    size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

struct detour_model *Read(struct detour_arena *arena, const std::string &text)
{
    struct detour_model *model = nullptr;
    struct detour_error error = {};
    EXPECT_EQ(detour_model_from_json(arena, "m.json", text.data(), text.size(), &model, &error), DETOUR_OK)
        << error.text;
    return model;
}

TEST(ModelJson, EveryFieldArrivesInItsPlaceAndUnit)
{
    Arena arena;
    const struct detour_model *model = Read(arena, Golden());

    ASSERT_TRUE(model);
    EXPECT_STREQ(model->name, "mixed");
    EXPECT_EQ(model->microbatch_count, 6);
    ASSERT_EQ(model->layer_count, 7);
    EXPECT_STREQ(model->layers[3].type, "attention");
    EXPECT_STREQ(model->layers[4].type, "mamba");
    EXPECT_EQ(model->layers[1].f_ns, 2 * kMs);
    EXPECT_EQ(model->layers[1].b_ns, 2500000);
    EXPECT_EQ(model->layers[1].w_ns, 1500000);
    EXPECT_EQ(model->layers[1].bw_ns, 3750000);
    EXPECT_EQ(model->layers[4].w_ns, 1000);
    EXPECT_EQ(model->layers[4].bw_ns, 0);
    EXPECT_EQ(model->layers[0].parameter_bytes, 4000);
    EXPECT_EQ(model->layers[0].gradient_bytes, 8000);
    EXPECT_EQ(model->layers[0].optimizer_bytes, 24000);
    EXPECT_EQ(model->layers[0].message_bytes, 2048);
    EXPECT_EQ(model->layers[2].activation_bytes, 700);
    EXPECT_EQ(model->layers[2].activation_w_bytes, 300);
    EXPECT_EQ(model->layers[5].activation_w_bytes, 500); // by default B releases nothing
    EXPECT_EQ(model->layers[6].activation_w_bytes, 0);
    ASSERT_EQ(model->device_count, 3);
    EXPECT_EQ(model->devices[1].capacity_bytes, 60000);
    EXPECT_EQ(model->devices[1].speed_permille, 1000);
    EXPECT_EQ(model->devices[2].capacity_bytes, 0);
    EXPECT_EQ(model->devices[2].speed_permille, 500);
    EXPECT_EQ(model->links[0 * 3 + 2].latency_ns, 10000);
    EXPECT_EQ(model->links[0 * 3 + 2].bytes_per_s, 50000000);
    EXPECT_EQ(model->links[1 * 3 + 2].latency_ns, 40 * kMs);
    EXPECT_FALSE(model->links[1 * 3 + 2].blocks_sender);
    EXPECT_EQ(model->links[2 * 3 + 1].bytes_per_s, 0);
    EXPECT_TRUE(model->links[2 * 3 + 1].blocks_sender);
    EXPECT_EQ(model->replicas.count, 4);
    EXPECT_EQ(model->replicas.latency_ns, kMs / 2);
    EXPECT_EQ(model->replicas.bytes_per_s, 25000000);
    EXPECT_EQ(model->fixed.stage_count, 4);
    EXPECT_EQ(model->fixed.first_layer[2], 4);
    EXPECT_EQ(model->fixed.first_layer[4], 7);
    EXPECT_EQ(model->fixed.device[3], 0);
}

TEST(ModelJson, AWrittenModelIsTheSameText)
{
    Arena arena;
    struct detour_text text = {};
    struct detour_error error = {};

    ASSERT_EQ(detour_model_to_json(arena, Read(arena, Golden()), &text, &error), DETOUR_OK) << error.text;
    EXPECT_EQ(std::string(text.data, text.bytes), Golden());
}

TEST(ModelJson, AModelWithoutLinksAndFixedPartsStaysWithoutThem)
{
    Arena arena;
    struct detour_text text = {};

    ASSERT_EQ(detour_model_to_json(arena, Model::Uniform(5, 2).get(), &text, nullptr), DETOUR_OK);
    EXPECT_EQ(strstr(text.data, "links"), nullptr);
    EXPECT_EQ(strstr(text.data, "fixed"), nullptr);
    EXPECT_EQ(strstr(text.data, "replicas"), nullptr);
    const struct detour_model *model = Read(arena, text.data);
    EXPECT_EQ(model->links, nullptr);
    EXPECT_EQ(model->layer_count, 5);
    EXPECT_EQ(model->layers[4].optimizer_bytes, 600);
}

TEST(ModelJson, RefusesInOneLineWithThePlace)
{
    const struct {
        const char *from, *to, *error;
        enum detour_status status;
    } cases[] = {
        {"\"name\": \"mixed\",", "", "m.json: name is missing", DETOUR_SYNTAX},
        {"\"mixed\"", "\"mi\\nxed\"", "m.json: name must be a string of 1 to 63 printable ASCII characters",
         DETOUR_INVALID},
        {"\"microbatches\": 6", "\"microbatches\": 0",
         "m.json: microbatches is 0; it must be a count of microbatches, a whole number from 1 to 65536",
         DETOUR_INVALID},
        {"\"count\": 3", "\"count\": 4095", "m.json: layers has 4099 layers; at most 4096 are possible",
         DETOUR_LIMIT},
        {"\"count\": 3", "\"count\": 0",
         "m.json: layers[1].count is 0; it must be a count, a whole number from 1 to 4096", DETOUR_INVALID},
        {"\"f_ms\": 2,", "", "m.json: layers[1].f_ms is missing", DETOUR_SYNTAX},
        {"\"b_ms\": 2.5", "\"b_ms\": -2",
         "m.json: layers[1].b_ms is -2; it must be a number of milliseconds from 0 to 100000",
         DETOUR_INVALID},
        {"\"parameter_bytes\": 4000", "\"parameter_bytes\": 1e3",
         "m.json: layers[0].parameter_bytes is 1000.0; it must be a size in bytes, a whole number from 0 to "
         "1099511627776",
         DETOUR_INVALID},
        {"\"count\": 2, \"capacity_bytes\"", "\"count\": 7, \"capacity_bytes\"",
         "m.json: devices has 8 devices for 7 layers; every device needs a layer", DETOUR_INVALID},
        {"\"speed\": 0.5", "\"speed\": 0",
         "m.json: devices[1].speed must be a number from 0.001 to 1000: 0.5 takes twice the layers' times",
         DETOUR_INVALID},
        {"\"from\": 1, \"to\": 2", "\"from\": 2, \"to\": 2",
         "m.json: links.except[0].to is the sending device; a link joins two devices", DETOUR_INVALID},
        {"\"from\": 1, \"to\": 2", "\"from\": 1, \"to\": 3",
         "m.json: links.except[0].to is 3; it must be a device, a whole number from 0 to 2", DETOUR_LIMIT},
        {"\"count\": 4,", "", "m.json: replicas.count is missing", DETOUR_SYNTAX},
        {"\"count\": 4,", "\"count\": 0,",
         "m.json: replicas.count is 0; it must be a count of replicas, a whole number from 1 to 65536",
         DETOUR_INVALID},
        {"\"bytes_per_s\": 25000000", "\"overlap\": true",
         "m.json: replicas.overlap is not a known field; there are count, latency_ms or bytes_per_s",
         DETOUR_SYNTAX},
        {"[1, 3, 2, 1]", "[1, 3, 2, 2]", "m.json: fixed.layers adds up to 8 layers; the model has 7",
         DETOUR_INVALID},
        {"[1, 3, 2, 1]", "[1, 3, 3]",
         "m.json: fixed.layers has 3 entries; it must have 4, one for each stage", DETOUR_INVALID},
        {"[0, 1, 2, 0]", "[0, 1, 1, 0]", "m.json: device 2 has no stage", DETOUR_INVALID},
        {"\"overlap\": true", "\"overlap\": 1", "m.json: links.overlap is 1; it must be true or false",
         DETOUR_SYNTAX},
    };

    for (const auto &bad : cases) {
        Arena arena;
        struct detour_model *model = nullptr;
        struct detour_error error = {};
        std::string text = Replace(Golden(), bad.from, bad.to);
        EXPECT_EQ(detour_model_from_json(arena, "m.json", text.data(), text.size(), &model, &error),
                  bad.status);
        EXPECT_STREQ(error.text, bad.error);
        EXPECT_EQ(model, nullptr);
    }
}

TEST(ModelJson, NamesTheFieldsThatExist)
{
    Arena arena;
    struct detour_model *model = nullptr;
    struct detour_error error = {};
    std::string text = Replace(Golden(), "\"bw_ms\"", "\"bv_ms\"");

    EXPECT_EQ(detour_model_from_json(arena, "m.json", text.data(), text.size(), &model, &error),
              DETOUR_SYNTAX);
    EXPECT_EQ(std::string(error.text).find("m.json: layers[1].bv_ms is not a known field; there are type, "),
              0u);
}

TEST(ModelJson, EveryLayerFieldIsInTheTable)
{
    const struct dt_layer_field fields[] = DT_LAYER_FIELDS;
    EXPECT_EQ(sizeof(fields) / sizeof(fields[0]) * sizeof(int64_t) + sizeof(const char *),
              sizeof(struct detour_layer));
}

TEST(ModelMutations, AreReadOrRefusedInOneLine)
{
    std::string samples = Replace(Golden(), "\"f_ms\": 2,", "\"f_ms\": [2, 1.5, 3], \"parameters\": 100,");
    sched_test::Mutate("models", dt_fuzz_model, {Golden(), samples}, 10000, 1);
}

TEST(ModelMutations, TheExampleItselfIsAccepted)
{
    EXPECT_EQ(dt_fuzz_model(Golden().data(), Golden().size()), nullptr);
}
} // namespace
