/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `detour perf --pairs` with ranks as processes. Times are whatever the machine makes of them: checked is
 * what holds for all times. tests/cli/perf/pairs_judge_test.cc names slow links and ranks by given times.
 */
#include <gtest/gtest.h>
#include <jansson.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "cli/perf/pairs_report.h"
#include "cli/validation.h"
#include "tests/harness/free_address.h"
#include "tests/process/command.h"

using detour_test::Await;
using detour_test::Command;
using detour_test::FreeAddress;
using detour_test::LineCount;
using detour_test::Outcome;
using detour_test::RunDetour;

namespace
{
using Words = std::vector<std::string>;

const char kTcpPlugin[] = DETOUR_BINARY_DIR "/bench/libnccl-net-benchtcp.so";
const char kFaultyPlugin[] = DETOUR_BINARY_DIR "/tests/libfaulty-plugin.so";

class Pairs : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        std::string pattern = (std::filesystem::temp_directory_path() / "detour-pairs-XXXXXX").string();
        folder = mkdtemp(pattern.data());
        arena = detour_arena_create();
    }
    void TearDown() override
    {
        json_decref(document);
        detour_arena_destroy(arena);
        std::filesystem::remove_all(folder);
    }
    std::vector<std::pair<std::string, std::string>> Environment(const std::string &rules) const
    {
        return {{"DETOUR_RUNTIME_DIR", folder + "/run"},
                {"DETOUR_VERBS", "soft"},
                {"DETOUR_SOCKET_IFNAME", "=lo"},
                {"DETOUR_INJECT", rules}};
    }
    /* A validation with -J; the last rank's messages have a delay, so that mostly a further validation
     * follows. */
    void Validate(const std::string &plan, int ranks)
    {
        plan_name = plan; /* options.pairs outlives the argument */
        options.pairs = plan_name.c_str();
        options.job.ranks = static_cast<unsigned>(ranks);
        options.slow_permille = 1100;
        Words words = {"perf",  "--pairs",      plan,          "--ranks", std::to_string(ranks),
                       "-b",    "4K",           "-n",          "3",       "--timeout",
                       "120",   "--rendezvous", FreeAddress(), "-J",      folder + "/result.json",
                       "--rank"};
        std::vector<std::unique_ptr<Command>> others;
        auto of_rank = [&](int rank) {
            Words own = words;
            own.push_back(std::to_string(rank));
            return own;
        };
        for (int rank = 1; rank < ranks; rank++)
            others.push_back(std::make_unique<Command>(of_rank(rank),
                                                       Environment(rank == ranks - 1 ? "latency=30ms" : "")));
        Outcome outcome = RunDetour(of_rank(0), Environment(""));
        EXPECT_EQ(0, outcome.exit_code) << outcome.err;
        for (auto &other : others)
            EXPECT_EQ(0, other->Wait().exit_code);
        out = outcome.out;
        document = json_load_file((folder + "/result.json").c_str(), 0, nullptr);
        ASSERT_NE(nullptr, document);
        ReadTimes();
    }
    int64_t Number(const json_t *object, const char *key, double unit_ns) const
    {
        return std::llround(json_number_value(json_object_get(object, key)) * unit_ns);
    }
    uint32_t ReadPairs(const char *list, int64_t *ns)
    {
        uint32_t count = 0;
        const json_t *pair;
        size_t i;

        json_array_foreach(json_object_get(document, list), i, pair) ns[count++] =
            Number(pair, "time_ms", 1e6);
        return count;
    }
    void ReadTimes()
    {
        const json_t *compute = json_object_get(document, "compute_ms");

        times.pair_count = ReadPairs("pairs", times.pair_ns);
        times.confirm_count = ReadPairs("confirm", times.confirm_ns);
        ASSERT_EQ(options.job.ranks, json_array_size(compute));
        for (unsigned rank = 0; rank < options.job.ranks; rank++)
            times.compute_ns[rank] = std::llround(json_number_value(json_array_get(compute, rank)) * 1e6);
        times.is_gemm = !strcmp(json_string_value(json_object_get(document, "compute")), "gemm");
        snprintf(times.compute_text, sizeof times.compute_text, "%s",
                 json_string_value(json_object_get(document, "compute_with")));
        times.setup_ns = Number(document, "setup_s", 1e9);
        times.exchange_ns = Number(document, "exchange_s", 1e9);
    }
    /* The pairs of the document are those of the plan, each with a time, and no rank has two pairs of a pass.
     */
    void ExpectPairs(const char *list, const detour_validation *plan, const int64_t *ns)
    {
        const json_t *pairs = json_object_get(document, list);
        std::set<std::pair<int64_t, int64_t>> busy; /* pass and rank */

        ASSERT_EQ(static_cast<size_t>(plan->pair_count), json_array_size(pairs)) << list;
        for (int32_t i = 0; i < plan->pair_count; i++) {
            const json_t *pair = json_array_get(pairs, static_cast<size_t>(i));
            int64_t pass = Number(pair, "pass", 1), from = Number(pair, "from", 1),
                    to = Number(pair, "to", 1);

            EXPECT_EQ(plan->pairs[i].from, from) << list << " " << i;
            EXPECT_EQ(plan->pairs[i].to, to) << list << " " << i;
            EXPECT_TRUE(busy.emplace(pass, from).second) << "rank " << from << " twice in pass " << pass;
            EXPECT_TRUE(busy.emplace(pass, to).second) << "rank " << to << " twice in pass " << pass;
            EXPECT_GT(ns[i], 0);
        }
    }
    /* The diagnosis in the document and the text of the command are those of the document's own times. */
    void ExpectDiagnosisOfItsTimes()
    {
        dt_perf_pairs_times first = times;
        detour_error error = {};
        const json_t *slow = json_object_get(document, "slow");

        first.confirm_count = 0;
        ASSERT_EQ(DETOUR_OK, dt_perf_pairs_judge(arena, options.pairs, options.job.ranks,
                                                 options.slow_permille, &first, &result, &error));
        ExpectPairs("pairs", result.plan, times.pair_ns);
        EXPECT_EQ(result.confirm != nullptr, times.confirm_count > 0)
            << "a further validation is made if needed";
        if (result.confirm)
            ExpectPairs("confirm", result.confirm, times.confirm_ns);
        ASSERT_EQ(DETOUR_OK, dt_perf_pairs_judge(arena, options.pairs, options.job.ranks,
                                                 options.slow_permille, &times, &result, &error));
        ASSERT_EQ(static_cast<size_t>(result.diagnosis.slow_count), json_array_size(slow)) << out;
        for (int32_t i = 0; i < result.diagnosis.slow_count; i++) {
            const detour_slow &expected = result.diagnosis.slow[i];
            const json_t *found = json_array_get(slow, static_cast<size_t>(i));

            EXPECT_STREQ(dt_validation_kind_name(expected.kind),
                         json_string_value(json_object_get(found, "kind")));
            EXPECT_EQ(expected.rank, Number(found, "rank", 1));
            if (expected.kind == DETOUR_SLOW_LINK)
                EXPECT_EQ(expected.peer, Number(found, "peer", 1));
            else
                EXPECT_TRUE(json_is_null(json_object_get(found, "peer")));
            EXPECT_EQ(expected.factor_permille, Number(found, "factor", 1000));
        }
        EXPECT_EQ(result.diagnosis.ambiguous, json_is_true(json_object_get(document, "ambiguous")));
        EXPECT_EQ(Printed(), out);
    }
    std::string Printed() const
    {
        char *text = nullptr;
        size_t bytes = 0;
        FILE *file = open_memstream(&text, &bytes);

        dt_perf_pairs_print(file, &options, &times, &result);
        fclose(file);
        std::string made = text;
        free(text);
        return made;
    }

    std::string folder, out, plan_name;
    json_t *document = nullptr;
    detour_arena *arena = nullptr;
    dt_perf_options options = {};
    dt_perf_pairs_times times = {};
    dt_perf_pairs_result result = {};
};

