// SPDX-License-Identifier: Apache-2.0
#include "tests/sched/format/format_test.h"

#include <cstdint>

#include "sched/format/text.h"

namespace
{
using sched_test::Arena;
using sched_test::kMs;
using sched_test::kPair;
using sched_test::ReadProfile;
using sched_test::Replace;

std::string Decimal(int64_t value, int decimals)
{
    struct dt_text text;
    dt_text_init(&text);
    dt_text_add_decimal(&text, value, decimals);
    std::string made(text.data);
    dt_text_destroy(&text);
    return made;
}

TEST(Text, DecimalsAreExactAndWithoutTrailingZeros)
{
    EXPECT_EQ(Decimal(12500000, 6), "12.5");
    EXPECT_EQ(Decimal(0, 6), "0");
    EXPECT_EQ(Decimal(1, 6), "0.000001");
    EXPECT_EQ(Decimal(-1, 2), "-0.01");
    EXPECT_EQ(Decimal(-250, 2), "-2.5");
    EXPECT_EQ(Decimal(7, 0), "7");
    EXPECT_EQ(Decimal(INT64_MAX, 9), "9223372036.854775807");
    EXPECT_EQ(Decimal(INT64_MIN, 9), "-9223372036.854775808");
}

TEST(ProfileJson, EveryFieldArrivesInItsPlaceAndUnit)
{
    Arena arena;
    const struct detour_profile *profile = ReadProfile(arena, R"({
        "version": 1, "microbatches": 6,
        "stages": [{"f_ms": 1, "b_ms": 2.5, "w_ms": 0.000001},
                   {"f_ms": 4, "b_ms": 5, "w_ms": 6, "bw_ms": 10},
                   {"f_ms": 7, "b_ms": 8, "w_ms": 9}],
        "links": [{"forward_ms": 0.25, "backward_ms": 0.5, "serial_ms": 3},
                  {"forward_ms": 11, "backward_ms": 12, "forward_serial_ms": 13, "backward_serial_ms": 14}],
        "placement": [0, 1, 0],
        "memory": {"max_inflight": [4, null, 2], "release": "W", "bytes_f": 100, "bytes_w": [10, 20, 30],
                   "capacity": [1000, null], "offload_ms": [0, 1.5, 0]}})");

    ASSERT_TRUE(profile);
    EXPECT_EQ(profile->stage_count, 3);
    EXPECT_EQ(profile->microbatch_count, 6);
    EXPECT_EQ(profile->device_count, 2);
    EXPECT_EQ(profile->release, DETOUR_RELEASE_W);
    EXPECT_EQ(profile->stages[0].f_ns, kMs);
    EXPECT_EQ(profile->stages[0].b_ns, 2500000);
    EXPECT_EQ(profile->stages[0].w_ns, 1);
    EXPECT_EQ(profile->stages[0].bw_ns, 0);
    EXPECT_EQ(profile->stages[1].bw_ns, 10 * kMs);
    EXPECT_EQ(profile->stages[2].device, 0);
    EXPECT_EQ(profile->links[0].forward_ns, 250000);
    EXPECT_EQ(profile->links[0].backward_ns, 500000);
    EXPECT_EQ(profile->links[0].forward_serial_ns, 3 * kMs);
    EXPECT_EQ(profile->links[0].backward_serial_ns, 3 * kMs);
    EXPECT_EQ(profile->links[1].forward_serial_ns, 13 * kMs);
    EXPECT_EQ(profile->links[1].backward_serial_ns, 14 * kMs);
    EXPECT_EQ(profile->stages[0].max_inflight, 4);
    EXPECT_EQ(profile->stages[1].max_inflight, 0);
    EXPECT_EQ(profile->stages[2].bytes_f, 100);
    EXPECT_EQ(profile->stages[2].bytes_w, 30);
    EXPECT_EQ(profile->stages[1].offload_ns, 1500000);
    EXPECT_EQ(profile->devices[0].capacity_bytes, 1000);
    EXPECT_EQ(profile->devices[1].capacity_bytes, 0);
}

TEST(ProfileJson, WithoutOptionalFieldsStagesHaveDevicesOfTheirOwnAndNoLimits)
{
    Arena arena;
    const struct detour_profile *profile = ReadProfile(arena, kPair);

    ASSERT_TRUE(profile);
    EXPECT_EQ(profile->device_count, 2);
    EXPECT_EQ(profile->stages[1].device, 1);
    EXPECT_EQ(profile->stages[1].max_inflight, 0);
    EXPECT_EQ(profile->devices[1].capacity_bytes, 0);
    EXPECT_EQ(profile->release, DETOUR_RELEASE_B);
}

