/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/exit.h"

namespace
{
struct dt_pipeline_options Parsed(std::vector<std::string> words, int expected_code = DT_EXIT_OK)
{
    static struct dt_pipeline_input input; // the result points into it
    struct dt_pipeline_options options;
    std::vector<char *> argv;
    dt_pipeline_input_free(&input);
    words.insert(words.begin(), "detour pipeline");
    for (std::string &word : words)
        argv.push_back(&word[0]);
    argv.push_back(nullptr);
    EXPECT_EQ(dt_pipeline_options_parse(static_cast<int>(words.size()), argv.data(), &options, &input),
              expected_code);
    return options;
}
} // namespace

TEST(PipelineOptions, HaveDefaults)
{
    struct dt_pipeline_options options = Parsed({"-n", "10"});
    EXPECT_FALSE(options.adapt || options.draw);
    EXPECT_EQ(options.slow.link_count, 0u);
    EXPECT_EQ(options.devices, 4);
    EXPECT_EQ(options.job.ranks, 4u);
    EXPECT_EQ(options.microbatches, 16);
    EXPECT_EQ(options.algorithm, DETOUR_ALGORITHM_ZB_H1);
    EXPECT_EQ(options.mode, DT_PIPELINE_DELEGATED);
    EXPECT_EQ(options.replicas, 1);
    EXPECT_EQ(options.job.rank, -1);
}

TEST(PipelineOptions, ReplicasMultiplyTheRanks)
{
    struct dt_pipeline_options options = Parsed({"--dp", "3", "--devices", "2", "--gradients", "1M"});
    EXPECT_EQ(options.devices, 2);
    EXPECT_EQ(options.replicas, 3);
    EXPECT_EQ(options.job.ranks, 6u);
    EXPECT_EQ(options.gradient_bytes, 1048576u);
}

TEST(PipelineOptions, ReplicasHaveTheirOwnMicrobatches)
{
    struct dt_pipeline_options options = Parsed(
        {"--dp", "2", "--dp-microbatches", "12,20@4", "--dp-microbatches=20,12@6", "--microbatches", "16"});
    EXPECT_EQ(dt_pipeline_options_share(&options, 1, 3).count, 16);
    EXPECT_EQ(dt_pipeline_options_share(&options, 1, 5).count, 20);
    EXPECT_EQ(dt_pipeline_options_share(&options, 1, 5).first, 12);
    EXPECT_EQ(dt_pipeline_options_share(&options, 1, 6).count, 12);
    EXPECT_EQ(dt_pipeline_options_microbatches_max(&options), 20);
}

TEST(PipelineOptions, WithoutAnyThereIsADemonstration)
{
    struct dt_pipeline_options options = Parsed({});
    EXPECT_EQ(options.adapt, DT_PIPELINE_ADAPT_ITERATION);
    EXPECT_TRUE(options.draw);
    EXPECT_EQ(options.slow.link_count, 1u);
}

TEST(PipelineOptions, AreRead)
{
    struct dt_pipeline_options options = Parsed({"--devices",   "8",        "--microbatches=32",
                                                 "--schedule",  "zb-v",     "--mode",
                                                 "nccl",        "--times",  "1,2.5,0.5",
                                                 "-n",          "3",        "--payload",
                                                 "1M",          "--slice",  "128K",
                                                 "--slow-link", "6-7=60ms", "--slow-device",
                                                 "1=1.5x",      "--launch", "batched"});
    EXPECT_EQ(options.job.ranks, 8u);
    EXPECT_STREQ(options.launch->name, "batched");
    EXPECT_EQ(options.microbatches, 32);
    EXPECT_EQ(options.algorithm, DETOUR_ALGORITHM_ZB_V);
    EXPECT_EQ(options.mode, DT_PIPELINE_NCCL);
    EXPECT_EQ(options.b_ns, 2500000);
    EXPECT_EQ(options.iterations, 3u);
    EXPECT_EQ(options.payload_bytes, 1048576u);
    EXPECT_EQ(options.slice_bytes, 131072u);
    EXPECT_EQ(options.slow.link_count, 1u);
    EXPECT_EQ(options.slow.device_count, 1u);
}

