// SPDX-License-Identifier: Apache-2.0
#include "tests/sched/format/format_test.h"

namespace
{
using sched_test::Arena;
using sched_test::kMs;
using sched_test::kPair;
using sched_test::Line;
using sched_test::ReadPlan;
using sched_test::ReadProfile;
using sched_test::Replace;
using sched_test::WritePlan;

// kPair: both devices F0 F1, then backwards.
const char *const kSchedule = R"({"version":1,"algorithm":"external","makespan_ms":70,"longest_span_ms":60,
"lower_bound_ms":0,"proven_optimal":false,"stages":[
{"stage":0,"device":0,"peak_inflight":2,"warmup":2,"ops":[
{"op":"F","mb":0,"start_ms":0,"end_ms":10},{"op":"F","mb":1,"start_ms":10,"end_ms":20},
{"op":"BW","mb":0,"start_ms":40,"end_ms":60},{"op":"B","mb":1,"start_ms":60,"end_ms":70},
{"op":"W","mb":1,"start_ms":70,"end_ms":80}]},
{"stage":1,"device":1,"peak_inflight":2,"warmup":2,"ops":[
{"op":"F","mb":0,"start_ms":10,"end_ms":20},{"op":"F","mb":1,"start_ms":20,"end_ms":30},
{"op":"B","mb":0,"start_ms":30,"end_ms":40},{"op":"B","mb":1,"start_ms":40,"end_ms":50},
{"op":"W","mb":0,"start_ms":50,"end_ms":60},{"op":"W","mb":1,"start_ms":60,"end_ms":70}]}]})";

TEST(ScheduleJson, OrderTimesAndHeadArrive)
{
    Arena arena;
    const struct detour_profile *profile = ReadProfile(arena, kPair);
    struct detour_profile *planned = nullptr;
    struct detour_plan *plan = ReadPlan(arena, profile, kSchedule, nullptr, &planned);

    ASSERT_TRUE(plan);
    EXPECT_TRUE(plan->schedule->timed);
    EXPECT_EQ(plan->schedule->op_count, 11u);
    EXPECT_EQ(Line(plan->schedule, 0), "F0 F1 BW0 B1 W1");
    EXPECT_EQ(Line(plan->schedule, 1), "F0 F1 B0 B1 W0 W1");
    EXPECT_EQ(plan->schedule->ops[2].start_ns, 40 * kMs);
    EXPECT_EQ(plan->schedule->ops[2].finish_ns, 60 * kMs);
    EXPECT_EQ(plan->algorithm, DETOUR_ALGORITHM_EXTERNAL);
    EXPECT_EQ(plan->makespan_ns, 70 * kMs);
    EXPECT_EQ(plan->longest_span_ns, 60 * kMs);
    EXPECT_EQ(planned, nullptr);
}

TEST(ScheduleJson, OnlyOrderIsNeeded)
{
    Arena arena;
    const struct detour_profile *profile = ReadProfile(arena, kPair);
    struct detour_plan *plan = ReadPlan(arena, profile, R"({"version":1,"stages":[
        {"ops":[{"op":"F","mb":0},{"op":"F","mb":1},{"op":"BW","mb":0},{"op":"BW","mb":1}]},
        {"ops":[{"op":"F","mb":0},{"op":"BW","mb":0},{"op":"F","mb":1},{"op":"BW","mb":1}]}]})");

    ASSERT_TRUE(plan);
    EXPECT_FALSE(plan->schedule->timed);
    EXPECT_EQ(Line(plan->schedule, 1), "F0 BW0 F1 BW1");
}

