/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/input.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include <unistd.h>

#include "cli/pipeline/plan.h"
#include "cli/pipeline/rules.h"

namespace
{
const std::string kGolden = DETOUR_SOURCE_DIR "/tests/sched/golden/";

class PipelineInput : public ::testing::Test
{
  protected:
    ~PipelineInput() override
    {
        dt_pipeline_input_free(&input);
        if (!path.empty())
            unlink(path.c_str());
    }
    bool Read(const std::string &profile, const char *plan = nullptr)
    {
        dt_pipeline_input_free(&input);
        return dt_pipeline_input_read(&input, profile.c_str(), plan, &error);
    }
    /* A profile of this text. */
    std::string Write(const std::string &text)
    {
        path = testing::TempDir() + "detour-input-XXXXXX";
        int fd = mkstemp(path.data());
        EXPECT_GE(fd, 0);
        close(fd);
        std::ofstream(path) << text;
        return path;
    }

    struct dt_pipeline_input input = {};
    struct detour_error error = {};
    std::string path;
};
} // namespace

TEST_F(PipelineInput, TheFilesOfTheScheduleLibraryMakeAPlan)
{
    ASSERT_TRUE(Read(kGolden + "v.profile.json", (kGolden + "v.json").c_str())) << error.text;
    struct dt_pipeline_options options = {};
    struct dt_pipeline_plan plan;
    options.input = &input;
    options.devices = input.profile->device_count;
    options.replicas = 1;
    options.microbatches = input.profile->microbatch_count;
    ASSERT_TRUE(dt_pipeline_plan_make(&plan, &options, &error)) << error.text;
    EXPECT_EQ(plan.schedule, input.schedule);
    EXPECT_EQ(plan.algorithm, DETOUR_ALGORITHM_EXTERNAL);
    EXPECT_EQ(plan.profile.stage_count, input.profile->stage_count);
    EXPECT_EQ(plan.profile.stages[1].f_ns, input.profile->stages[1].f_ns);
    EXPECT_GT(dt_pipeline_plan_predict_ns(&plan, NULL, 0), 0);
    dt_pipeline_plan_free(&plan);
}

TEST_F(PipelineInput, APlanMayBeTheCsvOfPytorch)
{
    ASSERT_TRUE(Read(kGolden + "pair.profile.json", (kGolden + "pair.csv").c_str())) << error.text;
    EXPECT_NE(input.schedule, nullptr);
    uint64_t both = input.digest;
    ASSERT_TRUE(Read(kGolden + "pair.profile.json")) << error.text;
    EXPECT_EQ(input.schedule, nullptr);
    EXPECT_NE(input.digest, both) << "each file counts";
}

/* Two links between devices 0 and 1: a run delays what goes from one to the other alike. */
TEST_F(PipelineInput, LinksBetweenTheSameDevicesGetTheLargestDelay)
{
    std::string profile = Write(R"({"version": 1, "microbatches": 2, "placement": [0, 1, 1, 0],
        "stages": [{"f_ms": 1, "b_ms": 1, "w_ms": 1}, {"f_ms": 1, "b_ms": 1, "w_ms": 1},
                   {"f_ms": 1, "b_ms": 1, "w_ms": 1}, {"f_ms": 1, "b_ms": 1, "w_ms": 1}],
        "links": [{"forward_ms": 2, "backward_ms": 3}, {"forward_ms": 0, "backward_ms": 0},
                  {"forward_ms": 5, "backward_ms": 1, "backward_serial_ms": 4}]})");
    ASSERT_TRUE(Read(profile)) << error.text;
    const struct detour_link *links = input.profile->links;
    EXPECT_EQ(links[0].forward_ns, 2000000) << "from 0 to 1: 2, and 1 backward of the third link";
    EXPECT_EQ(links[0].forward_serial_ns, 4000000);
    EXPECT_EQ(links[0].backward_ns, 5000000) << "from 1 to 0: 3, and 5 forward of the third link";
    EXPECT_EQ(links[2].forward_ns, 5000000);
    EXPECT_EQ(links[2].backward_ns, 2000000);
    EXPECT_EQ(links[1].forward_ns, 0) << "within a device nothing is sent";
    EXPECT_EQ(dt_pipeline_profile_delay_ns(input.profile, 0, 1, false), 2000000);
    EXPECT_EQ(dt_pipeline_profile_delay_ns(input.profile, 0, 1, true), 4000000);
    EXPECT_EQ(dt_pipeline_profile_delay_ns(input.profile, 1, 0, false), 5000000);
    EXPECT_EQ(dt_pipeline_profile_delay_ns(input.profile, 1, 0, true), 0);
}

TEST_F(PipelineInput, BadFilesAreRefusedWithTheirNames)
{
    EXPECT_FALSE(Read("/nonexistent.json"));
    EXPECT_NE(std::string(error.text).find("/nonexistent.json: No such file"), std::string::npos)
        << error.text;
    EXPECT_FALSE(Read("/"));
    EXPECT_FALSE(Read(Write("{]")));
    EXPECT_NE(std::string(error.text).find("detour-input-"), std::string::npos) << error.text;
    unlink(path.c_str());
    EXPECT_FALSE(Read(kGolden + "pair.profile.json", (kGolden + "v.json").c_str()))
        << "a schedule of other stages";
    std::string many = R"({"version": 1, "microbatches": 1, "stages": [)", links = R"(], "links": [)";
    for (int i = 0; i <= DT_PIPELINE_RANKS_MAX; i++) {
        many += std::string(i ? "," : "") + R"({"f_ms": 1, "b_ms": 1, "w_ms": 1})";
        links += i > 1 ? R"(,{"forward_ms": 0, "backward_ms": 0})"
                 : i   ? R"({"forward_ms": 0, "backward_ms": 0})"
                       : "";
    }
    EXPECT_FALSE(Read(Write(many + links + "]}")));
    EXPECT_NE(std::string(error.text).find("65 devices and 65 stages; at most 64 and 128"), std::string::npos)
        << error.text;
}