TEST_F(Pairs, ARingOfFiveRanksIsDiagnosedByItsTimes)
{
    Validate("ring", 5);
    ExpectDiagnosisOfItsTimes();
    std::set<std::pair<int, int>> links;
    for (int32_t i = 0; i < result.plan->pair_count; i++)
        links.emplace(result.plan->pairs[i].from, result.plan->pairs[i].to);
    EXPECT_EQ((std::set<std::pair<int, int>>{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 0}}), links);
}

TEST_F(Pairs, ATreeOfFourRanksIsDiagnosedByItsTimes)
{
    Validate("tree", 4);
    ExpectDiagnosisOfItsTimes();
}

/* All ranks compute with the GPU, a double here, or none does: their times are compared. */
TEST_F(Pairs, TheGpuComputesWhereEveryRankHasOne)
{
    const std::string gpu = DETOUR_BINARY_DIR "/tests/fake-gpu";
    auto environment = Environment("");

    environment.emplace_back("DETOUR_CUDA_LIB", gpu + "/libcublas.so.13");
    environment.emplace_back("LD_LIBRARY_PATH", gpu);
    const Words words = {"perf", "--pairs", "ring", "--ranks",      "2",           "-b",
                         "4K",   "-n",      "3",    "--rendezvous", FreeAddress(), "--rank"};
    auto of_rank = [&](const char *rank) {
        Words own = words;
        own.push_back(rank);
        return own;
    };
    for (bool has_all : {true, false}) {
        Command other(of_rank("1"), has_all ? environment : Environment(""));
        Outcome outcome = RunDetour(of_rank("0"), environment);
        EXPECT_EQ(0, outcome.exit_code) << outcome.err;
        EXPECT_EQ(0, other.Wait().exit_code);
        const char *line = has_all
                               ? "compute: products of 4096 x 4096 floats on the GPU, by libcublas.so.13\n"
                               : "compute: a loop on the processor: rank 1: no CUDA driver: ";
        EXPECT_NE(std::string::npos, outcome.out.find(line)) << outcome.out;
        EXPECT_EQ(has_all, outcome.out.find("TFLOP/s") != std::string::npos) << outcome.out;
    }
}

