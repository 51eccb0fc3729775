// SPDX-License-Identifier: Apache-2.0
// What pictures are drawn from, and the written formats against files in golden/.
#include "tests/sched/format/format_test.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include "sched/format/format.h"
#include "tests/harness/harness.h"

namespace
{
using sched_test::Arena;
using sched_test::FailEachAllocation;
using sched_test::kMs;
using sched_test::ReadPlan;
using sched_test::ReadProfile;
using sched_test::WritePlan;

const std::string kGolden = DETOUR_SOURCE_DIR "/tests/sched/golden/";

std::string Slurp(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    EXPECT_TRUE(file.good()) << path;
    text << file.rdbuf();
    return text.str();
}

/* Profile and timed plan of golden/NAME.profile.json and golden/NAME.csv. */
struct Example {
    Arena arena;
    const struct detour_profile *profile;
    struct detour_plan *plan;
    struct detour_report *report = nullptr;

    explicit Example(const std::string &name)
    {
        profile = ReadProfile(arena, Slurp(kGolden + name + ".profile.json"));
        plan = ReadPlan(arena, profile, Slurp(kGolden + name + ".csv"));
        EXPECT_EQ(detour_simulate(arena, profile, plan->schedule, &report, nullptr), DETOUR_OK);
        plan->makespan_ns = report->makespan_ns;
        plan->longest_span_ns = report->longest_span_ns;
    }
};

class Golden : public ::testing::TestWithParam<std::string>
{
};

// DETOUR_UPDATE_GOLDEN=1 writes the files instead; look at the difference before committing it.
TEST_P(Golden, EveryFormatIsByteForByteTheFile)
{
    Example example(GetParam());
    struct detour_format_options ascii = {}, report = {};
    ascii.ascii = true;
    report.report = example.report;
    const struct {
        const char *suffix;
        enum detour_format format;
        const struct detour_format_options *options;
    } files[] = {
        {".json", DETOUR_FORMAT_JSON, nullptr},        {".report.json", DETOUR_FORMAT_JSON, &report},
        {".csv", DETOUR_FORMAT_CSV, nullptr},          {".comms.csv", DETOUR_FORMAT_CSV_COMMS, nullptr},
        {".trace.json", DETOUR_FORMAT_TRACE, nullptr}, {".svg", DETOUR_FORMAT_SVG, nullptr},
        {".txt", DETOUR_FORMAT_TEXT, nullptr},         {".ascii.txt", DETOUR_FORMAT_TEXT, &ascii},
    };

    for (const auto &file : files) {
        std::string path = kGolden + GetParam() + file.suffix;
        std::string made = WritePlan(example.arena, example.profile, example.plan, file.format, file.options);
        if (getenv("DETOUR_UPDATE_GOLDEN"))
            std::ofstream(path, std::ios::binary) << made;
        EXPECT_TRUE(made == Slurp(path)) << path << " differs; DETOUR_UPDATE_GOLDEN=1 rewrites it";
    }
}

INSTANTIATE_TEST_SUITE_P(Examples, Golden, ::testing::Values("pair", "v"));

TEST(Json, AReportRoundTripsThroughTheReader)
{
    Example example("v");
    struct detour_format_options options = {};
    options.report = example.report;
    std::string json = WritePlan(example.arena, example.profile, example.plan, DETOUR_FORMAT_JSON, &options);
    struct detour_plan *again = ReadPlan(example.arena, example.profile, json);

    ASSERT_TRUE(again);
    EXPECT_EQ(WritePlan(example.arena, example.profile, example.plan, DETOUR_FORMAT_JSON),
              WritePlan(example.arena, example.profile, again, DETOUR_FORMAT_JSON));
}

/* A call and its problem on an example. */
struct Call {
    struct dt_call call;
    struct dt_problem *problem = nullptr;

