// SPDX-License-Identifier: Apache-2.0
#include "cli/pipeline/claim.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "tests/obs/folder.h"

namespace
{
class PipelineClaim : public ::testing::Test
{
  protected:
    PipelineClaim()
    {
        setenv("DETOUR_RUNTIME_DIR", runtime.path.c_str(), 1);
    }
    ~PipelineClaim() override
    {
        unsetenv("DETOUR_RUNTIME_DIR");
    }

    Folder runtime, first, second;
};

TEST_F(PipelineClaim, TheLastJobHasIt)
{
    EXPECT_FALSE(dt_pipeline_claim_is(first.path.c_str()));
    dt_pipeline_claim_set(first.path.c_str());
    EXPECT_TRUE(dt_pipeline_claim_is(first.path.c_str()));
    EXPECT_TRUE(dt_pipeline_claim_is((first.path + "/.").c_str())) << "the same folder";
    EXPECT_FALSE(dt_pipeline_claim_is(second.path.c_str()));
    dt_pipeline_claim_set(second.path.c_str());
    EXPECT_FALSE(dt_pipeline_claim_is(first.path.c_str()));
    EXPECT_TRUE(dt_pipeline_claim_is(second.path.c_str()));
    dt_pipeline_claim_set(nullptr);
    EXPECT_FALSE(dt_pipeline_claim_is(second.path.c_str()));
    EXPECT_FALSE(dt_pipeline_claim_is(nullptr));
    EXPECT_EQ(runtime.Count(), 1u) << "nothing temporary is left";
}

TEST_F(PipelineClaim, WhatIsNoClaimIsNone)
{
    const std::string file = runtime.path + "/" DT_PIPELINE_CLAIM_FILE;

    std::ofstream(file) << first.path << "x";
    EXPECT_FALSE(dt_pipeline_claim_is(first.path.c_str()));
    std::filesystem::remove(file);
    ASSERT_EQ(mkfifo(file.c_str(), 0600), 0); /* must not block */
    EXPECT_FALSE(dt_pipeline_claim_is(first.path.c_str()));
    EXPECT_FALSE(dt_pipeline_claim_is("/none"));
    setenv("DETOUR_RUNTIME_DIR", "/none", 1);
    EXPECT_FALSE(dt_pipeline_claim_is(first.path.c_str()));
    dt_pipeline_claim_set(first.path.c_str()); /* there is nothing to write, and no line */
}

TEST_F(PipelineClaim, AFailureIsOneLine)
{
    std::filesystem::create_directory(runtime.path + "/" DT_PIPELINE_CLAIM_FILE);
    testing::internal::CaptureStderr();
    dt_pipeline_claim_set(first.path.c_str());
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "detour pipeline: " + runtime.path +
                  "/remedy-job is not written: Is a directory; a run with --resume will not take the remedy "
                  "that is in force then\n");
    EXPECT_EQ(runtime.Count(), 1u);
}
} // namespace
