/* SPDX-License-Identifier: Apache-2.0 */
/* The command line and the files of `detour sched`; cli_test.py runs the verbs. */
#include "cli/sched/sched.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "cli/command.h"

namespace
{
int Nothing(struct dt_sched_run *)
{
    return DT_EXIT_OK;
}

const struct dt_sched_verb kAll = {"all",
                                   "",
                                   "Everything.",
                                   DT_SCHED_SCHEDULE | DT_SCHED_GENERATE | DT_SCHED_PICTURE |
                                       DT_SCHED_TOLERANCE | DT_SCHED_ADAPT | DT_SCHED_COMPARE,
                                   1 << DETOUR_FORMAT_JSON | 1 << DETOUR_FORMAT_CSV,
                                   Nothing};
const struct dt_sched_verb kPlain = {"plain", "", "Little.", 0, 1 << DETOUR_FORMAT_JSON, Nothing};

struct Parsed {
    struct dt_sched_options options = {};
    std::vector<std::string> words;
    std::string err;
    int code;

    Parsed(const struct dt_sched_verb &verb, std::vector<std::string> given) : words(std::move(given))
    {
        std::vector<char *> argv;
        words.insert(words.begin(), "detour sched x");
        for (std::string &word : words)
            argv.push_back(&word[0]);
        argv.push_back(nullptr);
        testing::internal::CaptureStderr();
        code = dt_sched_options_parse(&verb, static_cast<int>(words.size()), argv.data(), &options);
        err = testing::internal::GetCapturedStderr();
    }

    ~Parsed()
    {
        free(options.warmup.values);
        free(options.ranks.values);
        free(options.started.values);
    }
};

TEST(SchedOptions, EveryGroupIsRead)
{
    Parsed p(kAll, {"--profile",   "P",        "--schedule",     "S",     "--out",      "O",
                    "--format",    "csv",      "--algo",         "zb-h1", "--warmup",   "3,2,1",
                    "--direction", "backward", "--delay-max-ms", "2.5",   "--min-gain", "1.5",
                    "--delays",    "D",        "--ranks",        "0,1",   "--now-ms",   "3",
                    "--started",   "4,5",      "--torch",        "2.14",  "--columns",  "80"});
    ASSERT_EQ(p.code, DT_EXIT_OK) << p.err;
    EXPECT_STREQ(p.options.profile_path, "P");
    EXPECT_STREQ(p.options.out_path, "O");
    EXPECT_EQ(p.options.format, DETOUR_FORMAT_CSV);
    EXPECT_EQ(p.options.generate.algorithm, DETOUR_ALGORITHM_ZB_H1);
    ASSERT_EQ(p.options.warmup.count, 3);
    EXPECT_EQ(p.options.warmup.values[1], 2);
    EXPECT_EQ(p.options.directions, DETOUR_BACKWARD);
    EXPECT_EQ(p.options.delay_ns_max, 2500000);
    EXPECT_EQ(p.options.adapt.gain_permille_min, 15);
    EXPECT_TRUE(p.options.replan);
    EXPECT_EQ(p.options.now_ns, 3000000);
    EXPECT_EQ(p.options.started.count, 2);
    EXPECT_EQ(p.options.picture.torch_minor, 14);
    EXPECT_EQ(p.options.picture.columns, 80);
}

TEST(SchedOptions, ABadValueIsOneLineThatNamesIt)
{
    const struct {
        std::vector<std::string> words;
        const char *text;
    } rows[] = {
        {{}, "--profile is missing"},
        {{"--profile", "P"}, "--schedule is missing"},
        {{"--profile", "P", "--schedule", "S", "--ranks", "0"}, "--ranks needs --delays"},
        {{"--profile", "P", "--schedule", "S", "--started", "0"}, "--started needs --now-ms"},
        {{"--format", "svg"}, "--format svg: expected one of json, csv"},
        {{"--algo", "fastest"}, "--algo fastest: expected one of auto, gpipe"},
        {{"--warmup", "3,,1"}, "--warmup 3,,1: expected whole numbers from 1 to 65536"},
        {{"--warmup", "3,0"}, "--warmup 3,0: expected whole numbers"},
        {{"--direction", "up"}, "--direction up: expected forward, backward or both"},
        {{"--torch", "3.1"}, "--torch 3.1: expected a version such as 2.14"},
        {{"--min-gain", "0.01"}, "--min-gain 0.01: expected a percentage from 0.1 to 100"},
        {{"file.json"}, "'file.json' is not an option"},
        {{"--bogus"}, "--bogus"},
    };
    for (const auto &row : rows) {
        Parsed p(kAll, row.words);
        EXPECT_EQ(p.code, DT_EXIT_USAGE) << row.text;
        EXPECT_NE(p.err.find(row.text), std::string::npos) << p.err;
        EXPECT_EQ(p.err.find('\n'), p.err.size() - 1) << p.err;
    }
}

TEST(SchedOptions, OptionsOfOtherGroupsAreUnknown)
{
    Parsed p(kPlain, {"--profile", "P", "--algo", "zb"});
    EXPECT_EQ(p.code, DT_EXIT_USAGE);
    EXPECT_NE(p.err.find("--algo"), std::string::npos) << p.err;
}

TEST(SchedCommand, VerbsAreListedAndUnknownOnesRefused)
{
    char name[] = "detour sched", help[] = "--help", bad[] = "draw";
    char *with_help[] = {name, help, nullptr}, *with_bad[] = {name, bad, nullptr};
    testing::internal::CaptureStdout();
    EXPECT_EQ(dt_sched_command(2, with_help), DT_EXIT_OK);
    fflush(stdout);
    std::string out = testing::internal::GetCapturedStdout();
    for (const char *verb : {"plan", "simulate", "check", "adapt", "tolerance", "compare"})
        EXPECT_NE(out.find(std::string("  ") + verb), std::string::npos) << out;
    testing::internal::CaptureStderr();
    EXPECT_EQ(dt_sched_command(2, with_bad), DT_EXIT_USAGE);
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "detour sched: unknown verb 'draw'; `detour sched --help` lists the verbs\n");
}