    explicit Call(const Example &example)
    {
        dt_call_init(&call, example.arena, nullptr, nullptr);
        EXPECT_EQ(dt_problem_create(&call, example.profile, &problem), DETOUR_OK);
    }
};

TEST(Messages, EachArrivesNoLaterThanItsOperationStartsAndLinksCarryOneAtATime)
{
    for (const char *name : {"pair", "v"}) {
        Example example(name);
        Call c(example);
        struct dt_messages messages = {};
        ASSERT_EQ(dt_messages_create(&c.call, c.problem, example.plan->schedule, &messages), DETOUR_OK);
        size_t crossing = 0;
        for (int32_t i = 0; i + 1 < example.profile->stage_count; i++)
            crossing += c.problem->device[i] != c.problem->device[i + 1];
        EXPECT_EQ(messages.count, 2 * crossing * static_cast<size_t>(example.profile->microbatch_count));

        const struct detour_schedule *s = example.plan->schedule;
        for (size_t m = 0; m < messages.count; m++) {
            const struct detour_message &message = messages.messages[m];
            int32_t link = std::min(message.from_stage, message.to_stage);
            int64_t serial_ns = dt_message_is_forward(&message) ? c.problem->forward_serial_ns[link]
                                                                : c.problem->backward_serial_ns[link];
            EXPECT_GE(message.depart_ns, message.ready_ns);
            if (m > 0 && messages.messages[m - 1].from_stage == message.from_stage &&
                dt_message_is_forward(&messages.messages[m - 1]) == dt_message_is_forward(&message)) {
                EXPECT_GE(message.depart_ns, messages.messages[m - 1].depart_ns + serial_ns);
            }
            bool consumed = false;
            for (size_t i = 0; i < s->op_count; i++) {
                const struct detour_op &op = s->ops[i];
                bool kind =
                    dt_message_is_forward(&message) ? op.kind == DETOUR_OP_F : dt_is_backward(op.kind);
                if (op.stage != message.to_stage || op.microbatch != message.microbatch || !kind)
                    continue;
                consumed = true;
                EXPECT_LE(message.arrive_ns, op.start_ns);
            }
            EXPECT_TRUE(consumed);
        }
    }
}

TEST(Usage, PeaksAreThoseOfTheReportAndTheEndIsZero)
{
    for (const char *name : {"pair", "v"}) {
        Example example(name);
        Call c(example);
        struct dt_usage usage = {};
        ASSERT_EQ(dt_usage_create(&c.call, c.problem, example.plan->schedule, &usage), DETOUR_OK);
        for (int32_t d = 0; d < example.profile->device_count; d++) {
            if (usage.in_bytes) {
                EXPECT_EQ(usage.peak[d], example.report->devices[d].peak_bytes);
            } else {
                EXPECT_EQ(usage.peak[d], example.report->stages[d].peak_inflight);
            }
            ASSERT_LT(usage.first[d], usage.first[d + 1]);
            EXPECT_EQ(usage.steps[usage.first[d + 1] - 1].value, 0);
            for (size_t i = usage.first[d] + 1; i < usage.first[d + 1]; i++)
                EXPECT_LT(usage.steps[i - 1].time_ns, usage.steps[i].time_ns);
        }
    }
}

TEST(Usage, LabelsAreShort)
{
    const struct {
        int64_t value;
        bool in_bytes;
        const char *label;
    } cases[] = {{7, false, "7"},          {0, true, "0"},
                 {1023, true, "1023"},     {1024, true, "1K"},
                 {1536, true, "1.5K"},     {1048575, true, "1023.9K"},
                 {1LL << 40, true, "1T"},  {INT64_MAX, true, "7.9E"},
                 {100000, false, "100000"}};

    for (const auto &c : cases) {
        struct dt_usage usage = {};
        struct dt_text text;
        usage.in_bytes = c.in_bytes;
        dt_text_init(&text);
        dt_text_add_usage(&text, &usage, c.value);
        EXPECT_STREQ(text.data, c.label);
        dt_text_destroy(&text);
    }
}

TEST(RoundStep, IsTheSmallestThatIsWideEnough)
{
    EXPECT_EQ(dt_round_step(100, 1000, 90), 10);
    EXPECT_EQ(dt_round_step(100, 1000, 10), 1);
    EXPECT_EQ(dt_round_step(100, 1000, 11), 2);
    EXPECT_EQ(dt_round_step(1, 1000, 1), 1);
    EXPECT_EQ(dt_round_step(DETOUR_SCHEDULE_TIME_MAX_NS, 76000, 9000), DETOUR_SCHEDULE_TIME_MAX_NS / 5);
}

TEST(Pictures, UserTitlesAreEscaped)
{
    Example example("pair");
    struct detour_format_options options = {};
    options.title = "a<b & c\n\"d\"";
    std::string svg = WritePlan(example.arena, example.profile, example.plan, DETOUR_FORMAT_SVG, &options);

    EXPECT_NE(svg.find(">a&lt;b &amp; c\"d\"<"), std::string::npos);
    // what is no UTF-8, or no character of XML, would make the whole file unreadable
    options.title = "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 \xe9 \xed\xa0\x80 \xc0\xaf \xef\xbf\xbf \xe2\x82";
    svg = WritePlan(example.arena, example.profile, example.plan, DETOUR_FORMAT_SVG, &options);
    EXPECT_NE(svg.find(">\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 ? ?\?? ?? ?\?? ?\?<"), std::string::npos);
}

TEST(Pictures, TextKeepsToItsColumnsAndNeverCutsANumber)
{
    Example example("v");
    struct detour_format_options options = {};
    options.ascii = true;
    options.columns = 60;
    std::istringstream text(
        WritePlan(example.arena, example.profile, example.plan, DETOUR_FORMAT_TEXT, &options));
    std::string line;
    int devices = 0;

    while (std::getline(text, line)) {
        if (line.rfind("device", 0) != 0)
            continue;
        devices++;
        EXPECT_EQ(line.size(), 60u) << line;
    }
    EXPECT_EQ(devices, example.profile->device_count);
}

// Nothing takes time: no scale to divide by.
TEST(Pictures, AScheduleWithoutDurationIsDrawn)
{
    Arena arena;
    const struct detour_profile *profile =
        ReadProfile(arena, R"({"version":1,"microbatches":1,"stages":[{"f_ms":0,"b_ms":0,"w_ms":0}]})");
    struct detour_plan *plan = ReadPlan(arena, profile, "0F0,0B0\n");
    ASSERT_EQ(detour_simulate(arena, profile, plan->schedule, nullptr, nullptr), DETOUR_OK);

    for (int format = DETOUR_FORMAT_JSON; format <= DETOUR_FORMAT_TEXT; format++)
        EXPECT_FALSE(WritePlan(arena, profile, plan, static_cast<enum detour_format>(format)).empty());
}

// A plan in every format with each allocation failing in turn: an error or the right result, never a crash.
TEST(Formats, RunningOutOfMemoryIsReported)
{
    Example example("v");
    std::string profile_json = Slurp(kGolden + "v.profile.json");
    std::string inputs[] = {Slurp(kGolden + "v.json"), Slurp(kGolden + "v.comms.csv")};

    for (int format = DETOUR_FORMAT_JSON; format <= DETOUR_FORMAT_TEXT; format++) {
        for (const std::string &input : inputs) {
            enum detour_status last = FailEachAllocation([&](struct detour_arena *arena) {
                struct detour_profile *profile = nullptr;
                struct detour_plan *plan = nullptr;
                struct detour_text text = {};
                enum detour_status status = detour_profile_from_json(arena, "p", profile_json.data(),
                                                                     profile_json.size(), &profile, nullptr);
                if (!status)
                    status = detour_plan_read(arena, profile, "s", input.data(), input.size(), &plan, nullptr,
                                              nullptr);
                if (!status)
                    status = detour_simulate(arena, profile, plan->schedule, nullptr, nullptr);
                if (!status)
                    status = detour_plan_write(arena, profile, plan, static_cast<enum detour_format>(format),
                                               nullptr, &text, nullptr);
                return status;
            });
            EXPECT_EQ(last, DETOUR_OK);
        }
    }
}
} // namespace