TEST(ScheduleJson, RecordsTheLinksItWasMadeFor)
{
    Arena arena;
    const struct detour_profile *slow =
        ReadProfile(arena, Replace(kPair, "\"forward_ms\":0,", "\"forward_ms\":7.5,\"serial_ms\":2,"));
    const struct detour_profile *fast = ReadProfile(arena, kPair);
    struct detour_plan *plan = nullptr;
    struct detour_options options = {};
    struct detour_profile *planned = nullptr;

    options.algorithm = DETOUR_ALGORITHM_1F1B;
    ASSERT_EQ(detour_generate(arena, slow, &options, &plan, nullptr), DETOUR_OK);
    std::string json = WritePlan(arena, slow, plan, DETOUR_FORMAT_JSON);
    ASSERT_TRUE(ReadPlan(arena, fast, json, nullptr, &planned));
    ASSERT_TRUE(planned);
    EXPECT_EQ(planned->links[0].forward_ns, 7500000);
    EXPECT_EQ(planned->links[0].backward_serial_ns, 2 * kMs);
    EXPECT_EQ(fast->links[0].forward_ns, 0);
}

// Stages 0 and 3 on device 0, 1 and 2 on device 1; times that are no round numbers.
const char *const kV = R"({"version":1,"microbatches":3,"placement":[0,1,1,0],
"stages":[{"f_ms":1.1,"b_ms":2.25,"w_ms":0.3},{"f_ms":1,"b_ms":0,"w_ms":0},{"f_ms":0,"b_ms":0,"w_ms":0},
{"f_ms":3.000001,"b_ms":0.7,"w_ms":1}],"links":[{"forward_ms":0.5,"backward_ms":0.25,"serial_ms":0.125},
{"forward_ms":0,"backward_ms":0},{"forward_ms":1,"backward_ms":1}]})";

TEST(ScheduleJson, RoundTripsAlsoWithSeveralStagesOnADeviceAndOperationsWithoutDuration)
{
    for (const char *document : {kPair, kV}) {
        Arena arena;
        const struct detour_profile *profile = ReadProfile(arena, document);
        struct detour_options options = {};
        struct detour_plan *plan = nullptr;
        options.algorithm = DETOUR_ALGORITHM_GPIPE;
        ASSERT_EQ(detour_generate(arena, profile, &options, &plan, nullptr), DETOUR_OK);

        std::string once = WritePlan(arena, profile, plan, DETOUR_FORMAT_JSON);
        struct detour_plan *again = ReadPlan(arena, profile, once);
        ASSERT_TRUE(again) << once;
        EXPECT_EQ(once, WritePlan(arena, profile, again, DETOUR_FORMAT_JSON));
        ASSERT_EQ(plan->schedule->op_count, again->schedule->op_count);
        for (size_t i = 0; i < plan->schedule->op_count; i++)
            EXPECT_EQ(memcmp(&plan->schedule->ops[i], &again->schedule->ops[i], sizeof(struct detour_op)), 0)
                << i;
        for (int32_t d = 0; d <= profile->device_count; d++)
            EXPECT_EQ(plan->schedule->first[d], again->schedule->first[d]);
        EXPECT_EQ(again->algorithm, DETOUR_ALGORITHM_GPIPE);
        EXPECT_EQ(again->makespan_ns, plan->makespan_ns);
    }
}

TEST(ScheduleJson, WithoutSlotsTimesOrderTheStagesOfADevice)
{
    Arena arena;
    const struct detour_profile *profile =
        ReadProfile(arena, Replace(kPair, "\"links\":", "\"placement\":[0,0],\"links\":"));
    struct detour_plan *plan = ReadPlan(arena, profile, R"({"version":1,"stages":[
        {"ops":[{"op":"F","mb":0,"start_ms":0,"end_ms":10},{"op":"F","mb":1,"start_ms":20,"end_ms":30},
                {"op":"BW","mb":0,"start_ms":70,"end_ms":90},{"op":"BW","mb":1,"start_ms":100,"end_ms":120}]},
        {"ops":[{"op":"F","mb":0,"start_ms":10,"end_ms":20},{"op":"F","mb":1,"start_ms":30,"end_ms":40},
                {"op":"BW","mb":0,"start_ms":40,"end_ms":60},{"op":"BW","mb":1,"start_ms":90,"end_ms":100}]}]})");

    ASSERT_TRUE(plan);
    EXPECT_EQ(Line(plan->schedule, 0), "F0 F0 F1 F1 BW0 BW0 BW1 BW1");
    EXPECT_EQ(plan->schedule->ops[4].stage, 1);
}