TEST(ProfileJson, TheBackwardLatencyDefaultsToTheForwardLatency)
{
    Arena arena;
    const struct detour_profile *profile = ReadProfile(
        arena,
        R"({"version":1,"microbatches":1,"stages":[{"f_ms":1,"b_ms":1,"w_ms":1},{"f_ms":1,"b_ms":1,"w_ms":1},
                   {"f_ms":1,"b_ms":1,"w_ms":1}],"links":[{"forward_ms":7},{"forward_ms":7,"backward_ms":0}]})");
    ASSERT_TRUE(profile);
    EXPECT_EQ(profile->links[0].backward_ns, 7000000);
    EXPECT_EQ(profile->links[1].backward_ns, 0);
}

TEST(ProfileJson, OneStageNeedsNoLinks)
{
    Arena arena;

    EXPECT_TRUE(
        ReadProfile(arena, R"({"version":1,"microbatches":1,"stages":[{"f_ms":1,"b_ms":1,"w_ms":0}]})"));
}

TEST(ProfileJson, AWrittenDocumentIsReadBackTheSame)
{
    const char *const documents[] = {
        kPair,
        R"({"version":1,"microbatches":3,"stages":[{"f_ms":18.522,"b_ms":18.086001,"w_ms":9.337},
            {"f_ms":99999.999999,"b_ms":0,"w_ms":0.000001,"bw_ms":0.3}],
            "links":[{"forward_ms":0.601,"backward_ms":100000,"serial_ms":0.1}],"placement":[0,0],
            "memory":{"max_inflight":[1,null],"release":"W","bytes_f":[5,6],"bytes_w":[7,8],
            "capacity":[1000],"offload_ms":[0,0.5]}})",
        R"({"version":1,"microbatches":3,"stages":[{"f_ms":1,"b_ms":1,"w_ms":1},{"f_ms":1,"b_ms":1,"w_ms":1}],
            "links":[{"forward_ms":0,"backward_ms":0,"forward_serial_ms":1,"backward_serial_ms":2}]})"};

    for (const char *document : documents) {
        Arena arena;
        struct detour_text once = {}, twice = {};
        const struct detour_profile *profile = ReadProfile(arena, document);
        ASSERT_TRUE(profile);
        ASSERT_EQ(detour_profile_to_json(arena, profile, &once, nullptr), DETOUR_OK);
        const struct detour_profile *again = ReadProfile(arena, std::string(once.data, once.bytes));
        ASSERT_TRUE(again);
        ASSERT_EQ(detour_profile_to_json(arena, again, &twice, nullptr), DETOUR_OK);
        EXPECT_STREQ(once.data, twice.data);
        for (int32_t i = 0; i < profile->stage_count; i++)
            EXPECT_EQ(memcmp(&profile->stages[i], &again->stages[i], sizeof(again->stages[i])), 0)
                << once.data;
        for (int32_t i = 0; i + 1 < profile->stage_count; i++)
            EXPECT_EQ(memcmp(&profile->links[i], &again->links[i], sizeof(again->links[i])), 0) << once.data;
        for (int32_t d = 0; d < profile->device_count; d++)
            EXPECT_EQ(profile->devices[d].capacity_bytes, again->devices[d].capacity_bytes);
        EXPECT_EQ(profile->release, again->release);
    }
}

struct BadProfile {
    const char *from; // replaced in kPair; NULL: `to` is the whole document
    const char *to;
    enum detour_status status;
    const char *line; // begins with
};

void ExpectErrors(std::initializer_list<BadProfile> cases)
{
    for (const BadProfile &bad : cases) {
        Arena arena;
        std::string text = bad.to, error;
        if (bad.from) {
            text = kPair;
            text.replace(text.find(bad.from), std::string(bad.from).size(), bad.to);
        }
        struct detour_profile *profile = nullptr;
        struct detour_error found = {};
        EXPECT_EQ(detour_profile_from_json(arena, "p.json", text.data(), text.size(), &profile, &found),
                  bad.status)
            << text << "\n"
            << found.text;
        EXPECT_EQ(std::string(found.text).rfind(bad.line, 0), 0u) << text << "\n" << found.text;
        EXPECT_EQ(std::string(found.text).find('\n'), std::string::npos);
        EXPECT_EQ(profile, nullptr);
    }
}