// ---- A run above its plan. ----

namespace
{
size_t Count(const std::string &text, const std::string &part)
{
    size_t count = 0;

    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
        count++;
    return count;
}

/* The plan of an example, each operation and message 1 ms later. */
struct MeasuredRun {
    Example example;
    std::vector<struct detour_op> ops;
    std::vector<struct detour_message> messages;
    struct detour_schedule schedule;
    struct detour_measured measured = {};
    struct detour_format_options options = {};

    explicit MeasuredRun(const std::string &name) : example(name), schedule(*example.plan->schedule)
    {
        Call c(example);
        struct dt_messages made = {};

        EXPECT_EQ(dt_messages_create(&c.call, c.problem, example.plan->schedule, &made), DETOUR_OK);
        ops.assign(schedule.ops, schedule.ops + schedule.op_count);
        messages.assign(made.messages, made.messages + made.count);
        for (struct detour_op &op : ops) {
            op.start_ns += kMs;
            op.finish_ns += kMs;
        }
        for (struct detour_message &message : messages) {
            message.ready_ns += kMs;
            message.depart_ns += kMs;
            message.arrive_ns += kMs;
        }
        schedule.ops = ops.data();
        measured = {&schedule, messages.size(), messages.data()};
        options.measured = &measured;
    }

    enum detour_status Write(enum detour_format format, struct detour_arena *arena = nullptr)
    {
        struct detour_text text;