TEST(ScheduleJson, WarmupAndPeakEqualTheSimulations)
{
    Arena arena;
    const struct detour_profile *profile = ReadProfile(arena, kV);
    struct detour_options options = {};
    struct detour_plan *plan = nullptr;
    struct detour_report *report = nullptr;
    options.algorithm = DETOUR_ALGORITHM_GPIPE;
    ASSERT_EQ(detour_generate(arena, profile, &options, &plan, nullptr), DETOUR_OK);
    ASSERT_EQ(detour_simulate(arena, profile, plan->schedule, &report, nullptr), DETOUR_OK);
    std::string json = WritePlan(arena, profile, plan, DETOUR_FORMAT_JSON);

    for (int32_t i = 0; i < 4; i++) {
        std::string stage = "\"stage\": " + std::to_string(i) +
                            ",\n   \"device\": " + std::to_string(profile->stages[i].device) +
                            ",\n   \"peak_inflight\": " + std::to_string(report->stages[i].peak_inflight) +
                            ",\n   \"warmup\": " + std::to_string(report->stages[i].warmup) + ",\n";
        EXPECT_NE(json.find(stage), std::string::npos) << stage << json;
    }
}

TEST(ScheduleJson, OffloadedActivationsKeepTheirMark)
{
    Arena arena;
    const struct detour_profile *profile = ReadProfile(
        arena, Replace(kPair, "\"links\":", "\"memory\":{\"bytes_f\":8,\"offload_ms\":[1,0]},\"links\":"));
    struct detour_plan *plan = ReadPlan(
        arena, profile,
        Replace(kSchedule, "\"mb\":0,\"start_ms\":0,", "\"mb\":0,\"offloaded\":true,\"start_ms\":0,"));

    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->schedule->ops[0].flags, DETOUR_OP_OFFLOADED);
    EXPECT_EQ(plan->schedule->ops[1].flags, 0);
    EXPECT_NE(WritePlan(arena, profile, plan, DETOUR_FORMAT_JSON).find("\"offloaded\": true"),
              std::string::npos);
}

