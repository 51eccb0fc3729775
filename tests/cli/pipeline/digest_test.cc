/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/digest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/exit.h"

namespace
{
/* Of a command line. */
uint64_t Digest(std::vector<std::string> words)
{
    struct dt_pipeline_input input = {};
    struct dt_pipeline_options options;
    std::vector<char *> argv;
    words.insert(words.begin(), "detour pipeline");
    for (std::string &word : words)
        argv.push_back(&word[0]);
    argv.push_back(nullptr);
    EXPECT_EQ(dt_pipeline_options_parse(static_cast<int>(words.size()), argv.data(), &options, &input),
              DT_EXIT_OK);
    dt_pipeline_input_free(&input);
    return options.job.digest;
}
} // namespace

TEST(PipelineDigest, DiffersWithWhatRanksMustShare)
{
    uint64_t digest = Digest({"-n", "10"});
    EXPECT_EQ(Digest({"--json", "x"}), digest);
    EXPECT_EQ(Digest({"--rank", "1", "--rendezvous", "h:1"}), digest);
    for (const std::vector<std::string> &words :
         std::vector<std::vector<std::string>>{{"--devices", "5"},
                                               {"--microbatches", "17"},
                                               {"--mode", "nccl"},
                                               {"--times", "10,10,11"},
                                               {"--schedule", "1f1b"},
                                               {"--payload", "1K"},
                                               {"--slow-link", "0-1=1ms"},
                                               {"--slow-device", "0=2x"},
                                               {"--adapt", "iteration"},
                                               {"--dp", "2"},
                                               {"-n", "11"}})
        EXPECT_NE(Digest(words), digest) << words[0];
    EXPECT_NE(Digest({"--slow-link", "0-1=1ms"}), Digest({"--slow-link", "0-1=2ms"}));
    EXPECT_NE(Digest({"--dp", "2", "--slow-link", "0@0-0@1=1ms"}),
              Digest({"--dp", "2", "--slow-link", "1@0-1@1=1ms"}));
    EXPECT_NE(Digest({"--dp", "2", "--gradients", "1K"}), Digest({"--dp", "2"}));
    EXPECT_NE(Digest({"--dp", "2", "--checkpoint", "a"}), Digest({"--dp", "2"}));
    EXPECT_EQ(Digest({"--dp", "2", "--checkpoint", "a"}), Digest({"--dp", "2", "--checkpoint", "b"}));
    EXPECT_NE(Digest({"--dp", "2", "--checkpoint", "a", "--every", "2"}),
              Digest({"--dp", "2", "--checkpoint", "a"}));
    EXPECT_NE(Digest({"--dp", "2", "--checkpoint", "a", "--resume"}),
              Digest({"--dp", "2", "--checkpoint", "a"}));
    EXPECT_NE(Digest({"--slow-device", "0=2x"}), Digest({"--slow-device", "1=2x"}));
    EXPECT_NE(Digest({"--dp", "2", "--dp-microbatches", "15,17"}), Digest({"--dp", "2"}));
    EXPECT_NE(Digest({"--dp", "2", "--dp-microbatches", "15,17"}),
              Digest({"--dp", "2", "--dp-microbatches", "17,15"}));
    EXPECT_NE(Digest({"--dp", "2", "--dp-microbatches", "15,17"}),
              Digest({"--dp", "2", "--dp-microbatches", "15,17@1"}));
}

TEST(PipelineDigest, DiffersWithTheTrace)
{
    struct dt_pipeline_options options = {};
    options.launch = dt_pipeline_launch_at(0);
    EXPECT_EQ(dt_pipeline_digest(&options, 1), dt_pipeline_digest(&options, 1));
    EXPECT_NE(dt_pipeline_digest(&options, 1), dt_pipeline_digest(&options, 2));
}
