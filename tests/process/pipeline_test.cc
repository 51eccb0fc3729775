/* SPDX-License-Identifier: Apache-2.0 */
/* `detour pipeline` as a user meets it. Only outcomes are checked, never times. */
#include <gtest/gtest.h>
#include <jansson.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/process/command.h"

using detour_test::Await;
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

/* No message fits into this pool, and every one arrives. The pool that the runner chooses holds all. */
TEST(Pipeline, AFullPoolIsNamed)
{
    const std::string line = "# the staging memory was full for ";
    Outcome outcome =
        RunDetour(Pipeline({"--mode", "hostpath", "--payload", "32K"}), {{"DETOUR_HOSTPATH_BYTES", "4K"}});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find(line), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("  pool full: "), std::string::npos) << outcome.out;
    outcome = RunDetour(Pipeline({"--mode", "hostpath", "--payload", "32K"}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.out.find(line), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find(" messages went over the host path"), std::string::npos) << outcome.out;
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

/* The number of a key of an iteration of `document`. */
double Number(json_t *document, size_t iteration, const char *key)
{
    return json_number_value(
        json_object_get(json_array_get(json_object_get(document, "iterations"), iteration), key));
}

/* Three replicas, gradients of several slices, a slow link between two of the replicas. */
TEST(Pipeline, ReplicasSumUpTheirGradients)
{
    std::string path = (std::filesystem::temp_directory_path() / "detour-pipeline-XXXXXX").string();
    ASSERT_GE(close(mkstemp(path.data())), 0);
    Outcome outcome =
        RunDetour(Pipeline({"--dp", "3", "--gradients", "2M", "--slow-link", "1@0-1@1=100ms,from=1,to=2",
                            "--slow-device", "0@2=1.5x", "--json", path}));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("every gradient was the sum over the replicas"), std::string::npos);
    json_t *document = json_load_file(path.c_str(), 0, nullptr);
    EXPECT_GE(Number(document, 1, "model_ms"), 200);
    EXPECT_LT(Number(document, 0, "model_ms"), 100);
    /* Two steps of a chunk cross the slow link: a lower bound, whatever the machine does. */
    EXPECT_GE(Number(document, 1, "time_ms"), 200);
    EXPECT_EQ(Number(document, 2, "model_ms"), Number(document, 0, "model_ms"));
    json_decref(document);
    std::filesystem::remove(path);
}

/* Ranks of two devices exchange their positions, through the plugin and through files, and exchange back. A
 * link between two replicas is slow: the exchange takes it into a pipeline, where the model has it, too.
 * Every gradient and every parameter is compared with what a run without exchanges has. */
TEST(Pipeline, RanksExchangeTheirPositions)
{
    namespace fs = std::filesystem;
    std::string path = (fs::temp_directory_path() / "detour-pipeline-XXXXXX").string();
    std::string folder = (fs::temp_directory_path() / "detour-pipeline-XXXXXX").string();
    ASSERT_GE(close(mkstemp(path.data())), 0);
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    for (const std::string &through : {std::string(), ",through=" + folder}) {
        Outcome outcome =
            RunDetour(Pipeline({"-n", "4", "--dp", "2", "--gradients", "3M", "--slow-link", "0@0-0@1=20ms",
                                "--exchange", "1-2@1" + through, "--exchange", "2-1@3", "--json", path}));
        ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
        EXPECT_NE(outcome.out.find("every parameter is what a run without exchanges has"), std::string::npos);
        EXPECT_TRUE(fs::is_empty(folder));
        json_t *document = json_load_file(path.c_str(), 0, nullptr);
        EXPECT_GT(Number(document, 1, "begin_ms"), Number(document, 0, "begin_ms"));
        EXPECT_EQ(Number(document, 0, "pause_ms"), 0);
        EXPECT_GT(Number(document, 1, "pause_ms"), 0);
        EXPECT_EQ(Number(document, 2, "pause_ms"), 0);
        EXPECT_GT(Number(document, 3, "pause_ms"), 0);
        EXPECT_NE(Number(document, 1, "model_ms"), Number(document, 0, "model_ms"));
        EXPECT_EQ(Number(document, 2, "model_ms"), Number(document, 1, "model_ms"));
        EXPECT_EQ(Number(document, 3, "model_ms"), Number(document, 0, "model_ms"));
        json_decref(document);
    }
    Outcome outcome = RunDetour(Pipeline({"--dp", "2", "--exchange", "1-2@1,through=" + folder + "/none"}));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
    EXPECT_EQ(LineCount(outcome.err), 1u) << outcome.err;
    EXPECT_NE(outcome.err.find("could not be created: No such file or directory"), std::string::npos)
        << outcome.err;
    EXPECT_EQ(outcome.out.find("\n "), std::string::npos) << "an iteration before the refusal";
    for (const char *wrong : {"1-2", "0-4@1", "1-2@3"}) {
        outcome = RunDetour(Pipeline({"--dp", "2", "--exchange", wrong}));
        EXPECT_EQ(outcome.exit_code, 2) << wrong;
        EXPECT_EQ(LineCount(outcome.err), 1u) << outcome.err;
    }
    outcome =
        RunDetour(Pipeline({"--dp", "2", "--exchange", "1-2@1,through=a", "--exchange", "1-2@2,through=a"}));
    EXPECT_EQ(outcome.err, "detour pipeline: --exchange 1-2@2,through=a: expected A-B@N[,through=DIR]: two "
                           "ranks, N from 1 on and "
                           "not below that of the last one, DIR once, 64 exchanges at most\n");
    fs::remove(path);
    fs::remove(folder);
}