TEST(PipelineOptions, ABadOptionIsOneLine)
{
    const struct {
        std::vector<std::string> words;
        const char *text;
    } cases[] = {
        {{"--devices", "65"}, "--devices 65: "},
        {{"--schedule", "zb"}, ""}, /* exists */
        {{"--schedule", "fast"}, "--schedule fast: unknown algorithm; `detour sched plan --help` lists them"},
        {{"--mode", "ncc"}, "--mode ncc: expected nccl, hostpath or delegated"},
        {{"--adapt", "on"}, "--adapt on: expected off, iteration or control"},
        {{"--adapt", "intra"}, "--adapt intra: expected off, iteration or control; see docs/experiments.md"},
        {{"--times", "1,2"}, "--times 1,2: expected F,B,W"},
        {{"--times", "0,1,1"}, "--times 0,1,1: expected F,B,W"},
        {{"--payload", "8"}, "--payload 8: "},
        {{"--slice", "64K"}, "--slice belongs to --mode nccl"},
        {{"--launch", "batched"}, "--launch belongs to --mode nccl"},
        {{"--launch", "batch"}, "--launch batch: expected sends, isend"},
        {{"--slow-link", "3-4=1ms"}, "--slow-link 4: devices are 0 to 3"},
        {{"--slow-device", "4=2x"}, "--slow-device 4: devices are 0 to 3"},
        {{"--slow-link", "what"}, "--slow-link what: expected A-B=TIME"},
        {{"--rank", "1"}, "--rank needs --rendezvous"},
        {{"--rank", "4", "--rendezvous", "localhost:1"},
         "--rank 4: with --devices 4 and --dp 1 the ranks are 0 to 3"},
        {{"--dp", "17"}, "--dp 17: 17 replicas of 4 devices are more than 64 processes"},
        {{"--gradients", "64K"}, "--gradients belongs to --dp"},
        {{"--dp", "2", "--gradients", "1001"}, "--gradients 1001: expected a multiple of 8"},
        {{"--dp", "2", "--gradients", "504"}, "--gradients 504: "},
        {{"--dp", "2", "--slow-link", "0@2-1@2=1ms"}, "--slow-link 0@2: with --dp 2 replicas are 0 to 1"},
        {{"--dp", "4", "--slow-link", "1@0-1@2=1ms"},
         "the replicas 0 and 2 of device 1 are no neighbors in their ring of 4"},
        {{"--dp", "4", "--slow-link", "1@0-1@3=1ms"}, ""},
        {{"--dp", "2", "--slow-device", "4@1=2x"}, "--slow-device 4@1: devices are 0 to 3"},
        {{"--dp-microbatches", "16"}, "--dp-microbatches belongs to --dp"},
        {{"--dp", "2", "--dp-microbatches", "a"},
         "--dp-microbatches a: expected M0,M1,...[@N], a count of 1"},
        {{"--dp", "2", "--dp-microbatches", "12,0,20"}, "--dp-microbatches 12,0,20: expected M0,M1"},
        {{"--dp", "2", "--dp-microbatches", "16,8,8"},
         "--dp-microbatches: 3 counts from iteration 0 on, but there are 2 replicas"},
        {{"--dp", "2", "--dp-microbatches", "12,21"},
         "--dp-microbatches: the counts from iteration 0 on sum up to 33; 2 replicas of 16 microbatches have "
         "32"},
        {{"--dp", "2", "--dp-microbatches", "12,20@10"}, "--dp-microbatches: @10: iterations are 0 to 9"},
        {{"--dp", "2", "--dp-microbatches", "12,20", "--adapt", "iteration"},
         "--dp-microbatches needs --adapt off"},
        {{"--dp", "2", "--dp-microbatches", "12,20"}, ""},
        {{"extra"}, "unexpected argument 'extra'"},
    };
    for (const auto &bad : cases) {
        bool is_good = !*bad.text;
        testing::internal::CaptureStderr();
        Parsed(bad.words, is_good ? DT_EXIT_OK : DT_EXIT_USAGE);
        std::string line = testing::internal::GetCapturedStderr();
        EXPECT_NE(line.find(bad.text), std::string::npos) << line;
        EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), is_good ? 0 : 1) << line;
    }
}

namespace
{
const char kProfile[] = DETOUR_SOURCE_DIR "/tests/sched/golden/pair.profile.json";
}

TEST(PipelineOptions, AProfileBringsItsDevicesAndMicrobatches)
{
    struct dt_pipeline_options options = Parsed({"--profile", kProfile});
    ASSERT_NE(options.input, nullptr);
    EXPECT_EQ(options.devices, options.input->profile->device_count);
    EXPECT_EQ(options.microbatches, options.input->profile->microbatch_count);
    EXPECT_EQ(options.job.ranks, static_cast<unsigned>(options.devices));
    EXPECT_STREQ(dt_pipeline_schedule_name(&options), "zb-h1");
    EXPECT_NE(options.job.digest, Parsed({}).job.digest);
}

TEST(PipelineOptions, AProfileExcludesTheOptionsThatDescribeIt)
{
    for (std::vector<std::string> words : {std::vector<std::string>{"--devices", "2", "--profile", kProfile},
                                           {"--profile", kProfile, "--microbatches", "2"},
                                           {"--times", "1,1,1", "--profile", kProfile},
                                           {"--plan", "x"},
                                           {"--profile", kProfile, "--plan", "x", "--schedule", "1f1b"},
                                           {"--profile", kProfile, "--plan", "/nonexistent"},
                                           {"--profile", "/nonexistent"}})
        Parsed(words, DT_EXIT_USAGE);
}

TEST(PipelineOptions, ATimelineIsOfTheLastIterationUnlessOneIsNamed)
{
    struct dt_pipeline_options none = Parsed({"--json", "a"}), last = Parsed({"--svg", "a", "-n", "5"}),
                               third = Parsed({"--json", "a", "--timeline", "3"});
    EXPECT_FALSE(dt_pipeline_options_has_timeline(&none));
    EXPECT_TRUE(dt_pipeline_options_has_timeline(&last));
    EXPECT_EQ(last.timeline_iteration, 4u);
    EXPECT_TRUE(dt_pipeline_options_has_timeline(&third));
    EXPECT_EQ(third.timeline_iteration, 3u);
    EXPECT_NE(last.job.digest, Parsed({"-n", "5"}).job.digest) << "all ranks must send their times";
    EXPECT_EQ(last.job.digest, Parsed({"--perfetto", "b", "-n", "5"}).job.digest);
    Parsed({"--timeline", "3"}, DT_EXIT_USAGE);
    Parsed({"--svg", "a", "-n", "5", "--timeline", "5"}, DT_EXIT_USAGE);
}