TEST_F(Pairs, WrongDataIsAnError)
{
    Outcome outcome =
        RunDetour({"perf", "--pairs", "ring", "--ranks", "3", "-b", "4K", "--plugin", kFaultyPlugin},
                  {{"DETOUR_TEST_INNER_PLUGIN", kTcpPlugin}, {"DETOUR_TEST_FAULT", "flips-a-bit"}});
    EXPECT_EQ(1, outcome.exit_code) << outcome.out;
    EXPECT_EQ(1u, LineCount(outcome.err)) << outcome.err;
    EXPECT_NE(std::string::npos, outcome.err.find("arrived with wrong data")) << outcome.err;
}

/* The lines that the command writes, without those that it repeats from its ranks. */
std::string WithoutRanks(const std::string &err)
{
    std::istringstream lines(err);
    std::string own;
    for (std::string line; std::getline(lines, line);)
        own += line.rfind("# rank ", 0) == 0 ? "" : line + "\n";
    return own;
}

/* Without the end of a rank the exchange would last for hours. */
TEST_F(Pairs, ADeadRankIsAnError)
{
    Command command({"perf", "--pairs", "ring", "--ranks", "3", "-b", "4K", "-n", "10000"},
                    Environment("latency=2s"));
    std::vector<pid_t> ranks;
    ASSERT_TRUE(Await([&] { return (ranks = command.Children()).size() == 3; }));
    kill(ranks[2], SIGKILL);
    Outcome outcome = command.Wait();
    EXPECT_EQ(1, outcome.exit_code);
    /* A rank that was still connecting warns that its peer has ended; the command's own line is one. */
    EXPECT_EQ("detour perf: rank 2 (pid " + std::to_string(ranks[2]) + ") was killed by signal 9 (Killed)\n",
              WithoutRanks(outcome.err));
}