/* A slow replica has fewer microbatches from an iteration on. Every gradient is compared with the sum over
 * the global batch, whoever has executed its microbatches. */
TEST(Pipeline, ReplicasHaveTheirOwnMicrobatches)
{
    std::string path = (std::filesystem::temp_directory_path() / "detour-pipeline-XXXXXX").string();
    ASSERT_GE(close(mkstemp(path.data())), 0);
    Outcome outcome =
        RunDetour(Pipeline({"--dp", "2", "--slow-device", "0@1=3x", "--dp-microbatches", "4,4",
                            "--dp-microbatches", "6,2@1", "--dp-microbatches", "7,1@2", "--json", path}));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(
        outcome.out.find("# microbatches of the replicas: 4,4; from iteration 1 on 6,2; from iteration 2 "
                         "on 7,1\n"),
        std::string::npos)
        << outcome.out;
    EXPECT_NE(outcome.out.find("every gradient was the sum over the replicas"), std::string::npos);
    json_t *document = json_load_file(path.c_str(), 0, nullptr);
    EXPECT_GE(Number(document, 0, "model_ms"), 4 * 9);
    EXPECT_LT(Number(document, 1, "model_ms"), 6 * 3 + 2 * 3);
    EXPECT_GE(Number(document, 2, "time_ms"), 7 * 3) << "a replica computes for so long";
    EXPECT_EQ(
        json_integer_value(json_array_get(
            json_object_get(json_array_get(json_object_get(document, "dp_microbatches"), 1), "microbatches"),
            1)),
        2);
    json_decref(document);
    std::filesystem::remove(path);
}

