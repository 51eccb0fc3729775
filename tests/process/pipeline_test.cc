/* SPDX-License-Identifier: Apache-2.0 */
/* `detour pipeline` as a user meets it. Only outcomes are checked, never times. */
#include <gtest/gtest.h>
#include <jansson.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/process/command.h"

using detour_test::Command;
using detour_test::LineCount;
using detour_test::Outcome;
using detour_test::RunDetour;

namespace
{
using Words = std::vector<std::string>;

const char kTcpPlugin[] = DETOUR_BINARY_DIR "/bench/libnccl-net-benchtcp.so";
const char kFaultyPlugin[] = DETOUR_BINARY_DIR "/tests/libfaulty-plugin.so";

/* Two devices, small times. */
Words Pipeline(Words more)
{
    Words words = {"pipeline", "--devices", "2", "--microbatches", "4", "--times", "1,1,1", "-n", "3"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

/* The rows of the table. */
size_t Rows(const std::string &out)
{
    size_t rows = 0;
    for (size_t at = 0, end; (end = out.find('\n', at)) != std::string::npos; at = end + 1)
        rows += out[at] != '#';
    return rows;
}

Outcome RunFaulty(const std::string &fault, const std::string &timeout_s)
{
    return RunDetour(Pipeline({"--plugin", kFaultyPlugin, "--timeout", timeout_s}),
                     {{"DETOUR_TEST_INNER_PLUGIN", kTcpPlugin}, {"DETOUR_TEST_FAULT", fault}});
}
} // namespace

TEST(Pipeline, EveryModeRuns)
{
    for (const char *mode : {"nccl", "hostpath", "delegated"}) {
        Outcome outcome = RunDetour(Pipeline({"--mode", mode}));
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        EXPECT_EQ(Rows(outcome.out), 3u) << outcome.out;
        EXPECT_NE(outcome.out.find("every message had the expected identity and content"), std::string::npos);
    }
}

TEST(Pipeline, DevicesWithTwoStagesRunToo)
{
    for (const char *schedule : {"zb-v", "interleaved"}) {
        Outcome outcome = RunDetour(Pipeline({"--schedule", schedule, "-n", "2"}));
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        EXPECT_EQ(Rows(outcome.out), 2u) << outcome.out;
    }
}

/* The files of the schedule library: unequal stages, two on each device, delays of links. */
TEST(Pipeline, AProfileAndItsScheduleRun)
{
    const std::string golden = DETOUR_SOURCE_DIR "/tests/sched/golden/";
    Outcome outcome = RunDetour(
        {"pipeline", "--profile", golden + "v.profile.json", "--plan", golden + "v.json", "-n", "2"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(Rows(outcome.out), 2u) << outcome.out;
    EXPECT_NE(outcome.out.find("schedule of --plan"), std::string::npos) << outcome.out;
    outcome = RunDetour({"pipeline", "--profile", golden + "pair.profile.json", "-n", "2"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    outcome = RunDetour({"pipeline", "--profile", golden + "pair.profile.json", "--plan", golden + "v.json"});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(LineCount(outcome.err), 1u) << outcome.err;
}

TEST(Pipeline, MessagesGoInSlices)
{
    Outcome outcome = RunDetour(Pipeline({"--mode", "nccl", "--payload", "1M", "--slice", "64K"}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

/* A slow link costs at least its delay once in each direction: the model counts it. */
TEST(Pipeline, ALinkIsSlowForSomeIterations)
{
    std::string path = (std::filesystem::temp_directory_path() / "detour-pipeline-XXXXXX").string();
    ASSERT_GE(close(mkstemp(path.data())), 0);
    Outcome outcome = RunDetour(Pipeline({"--slow-link", "0-1=100ms,from=1,to=2", "--json", path}));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    json_t *document = json_load_file(path.c_str(), 0, nullptr);
    json_t *iterations = json_object_get(document, "iterations");
    ASSERT_EQ(json_array_size(iterations), 3u);
    auto number = [&](size_t i, const char *key) {
        return json_real_value(json_object_get(json_array_get(iterations, i), key));
    };
    EXPECT_GE(number(1, "model_ms"), number(0, "model_ms") + 200);
    EXPECT_EQ(number(2, "model_ms"), number(0, "model_ms"));
    /* The messages were held: the injected delay is a lower bound, whatever the machine does. */
    EXPECT_GE(number(1, "time_ms"), 200);
    json_decref(document);
    std::filesystem::remove(path);
}

/* The JSON of a run on four devices; the caller releases the document. */
json_t *RunFour(const Words &more)
{
    std::string path = (std::filesystem::temp_directory_path() / "detour-pipeline-XXXXXX").string();
    EXPECT_GE(close(mkstemp(path.data())), 0);
    Words words = {"pipeline", "--times", "3,3,3", "--json", path};
    words.insert(words.end(), more.begin(), more.end());
    Outcome outcome = RunDetour(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    json_t *document = json_load_file(path.c_str(), 0, nullptr);
    std::filesystem::remove(path);
    return document;
}

/*
 * The plugin finds the link slow, and all ranks change to a schedule that suits it. On a busy machine it may
 * find other links slow as well, so the schedules are compared by the model, not by their times.
 */
TEST(PipelineLoop, ASlowLinkChangesTheSchedule)
{
    json_t *fixed = RunFour({"-n", "1", "--slow-link", "2-3=30ms"});
    json_t *adapted = RunFour({"-n", "80", "--slow-link", "2-3=30ms,from=20", "--adapt", "iteration"});
    json_t *first = json_array_get(json_object_get(fixed, "iterations"), 0);
    json_t *last = json_array_get(json_object_get(adapted, "iterations"), 79);
    EXPECT_EQ(json_integer_value(json_object_get(first, "schedule")), 0);
    EXPECT_GE(json_integer_value(json_object_get(last, "schedule")), 1);
    EXPECT_LT(json_real_value(json_object_get(last, "model_ms")),
              json_real_value(json_object_get(first, "model_ms")));
    json_decref(fixed);
    json_decref(adapted);
}

TEST(Pipeline, APlantedCorruptionIsNoticed)
{
    Outcome outcome = RunFaulty("flips-a-bit", "20");
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(LineCount(outcome.err), 1u) << outcome.err;
    EXPECT_NE(outcome.err.find("from stage"), std::string::npos) << outcome.err;
    outcome = RunFaulty("repeats-old-data", "20");
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_NE(outcome.err.find("has arrived in the place of"), std::string::npos) << outcome.err;
    outcome = RunFaulty("wrong-size", "20");
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_NE(outcome.err.find("bytes instead of"), std::string::npos) << outcome.err;
}

TEST(Pipeline, ADeadRankEndsTheRun)
{
    Outcome outcome = RunFaulty("dies", "50");
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(LineCount(outcome.err), 1u) << outcome.err;
    EXPECT_NE(outcome.err.find("was killed by signal 9"), std::string::npos) << outcome.err;
}

TEST(Pipeline, AStallIsNamed)
{
    Outcome outcome = RunFaulty("never-sends", "5");
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_NE(outcome.err.find("no progress for 5 s while executing iteration 0"), std::string::npos)
        << outcome.err;
}

TEST(Pipeline, AnInterruptLeavesNoProcess)
{
    Command command({"pipeline", "--devices", "2", "--times", "1,1,1", "-n", "1000000"});
    while (Rows(command.Written()) < 2 && command.IsRunning())
        usleep(1000);
    std::vector<pid_t> children = command.Children();
    ASSERT_EQ(children.size(), 2u);
    kill(command.Pid(), SIGINT);
    Outcome outcome = command.Wait();
    EXPECT_EQ(outcome.signal_number, SIGINT);
    for (pid_t child : children)
        EXPECT_NE(kill(child, 0), 0) << "process " << child << " is left";
}

/* An RNIC fails in the middle of an iteration and comes back: all iterations are there, and all messages
 * right. */
TEST(Pipeline, AnRnicFailsWithoutLosingAnIteration)
{
    Outcome outcome = RunDetour({"pipeline", "--devices", "2", "--microbatches", "8", "--times", "2,2,2",
                                 "-n", "8", "--kill", "soft0@iteration=2,back=5"},
                                {{"DETOUR_VERBS", "soft"}, {"NCCL_DEBUG", "INFO"}});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(Rows(outcome.out), 8u) << outcome.out;
    EXPECT_NE(outcome.err.find("[path-settled]"), std::string::npos) << "no path has failed: " << outcome.err;
    EXPECT_NE(outcome.out.find("soft0 fails: "), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("soft0 is back"), std::string::npos) << outcome.out;
}

TEST(Pipeline, ABadOptionIsOneLine)
{
    for (const Words &words : std::vector<Words>{{"--slow-link", "3-9=1ms"},
                                                 {"--kill", "soft9@iteration=1"},
                                                 {"--plugin", "/missing.so"},
                                                 {"--json", "/missing/file"}}) {
        Words all = {"pipeline", "--microbatches", "4"};
        all.insert(all.end(), words.begin(), words.end());
        Outcome outcome = RunDetour(all);
        EXPECT_EQ(outcome.exit_code, 2) << words[1];
        EXPECT_EQ(LineCount(outcome.err), 1u) << outcome.err;
    }
}