TEST(ScheduleJson, BadInputIsOneLineWithPathAndTheRightForm)
{
    const struct {
        const char *from;
        const char *to;
        enum detour_status status;
        const char *line;
    } cases[] = {
        {"\"version\":1,", "", DETOUR_SYNTAX, "s: version is missing"},
        {"\"external\"", "\"magic\"", DETOUR_INVALID, "s: algorithm is \"magic\"; it must be one of"},
        {"\"makespan_ms\":70", "\"makespan_ms\":-70", DETOUR_INVALID,
         "s: makespan_ms is -70; it must be a number of"},
        {"\"proven_optimal\":false", "\"proven_optimal\":0", DETOUR_SYNTAX,
         "s: proven_optimal is 0; it must be true or false"},
        {"{\"stage\":0,", "{\"stage\":1,", DETOUR_UNKNOWN_OP, "s: stages[0].stage is 1; it must be"},
        {"\"device\":1,", "\"device\":0,", DETOUR_UNKNOWN_OP,
         "s: stages[1].device is 0; it must be the device where the profile places the stage, 1"},
        {"{\"op\":\"BW\",\"mb\":0", "{\"op\":\"X\",\"mb\":0", DETOUR_INVALID,
         "s: stages[0].ops[2].op is \"X\"; it must be one of F, B, W or BW"},
        {"{\"op\":\"BW\",\"mb\":0", "{\"op\":\"BW\",\"mb\":2", DETOUR_LIMIT,
         "s: stages[0].ops[2].mb is 2; it must be a microbatch of the profile, a whole number from 0 to 1"},
        {"{\"op\":\"BW\",\"mb\":0", "{\"op\":\"BW\"", DETOUR_SYNTAX, "s: stages[0].ops[2].mb is missing"},
        {"{\"op\":\"BW\",\"mb\":0", "{\"op\":\"F\",\"mb\":0", DETOUR_DUPLICATE_OP,
         "s: stages[0].ops[2] is F of microbatch 0, which is there already"},
        {"{\"op\":\"W\",\"mb\":1,\"start_ms\":70,\"end_ms\":80}",
         "{\"op\":\"BW\",\"mb\":1,\"start_ms\":70,\"end_ms\":80}", DETOUR_DUPLICATE_OP,
         "s: stages[0].ops[4] is BW of microbatch 1, which is there already"},
        {",\n{\"op\":\"W\",\"mb\":1,\"start_ms\":70,\"end_ms\":80}", "", DETOUR_MISSING_OP,
         "s: stages[0].ops has no W of microbatch 1; the profile has 2 microbatches"},
        {",\"start_ms\":40,\"end_ms\":60}", "}", DETOUR_SYNTAX, "s: stages[0].ops[2].start_ms is missing"},
        {",\"start_ms\":40,\"end_ms\":60}", ",\"start_ms\":60.1,\"end_ms\":60}", DETOUR_TIMES,
         "s: stages[0].ops[2].end_ms is less than start_ms"},
        {",\"start_ms\":40,\"end_ms\":60}", ",\"start_ms\":0,\"end_ms\":60}", DETOUR_TIMES,
         "s: stages[0].ops[2] starts before the previous operation"},
        {",\"start_ms\":40,\"end_ms\":60}", ",\"start_ms\":40,\"end_ms\":1e10}", DETOUR_LIMIT,
         "s: stages[0].ops[2].end_ms is 10000000000.0; it must be"},
        {",\"start_ms\":40,\"end_ms\":60}", ",\"start_ms\":40,\"end_ms\":60,\"slot\":3}", DETOUR_SYNTAX,
         "s: stages[0].ops[2].slot is there, but the operations before it have none"},
        {"{\"op\":\"F\",\"mb\":0,\"start_ms\":0,",
         "{\"op\":\"F\",\"mb\":0,\"offloaded\":true,\"start_ms\":0,", DETOUR_UNKNOWN_OP,
         "s: stages[0].ops[0].offloaded is true; that is for F of stages whose"},
        {"\"ops\":[\n{\"op\":\"F\",\"mb\":0,\"start_ms\":10",
         "\"ops\":5,\"stages\":[{\"op\":\"F\",\"mb\":0,\"start_ms\":10", DETOUR_SYNTAX,
         "s: stages[1].stages is not a known field"},
        {"\"stages\":[\n{\"stage\":0", "\"stages\":[{},{\"stage\":0", DETOUR_INVALID,
         "s: stages has 3 entries; it must have 2, one for each stage of the profile"},
        {"\"lower_bound_ms\":0", "\"links\":[],\"lower_bound_ms\":0", DETOUR_INVALID,
         "s: links has 0 entries; it must"},
    };

    for (const auto &bad : cases) {
        Arena arena;
        const struct detour_profile *profile = ReadProfile(arena, kPair);
        std::string text = kSchedule, error;
        ASSERT_NE(text.find(bad.from), std::string::npos) << bad.from;
        text.replace(text.find(bad.from), std::string(bad.from).size(), bad.to);
        EXPECT_FALSE(ReadPlan(arena, profile, text, &error));
        EXPECT_EQ(error.rfind(bad.line, 0), 0u) << error << "\nexpected: " << bad.line;
    }
}

TEST(ScheduleJson, SlotsMustBeAPermutation)
{
    Arena arena;
    std::string error;
    const struct detour_profile *profile =
        ReadProfile(arena, R"({"version":1,"microbatches":1,"stages":[{"f_ms":1,"b_ms":1,"w_ms":1}]})");

    EXPECT_FALSE(ReadPlan(arena, profile, R"({"version":1,"stages":[{"ops":[{"op":"F","mb":0,"slot":1},
        {"op":"BW","mb":0,"slot":1}]}]})",
                          &error));
    EXPECT_EQ(error,
              "s: the document has slot 1 on device 0 where 0 is due; the slots of a device are 0, 1, 2, "
              "..., each once");
}