        return detour_plan_write(arena ? arena : static_cast<struct detour_arena *>(example.arena),
                                 example.profile, example.plan, format, &options, &text, nullptr);
    }
};
} // namespace

TEST(Measured, SvgHasTheRunAboveThePlan)
{
    MeasuredRun run("v");
    std::string plan = WritePlan(run.example.arena, run.example.profile, run.example.plan, DETOUR_FORMAT_SVG);
    std::string both =
        WritePlan(run.example.arena, run.example.profile, run.example.plan, DETOUR_FORMAT_SVG, &run.options);

    EXPECT_EQ(Count(both, "<title>"), 2 * Count(plan, "<title>")) << "each operation twice";
    /* One path of each memory chart, and one of each message. */
    EXPECT_EQ(Count(both, "<path"), Count(plan, "<path") + run.messages.size());
    EXPECT_EQ(Count(plan, ">measured<"), 0u);
    ASSERT_EQ(Count(both, ">measured<"), 1u);
    EXPECT_LT(both.find(">measured<"), both.find(">predicted<"));
    EXPECT_NE(both.find("<title>F of microbatch 0, stage 0: 1 to "), std::string::npos) << "1 ms late";
}

TEST(Measured, TraceHasProcessesOfBothAndNumbersMessagesOnce)
{
    MeasuredRun run("v");
    std::string text = WritePlan(run.example.arena, run.example.profile, run.example.plan,
                                 DETOUR_FORMAT_TRACE, &run.options);
    json_t *document = json_loads(text.c_str(), 0, nullptr);
    json_t *event;
    size_t i;
    std::set<std::string> names;
    std::map<json_int_t, int> begins;
    size_t measured = 0, predicted = 0;

    ASSERT_TRUE(document);
    json_array_foreach(json_object_get(document, "traceEvents"), i, event)
    {
        std::string phase = json_string_value(json_object_get(event, "ph"));
        bool is_run = json_integer_value(json_object_get(event, "pid")) < run.schedule.device_count;
        if (phase == "M")
            names.insert(json_string_value(json_object_get(json_object_get(event, "args"), "name")));
        if (phase == "X")
            (is_run ? measured : predicted)++;
        if (phase == "b")
            begins[json_integer_value(json_object_get(event, "id"))]++;
    }
    EXPECT_TRUE(names.count("device 0, measured") && names.count("device 0, predicted"));
    EXPECT_EQ(measured, run.schedule.op_count);
    EXPECT_EQ(predicted, run.schedule.op_count);
    EXPECT_EQ(begins.size(), 2 * run.messages.size()) << "each message has a number of its own";
    json_decref(document);
}

TEST(Measured, ImpossibleTimesAndMessagesAreRefused)
{
    for (enum detour_format format : {DETOUR_FORMAT_SVG, DETOUR_FORMAT_TRACE}) {
        MeasuredRun back("v"), untimed("v"), far("v"), late("v");

        EXPECT_EQ(MeasuredRun("v").Write(format), DETOUR_OK);
        back.ops[0].finish_ns = back.ops[0].start_ns - 1;
        EXPECT_EQ(back.Write(format), DETOUR_LIMIT);
        untimed.schedule.timed = false;
        EXPECT_EQ(untimed.Write(format), DETOUR_INVALID);
        far.messages[0].to_stage = far.example.profile->stage_count;
        EXPECT_EQ(far.Write(format), DETOUR_INVALID);
        late.messages[0].depart_ns = late.messages[0].arrive_ns + 1;
        EXPECT_EQ(late.Write(format), DETOUR_INVALID);
    }
}

TEST(Measured, FailsCleanlyWithoutMemory)
{
    MeasuredRun run("pair");

    for (enum detour_format format : {DETOUR_FORMAT_SVG, DETOUR_FORMAT_TRACE})
        FailEachAllocation([&](struct detour_arena *arena) { return run.Write(format, arena); });
}
