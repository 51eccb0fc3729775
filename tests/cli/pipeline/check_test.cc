// SPDX-License-Identifier: Apache-2.0
// Options that do not fit together are refused, with the option's name. Other combinations: options_test.cc.
#include "cli/pipeline/check.h"

#include <gtest/gtest.h>

#include <string>

namespace
{
class PipelineCheck : public ::testing::Test
{
  protected:
    PipelineCheck()
    {
        options.devices = options.replicas = 2;
        options.microbatches = 4;
        options.iterations = 3;
    }

    /* The line of a refusal; "": none. */
    std::string Refusal()
    {
        testing::internal::CaptureStderr();
        error_t failed = dt_pipeline_check(&options);
        std::string line = testing::internal::GetCapturedStderr();
        EXPECT_EQ(failed != 0, !line.empty()) << line;
        return line;
    }

    struct dt_pipeline_options options = {};
};
} // namespace

TEST_F(PipelineCheck, ACheckpointNeedsAFolderAndReplicas)
{
    EXPECT_EQ(Refusal(), "");
    options.checkpoints.every = 2;
    EXPECT_NE(Refusal().find("--every needs --checkpoint DIR"), std::string::npos);
    options.checkpoints.every = 0;
    options.checkpoints.resumes = true;
    EXPECT_NE(Refusal().find("--resume needs --checkpoint DIR"), std::string::npos);
    const std::string large(5000, 'x');
    for (const char *folder : {"", large.c_str()}) {
        options.checkpoints.directory = folder;
        EXPECT_NE(Refusal().find("--checkpoint: expected a folder"), std::string::npos);
    }
    options.checkpoints.directory = "/tmp";
    EXPECT_EQ(Refusal(), "");
    ASSERT_TRUE(dt_pipeline_exchanges_add(&options.exchanges, "1-2@1"));
    EXPECT_NE(Refusal().find("--checkpoint goes without --exchange"), std::string::npos);
    options.exchanges.count = 0;
    options.replicas = 1;
    EXPECT_NE(Refusal().find("--checkpoint belongs to --dp"), std::string::npos);
}

TEST_F(PipelineCheck, WhatIsSlowExists)
{
    ASSERT_TRUE(dt_pipeline_slow_add_device(&options.slow, "1=2x"));
    EXPECT_EQ(Refusal(), "");
    ASSERT_TRUE(dt_pipeline_slow_add_device(&options.slow, "2=2x"));
    EXPECT_NE(Refusal().find("--slow-device 2: devices are 0 to 1"), std::string::npos);
}