/* More ranks than have rows of their own, all started by one command; their times are in the document. */
class ManyPairs : public Pairs
{
};

TEST_F(ManyPairs, AJobOfNinetySixRanksIsValidated)
{
    plan_name = "ring";
    options.pairs = plan_name.c_str();
    options.job.ranks = 96;
    options.slow_permille = 1000000; /* nothing is slow, as far as a test can tell */
    Outcome outcome = RunDetour({"perf", "--pairs", "ring", "--ranks", "96", "-b", "4K", "-n", "1", "-w", "0",
                                 "--slow", "1000", "--timeout", "120", "-J", folder + "/result.json"},
                                Environment(""));
    ASSERT_EQ(0, outcome.exit_code) << outcome.err;
    out = outcome.out;
    document = json_load_file((folder + "/result.json").c_str(), 0, nullptr);
    ASSERT_NE(nullptr, document);
    ReadTimes();
    ExpectDiagnosisOfItsTimes();
    EXPECT_EQ(96, result.plan->pair_count);
    EXPECT_NE(std::string::npos, out.find("\npair: 96 times up to 1000.00 medians of ")) << out;
}

TEST_F(ManyPairs, MessagesGoAroundARingOfSeventyRanks)
{
    Outcome outcome = RunDetour({"perf", "sendrecv", "--ranks", "70", "-b", "1K", "-n", "1", "-w", "0",
                                 "--channels", "1", "--timeout", "120"},
                                Environment(""));
    EXPECT_EQ(0, outcome.exit_code) << outcome.err;
    EXPECT_NE(std::string::npos, outcome.out.find("\n#  Rank 69 Pid ")) << outcome.out;
    EXPECT_NE(std::string::npos, outcome.out.find("# Out of bounds values : 0 OK\n")) << outcome.out;
}

TEST_F(Pairs, BadOptionsAreOneLine)
{
    for (const Words &words : {Words{"--pairs", "star"}, Words{"--pairs", "ring", "--ranks", "1"},
                               Words{"--pairs", "ring", "-b", "8"}, Words{"--pairs", "ring", "--slow", "1"},
                               Words{"--pairs", "ring", "--ranks", "1025"},
                               Words{"all_reduce", "--pairs", "ring"}, Words{"all_reduce", "--slow", "2"}}) {
        Words all = words;
        all.insert(all.begin(), "perf");
        Outcome outcome = RunDetour(all);
        EXPECT_EQ(2, outcome.exit_code) << words.back();
        EXPECT_EQ(1u, LineCount(outcome.err)) << outcome.err;
    }
}

/* FALCON's first half: hold the job, validate, release it. */
TEST_F(Pairs, AHeldJobDoesNotHoldTheValidation)
{
    Command job({"perf", "sendrecv", "-b", "64K", "-n", "4000000000", "--channels", "1", "--timeout", "120"},
                Environment(""));
    EXPECT_TRUE(Await([&] { return RunDetour({"hold", "--for=10min"}, Environment("")).exit_code == 0; }));
    Outcome tree = RunDetour({"perf", "--pairs", "tree", "--ranks", "3", "-b", "4K"}, Environment(""));
    EXPECT_EQ(0, tree.exit_code) << tree.err;
    EXPECT_NE(std::string::npos, tree.out.find("\ntook: ")) << tree.out;
    EXPECT_TRUE(job.IsRunning());
    Outcome release = RunDetour({"release"}, Environment(""));
    EXPECT_EQ(0, release.exit_code) << release.err;
    kill(job.Pid(), SIGINT);
    EXPECT_FALSE(job.Wait().timed_out);
}
} // namespace