TEST(ProfileJson, ABadFieldIsOneLineWithPathAndTheRightForm)
{
    ExpectErrors({
        {"\"version\":1,", "", DETOUR_SYNTAX, "p.json: version is missing"},
        {"\"version\":1,", "\"version\":2,", DETOUR_INVALID,
         "p.json: version is 2; this library reads version 1"},
        {"\"microbatches\":2,", "", DETOUR_SYNTAX, "p.json: microbatches is missing"},
        {"\"microbatches\":2,", "\"microbatches\":0,", DETOUR_INVALID,
         "p.json: microbatches is 0; it must be a count of microbatches, a whole number from 1 to 65536"},
        {"\"microbatches\":2,", "\"microbatches\":2.5,", DETOUR_INVALID,
         "p.json: microbatches is 2.5; it must be"},
        {"\"microbatches\":2,", "\"microbatches\":2.0,", DETOUR_INVALID,
         "p.json: microbatches is 2.0; it must be a count of microbatches, a whole number"},
        {"\"version\":1,", "\"version\":1.0,", DETOUR_INVALID, "p.json: version is 1.0; this library reads"},
        {"\"microbatches\":2,", "\"microbatches\":65537,", DETOUR_LIMIT,
         "p.json: microbatches is 65537; it must be"},
        {"\"microbatches\":2,", "\"microbatches\":9223372036854775808,", DETOUR_LIMIT,
         "p.json: line 1, column"},
        {"\"microbatches\":2,", "\"microbatches\":\"2\",", DETOUR_INVALID,
         "p.json: microbatches is \"2\"; it must"},
        {"\"b_ms\":10,\"w_ms\":10}]", "\"w_ms\":10}]", DETOUR_SYNTAX, "p.json: stages[1].b_ms is missing"},
        {"\"f_ms\":10", "\"f_ms\":-1", DETOUR_INVALID,
         "p.json: stages[0].f_ms is -1; it must be a number of milliseconds from 0 to 100000"},
        {"\"f_ms\":10", "\"f_ms\":100000.000001", DETOUR_LIMIT,
         "p.json: stages[0].f_ms is 100000.000001; it must"},
        {"\"f_ms\":10", "\"f_ms\":1e400", DETOUR_LIMIT, "p.json: line 2, column"},
        {"\"f_ms\":10", "\"f_ms\":1e300", DETOUR_LIMIT, "p.json: stages[0].f_ms is 1e+300; it must be"},
        {"\"f_ms\":10", "\"f_ms\":null", DETOUR_INVALID, "p.json: stages[0].f_ms is null; it must be"},
        {"\"f_ms\":10", "\"f_ms\":NaN", DETOUR_SYNTAX, "p.json: line 2, column"},
        {"\"f_ms\":10", "\"f_ms\":10,\"f_ms\":11", DETOUR_SYNTAX, "p.json: line 2, column"},
        {"\"f_ms\":10", "\"g_ms\":10", DETOUR_SYNTAX,
         "p.json: stages[0].g_ms is not a known field; there are f_ms, b_ms, w_ms or bw_ms"},
        {"\"stages\":[{\"f_ms\":10,\"b_ms\":10,\"w_ms\":10},", "\"stages\":[7,", DETOUR_SYNTAX,
         "p.json: stages[0] is 7; it must be an object"},
    });
}