/* With one device per replica, gradients are the only messages. */
TEST(Pipeline, AWrongGradientIsNoticed)
{
    const Words words = {"pipeline", "--devices", "1",  "--dp", "2",        "--microbatches", "2",
                         "--times",  "1,1,1",     "-n", "3",    "--plugin", kFaultyPlugin};
    for (const char *fault : {"flips-a-bit", "repeats-old-data"}) {
        Outcome outcome =
            RunDetour(words, {{"DETOUR_TEST_INNER_PLUGIN", kTcpPlugin}, {"DETOUR_TEST_FAULT", fault}});
        EXPECT_EQ(outcome.exit_code, 1);
        EXPECT_EQ(LineCount(outcome.err), 1u) << outcome.err;
        EXPECT_NE(outcome.err.find("are not the sum over the replicas at byte"), std::string::npos)
            << fault << ": " << outcome.err;
    }
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

/* The JSON of a run; the caller releases the document. */
json_t *Result(Words words)
{
    std::string path = (std::filesystem::temp_directory_path() / "detour-pipeline-XXXXXX").string();
    EXPECT_GE(close(mkstemp(path.data())), 0);
    words.insert(words.end(), {"--json", path});
    Outcome outcome = RunDetour(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    json_t *document = json_load_file(path.c_str(), 0, nullptr);
    std::filesystem::remove(path);
    return document;
}

/* On four devices. */
json_t *RunJson(const Words &more)
{
    Words words = {"pipeline", "--times", "3,3,3"};
    words.insert(words.end(), more.begin(), more.end());
    return Result(words);
}

/* A trace: the same delays as by --slow-link, and the failure of the first RNIC at its end. */
TEST(Pipeline, ReplaysATrace)
{
    std::string path = (std::filesystem::temp_directory_path() / "detour-pipeline-XXXXXX").string();
    ASSERT_GE(close(mkstemp(path.data())), 0);
    std::ofstream(path) << "1;0_1;100ms\n2;0_1;0\n3;;inf\n";
    json_t *document = Result(Pipeline({"--trace", path, "-n", "5"}));
    json_t *iterations = json_object_get(document, "iterations");
    ASSERT_EQ(json_array_size(iterations), 5u) << "no iteration is lost";
    auto number = [&](size_t i, const char *key) {
        return json_real_value(json_object_get(json_array_get(iterations, i), key));
    };
    EXPECT_GE(number(1, "time_ms"), 200) << "held twice, there and back";
    EXPECT_GE(number(1, "model_ms"), number(0, "model_ms") + 200);
    EXPECT_EQ(number(2, "model_ms"), number(0, "model_ms"));
    json_decref(document);
    std::filesystem::remove(path);
    Outcome outcome = RunDetour(Pipeline({"--trace", path}));
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(LineCount(outcome.err), 1u) << outcome.err;
}

/* Pictures of a run: every operation and message of the chosen iteration, in all files. */
TEST(Pipeline, DrawsWhatItHasMeasured)
{
    std::filesystem::path folder = std::filesystem::temp_directory_path() / "detour-pipeline-XXXXXX";
    std::string name = folder.string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    Outcome outcome =
        RunDetour(Pipeline({"--svg", name + "/a.svg", "--perfetto", name + "/a.json", "--json",
                            name + "/b.json", "--timeline", "1", "--slow-link", "0-1=50ms,from=1,to=2"}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    json_t *trace = json_load_file((name + "/a.json").c_str(), 0, nullptr);
    EXPECT_GT(json_array_size(json_object_get(trace, "traceEvents")), 2u * 24) << "24 operations, twice";
    json_t *result = json_load_file((name + "/b.json").c_str(), 0, nullptr);
    json_t *timeline = json_object_get(result, "timeline");
    EXPECT_EQ(json_array_size(json_object_get(timeline, "operations")), 24u);
    json_t *messages = json_object_get(timeline, "messages"), *message;
    size_t i;
    EXPECT_EQ(json_array_size(messages), 8u);
    json_array_foreach(messages, i, message)
            EXPECT_GE(json_real_value(json_object_get(message, "arrived_ms")),
                      json_real_value(json_object_get(message, "sent_ms")) + 50)
        << "each is held for 50 ms";
    json_decref(trace);
    json_decref(result);
    std::ifstream file(name + "/a.svg");
    std::string svg((std::istreambuf_iterator<char>(file)), {});
    EXPECT_NE(svg.find(">measured<"), std::string::npos) << svg.substr(0, 1000);
    EXPECT_NE(svg.find(">predicted<"), std::string::npos);
    std::filesystem::remove_all(name);
}

bool HasFlow(const json_t *iteration, const char *list, int from, int to)
{
    json_t *flow;
    size_t i;
    json_array_foreach(json_object_get(iteration, list), i, flow)
    {
        if (json_integer_value(json_object_get(flow, "from")) == from &&
            json_integer_value(json_object_get(flow, "to")) == to)
            return true;
    }
    return false;
}

/*
 * In the mode nccl the flows of a slow link go over the host path from an agreed iteration on: every message
 * of theirs, and none before. (A busy machine may make other flows slow too.)
 */
TEST(PipelineLoop, ASlowLinkTurnsTheHostPathOnByOrder)
{
    json_t *document = RunJson({"--devices", "2", "--microbatches", "8", "-n", "30", "--mode", "nccl",
                                "--slow-link", "0-1=100ms,from=6", "--adapt", "iteration"});
    json_t *iteration;
    bool is_seen = false;
    size_t i;
    json_array_foreach(json_object_get(document, "iterations"), i, iteration)
    {
        size_t flows = json_array_size(json_object_get(iteration, "hostpath"));
        json_int_t staged = json_integer_value(json_object_get(iteration, "staged_messages"));
        EXPECT_EQ(staged, (json_int_t)(8 * flows)) << "iteration " << i;
        is_seen |= HasFlow(iteration, "hostpath", 0, 1);
    }
    EXPECT_TRUE(is_seen);
    json_decref(document);
}

/*
 * The plugin finds the link slow, and all ranks change to a schedule that suits it. On a busy machine it may
 * find other links slow as well, so the schedules are compared by the model, not by their times.
 */
TEST(PipelineLoop, ASlowLinkChangesTheSchedule)
{
    json_t *fixed = RunJson({"-n", "1", "--slow-link", "2-3=30ms"});
    json_t *adapted = RunJson({"-n", "80", "--slow-link", "2-3=30ms,from=20", "--adapt", "iteration"});
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
    while (Rows(command.Output()) < 2 && command.IsRunning())
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

namespace
{
/* A process in one reading of `detour stat --json`. */
struct Reading {
    int rank;
    double iterations, iteration_ms, compute_ms;
};

void ReadPace(const std::vector<std::pair<std::string, std::string>> &environment,
              std::vector<Reading> *readings)
{
    json_t *document = json_loads(RunDetour({"stat", "--json"}, environment).out.c_str(), 0, nullptr),
           *process;
    size_t i;
    json_array_foreach(json_object_get(document, "processes"), i, process)
    {
        json_t *pace = json_object_get(process, "pace");
        readings->push_back({static_cast<int>(json_number_value(json_object_get(process, "rank"))),
                             json_number_value(json_object_get(pace, "iterations")),
                             json_number_value(json_object_get(pace, "iteration_ms")),
                             json_number_value(json_object_get(pace, "compute_ms"))});
    }
    json_decref(document);
}

double Median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[values.size() / 2];
}

/* Of the readings of a rank while it counted these iterations. */
double MedianOf(const std::vector<Reading> &readings, int rank, double from, double to,
                double Reading::*value)
{
    std::vector<double> values;
    for (const Reading &reading : readings) {
        if (reading.rank == rank && reading.iterations >= from && reading.iterations <= to &&
            reading.*value > 0)
            values.push_back(reading.*value);
    }
    return Median(values);
}
} // namespace

/*
 * `detour stat` beside the runner's own measurement of the same iterations. Device 1 computes three times as
 * long from iteration 40 on. The process counts an iteration once it has found their rhythm, at most twelve
 * later than the runner.
 */
TEST(PipelineLoop, StatHasTheTimeOfTheIterationsAndFindsTheSlowDevice)
{
    std::string folder = (std::filesystem::temp_directory_path() / "detour-pace-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    const std::vector<std::pair<std::string, std::string>> environment = {{"DETOUR_RUNTIME_DIR", folder}};
    const std::string path = folder + "/run.json";
    std::vector<Reading> readings;
    {
        Command run({"pipeline", "--devices", "3", "--microbatches", "4", "--times", "4,4,4", "-n", "80",
                     "--schedule", "1f1b", "--slow-device", "1=3x,from=40", "--json", path},
                    environment);
        while (run.IsRunning()) {
            ReadPace(environment, &readings);
            usleep(200000);
        }
        Outcome outcome = run.Wait();
        ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    }
    json_t *document = json_load_file(path.c_str(), 0, nullptr);
    std::vector<double> before, after;
    for (size_t i = 5; i < 80; i++)
        (i < 40 ? before : after).push_back(Number(document, i, "time_ms"));
    json_decref(document);
    std::filesystem::remove_all(folder);
    for (int rank = 0; rank < 3; rank++) {
        double healthy_ms = MedianOf(readings, rank, 3, 27, &Reading::iteration_ms);
        double slow_ms = MedianOf(readings, rank, 42, 1e9, &Reading::iteration_ms);
        printf("rank %d: iteration %.2f ms (runner %.2f, error %.1f%%), then %.2f ms (runner %.2f, error "
               "%.1f%%); "
               "computing gap %.2f ms, then %.2f ms\n",
               rank, healthy_ms, Median(before), 100 * (healthy_ms / Median(before) - 1), slow_ms,
               Median(after), 100 * (slow_ms / Median(after) - 1),
               MedianOf(readings, rank, 3, 27, &Reading::compute_ms),
               MedianOf(readings, rank, 42, 1e9, &Reading::compute_ms));
        EXPECT_NEAR(slow_ms, Median(after), Median(after) / 2)
            << "a wrong period is a multiple or a fraction";
    }
    double healthy_ms = MedianOf(readings, 1, 3, 27, &Reading::compute_ms);
    ASSERT_GT(healthy_ms, 0);
    EXPECT_GT(MedianOf(readings, 1, 42, 1e9, &Reading::compute_ms), 1.5 * healthy_ms);
}