/* A file that was read is written in the order of its slots, in which its times have to ascend. */
TEST(ScheduleJson, SlotsHaveTheOrderOfTheTimes)
{
    Arena arena;
    std::string error;
    const struct detour_profile *profile =
        ReadProfile(arena, R"({"version":1,"microbatches":2,"stages":[{"f_ms":1,"b_ms":1,"w_ms":1}]})");
    const std::string file = R"({"version":1,"stages":[{"ops":[
        {"op":"F","mb":0,"start_ms":0,"end_ms":1,"slot":0},{"op":"F","mb":1,"start_ms":1,"end_ms":2,"slot":1},
        {"op":"BW","mb":0,"start_ms":2,"end_ms":4,"slot":2},{"op":"BW","mb":1,"start_ms":4,"end_ms":6,"slot":3}]}]})";

    EXPECT_TRUE(ReadPlan(arena, profile, file, &error)) << error;
    EXPECT_FALSE(
        ReadPlan(arena, profile,
                 Replace(Replace(Replace(file, "\"slot\":2", "\"slot\":9"), "\"slot\":3", "\"slot\":2"),
                         "\"slot\":9", "\"slot\":3"),
                 &error));
    EXPECT_EQ(
        error,
        "s: the document has an operation in slot 3 of device 0 that starts before the one in slot 2; slots "
        "and times must have one order");
}

TEST(ScheduleJson, OrderAcrossStagesOfADeviceMustBeGiven)
{
    Arena arena;
    std::string error;
    const struct detour_profile *profile =
        ReadProfile(arena, Replace(kPair, "\"links\":", "\"placement\":[0,0],\"links\":"));

    EXPECT_FALSE(ReadPlan(arena, profile, R"({"version":1,"stages":[
        {"ops":[{"op":"F","mb":0},{"op":"F","mb":1},{"op":"BW","mb":0},{"op":"BW","mb":1}]},
        {"ops":[{"op":"F","mb":0},{"op":"BW","mb":0},{"op":"F","mb":1},{"op":"BW","mb":1}]}]})",
                          &error));
    EXPECT_EQ(error.rfind("s: stages leaves the order of stages on one device open; give", 0), 0u) << error;
}

TEST(ScheduleJson, UntimedSchedulesAreNotWrittenAsTimed)
{
    Arena arena;
    const struct detour_profile *profile = ReadProfile(arena, kPair);
    struct detour_plan *plan = ReadPlan(arena, profile, "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n");
    struct detour_text text = {};
    struct detour_error error = {};

    for (enum detour_format format :
         {DETOUR_FORMAT_JSON, DETOUR_FORMAT_TRACE, DETOUR_FORMAT_SVG, DETOUR_FORMAT_TEXT}) {
        EXPECT_EQ(detour_plan_write(arena, profile, plan, format, nullptr, &text, &error), DETOUR_INVALID);
        EXPECT_STREQ(error.text, "the schedule has no times; detour_simulate() sets them");
    }
}

TEST(ScheduleJson, TimesBeyondTheLimitAreRefusedByTheWriter)
{
    Arena arena;
    const struct detour_profile *profile = ReadProfile(arena, kPair);
    struct detour_plan *plan = ReadPlan(arena, profile, kSchedule);
    struct detour_text text = {};
    struct detour_error error = {};

    plan->schedule->ops[0].finish_ns = DETOUR_SCHEDULE_TIME_MAX_NS + 1;
    EXPECT_EQ(detour_plan_write(arena, profile, plan, DETOUR_FORMAT_JSON, nullptr, &text, &error),
              DETOUR_LIMIT);
    plan->schedule->ops[0].finish_ns = -1;
    EXPECT_EQ(detour_plan_write(arena, profile, plan, DETOUR_FORMAT_SVG, nullptr, &text, &error),
              DETOUR_LIMIT);
}

TEST(Formats, NamesAreThoseOfTheCommandLine)
{
    const char *const names[] = {"json", "csv", "csv-comms", "trace", "svg", "text"};
    enum detour_format format;

    for (int i = 0; i < 6; i++) {
        EXPECT_STREQ(detour_format_name(static_cast<enum detour_format>(i)), names[i]);
        ASSERT_TRUE(detour_format_find(names[i], &format));
        EXPECT_EQ(format, i);
    }
    EXPECT_EQ(detour_format_name(static_cast<enum detour_format>(6)), nullptr);
    EXPECT_FALSE(detour_format_find("xml", &format));
}
} // namespace