TEST(ProfileJson, ABadListOrMemoryIsOneLineWithPathAndTheRightForm)
{
    const char *const memory = R"("links":[{"forward_ms":0,"backward_ms":0}]})";

    ExpectErrors({
        {",\n\"links\":[{\"forward_ms\":0,\"backward_ms\":0}]", "", DETOUR_SYNTAX,
         "p.json: links is missing"},
        {"[{\"forward_ms\":0,\"backward_ms\":0}]", "[]", DETOUR_INVALID,
         "p.json: links has 0 entries; it must have 1, one for each pair of neighboring stages"},
        {"\"backward_ms\":0", "\"backward_ms\":-0.5", DETOUR_INVALID,
         "p.json: links[0].backward_ms is -0.5; it"},
        {"\"links\":[", "\"links\":5,\"placement\":[", DETOUR_SYNTAX,
         "p.json: links is 5; it must be an array"},
        {memory, "\"links\":[{\"forward_ms\":0,\"backward_ms\":0}],\"placement\":[0]}", DETOUR_INVALID,
         "p.json: placement has 1 entries; it must have 2, one device for each stage"},
        {memory, "\"links\":[{\"forward_ms\":0,\"backward_ms\":0}],\"placement\":[0,2]}", DETOUR_LIMIT,
         "p.json: placement[1] is 2; it must be a device, a whole number from 0 to 1"},
        {memory, "\"links\":[{\"forward_ms\":0,\"backward_ms\":0}],\"placement\":[1,1]}", DETOUR_INVALID,
         "p.json: placement: device 0 has no stage; every device must have one"},
        {memory, "\"links\":[{\"forward_ms\":0,\"backward_ms\":0}],\"memory\":{\"max_inflight\":[1]}}",
         DETOUR_INVALID, "p.json: memory.max_inflight has 1 entries; it must have 2, one for each stage"},
        {memory, "\"links\":[{\"forward_ms\":0,\"backward_ms\":0}],\"memory\":{\"max_inflight\":[1,0]}}",
         DETOUR_INVALID,
         "p.json: memory.max_inflight[1] is 0; it must be a count of microbatches (or null: no limit)"},
        {memory, "\"links\":[{\"forward_ms\":0,\"backward_ms\":0}],\"memory\":{\"release\":\"X\"}}",
         DETOUR_INVALID, "p.json: memory.release is \"X\"; it must be one of B or W"},
        {memory,
         "\"links\":[{\"forward_ms\":0,\"backward_ms\":0}],\"memory\":{\"bytes_f\":[8,9],\"capacity\":[9,8]}"
         "}",
         DETOUR_MEMORY_TOO_SMALL,
         "p.json: memory: devices[1].capacity_bytes is 8; one microbatch alone needs 9"},
        {memory, "\"links\":[{\"forward_ms\":0,\"backward_ms\":0}],\"memory\":[]}", DETOUR_SYNTAX,
         "p.json: memory is an array; it must be an object"},
    });
}

TEST(ProfileJson, ABadDocumentIsOneLineWithPathAndTheRightForm)
{
    ExpectErrors({
        {nullptr, "", DETOUR_SYNTAX, "p.json: line 1, column 0: "},
        {nullptr, "[1]", DETOUR_SYNTAX, "p.json: the document is an array; it must be an object"},
        {nullptr, "{\"version\":1", DETOUR_SYNTAX, "p.json: line 1, column 12: '}' expected"},
        {nullptr, "{\"version\":1}x", DETOUR_SYNTAX, "p.json: line 1, column 14: end of file expected"},
        {nullptr, "{\"v\\u0000\":1}", DETOUR_SYNTAX, "p.json: line 1, column"},
        {nullptr, "{\"\x80\":1}", DETOUR_SYNTAX, "p.json: line 1, column"},
        {nullptr, "{\"a\\nb\":1}", DETOUR_SYNTAX, "p.json: a?b is not a known field; there are version,"},
        {nullptr, R"({"version":1,"microbatches":1,"stages":[],"links":[]})", DETOUR_INVALID,
         "p.json: stages is empty; there must be at least one stage"},
    });
}

TEST(ProfileJson, TooManyCellsAreRefused)
{
    Arena arena;
    std::string stages = "{\"f_ms\":1,\"b_ms\":1,\"w_ms\":1}", links, error;
    for (int i = 1; i < 65; i++) {
        stages += ",{\"f_ms\":1,\"b_ms\":1,\"w_ms\":1}";
        links += std::string(i > 1 ? "," : "") + "{\"forward_ms\":0,\"backward_ms\":0}";
    }
    EXPECT_FALSE(ReadProfile(
        arena, "{\"version\":1,\"microbatches\":65536,\"stages\":[" + stages + "],\"links\":[" + links + "]}",
        &error));
    EXPECT_EQ(error, "p.json: stages times microbatches is 4259840; the limit is " +
                         std::to_string(DETOUR_CELLS_MAX));
}

TEST(ProfileJson, DeepNestingIsAnErrorAndNotACrash)
{
    Arena arena;
    std::string error;

    EXPECT_FALSE(ReadProfile(arena, std::string(100000, '['), &error));
    EXPECT_EQ(error.rfind("p.json: line 1, column", 0), 0u) << error;
}
} // namespace