TEST(SchedFiles, AFileIsReadAndWrittenWhole)
{
    struct dt_sched_options options = {};
    struct dt_sched_run run = {};
    std::string path = testing::TempDir() + "/sched-" + std::to_string(getpid());
    std::string text(100000, 'x');
    char *data = nullptr;
    size_t bytes = 0;
    options.command = "detour sched x";
    run.options = &options;
    ASSERT_EQ(dt_sched_write_file(&run, path.c_str(), text.data(), text.size()), DT_EXIT_OK);
    ASSERT_EQ(dt_sched_read_file(&run, path.c_str(), &data, &bytes), DT_EXIT_OK);
    EXPECT_EQ(std::string(data, bytes), text);
    free(data);
    unlink(path.c_str());
}

TEST(SchedFiles, AFileThatCannotBeUsedIsNamed)
{
    struct dt_sched_options options = {};
    struct dt_sched_run run = {};
    char *data = nullptr;
    size_t bytes = 0;
    options.command = "detour sched x";
    run.options = &options;
    testing::internal::CaptureStderr();
    EXPECT_EQ(dt_sched_read_file(&run, "/nowhere/x", &data, &bytes), DT_EXIT_USAGE);
    EXPECT_NE(dt_sched_write_file(&run, "/dev/full", "x", 1), DT_EXIT_OK);
    std::string err = testing::internal::GetCapturedStderr();
    EXPECT_NE(err.find("detour sched x: /nowhere/x: "), std::string::npos) << err;
    EXPECT_NE(err.find("/dev/full: "), std::string::npos) << err;
    EXPECT_STREQ(dt_sched_name_of("-"), "standard input");
}
} // namespace
