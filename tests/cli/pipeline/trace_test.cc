/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/trace.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace
{
class PipelineTrace : public ::testing::Test
{
  protected:
    PipelineTrace()
    {
        path = (std::filesystem::temp_directory_path() / "detour-trace-XXXXXX").string();
        EXPECT_GE(close(mkstemp(path.data())), 0);
    }

    ~PipelineTrace() override
    {
        std::filesystem::remove(path);
    }

    bool Read(const std::string &text, int32_t devices = 8, uint32_t iterations = 1000)
    {
        std::ofstream(path, std::ios::binary) << text;
        slow = {};
        return dt_pipeline_trace_read(path.c_str(), devices, iterations, &slow, &digest, &error);
    }

    /* The delay of the link in that iteration, as the runner and the model add it up. */
    int64_t DelayMs(int32_t a, int32_t b, uint32_t iteration)
    {
        int64_t delay_ns = 0;
        for (size_t i = 0; i < slow.link_count; i++)
            if (slow.links[i].a.device == a && slow.links[i].b.device == b &&
                dt_pipeline_period_has(&slow.links[i].period, iteration))
                delay_ns += slow.links[i].delay_ns;
        return delay_ns / 1000000;
    }

    std::string path;
    struct dt_pipeline_slow slow = {};
    uint64_t digest = 0;
    struct detour_error error = {};
};
} // namespace

TEST_F(PipelineTrace, StepsByIterations)
{
    ASSERT_TRUE(Read("# comment\n2;2_3;0.03\n5;2_3;0\n7;0_1,3_2;0.01,20ms\n9;0_1;0.015\n")) << error.text;
    EXPECT_EQ(DelayMs(2, 3, 1), 0);
    EXPECT_EQ(DelayMs(2, 3, 2), 30);
    EXPECT_EQ(DelayMs(2, 3, 4), 30);
    EXPECT_EQ(DelayMs(2, 3, 5), 0);
    EXPECT_EQ(DelayMs(2, 3, 7), 20) << "the order of the devices does not matter";
    EXPECT_EQ(DelayMs(0, 1, 8), 10);
    EXPECT_EQ(DelayMs(0, 1, 9), 15);
    EXPECT_EQ(DelayMs(2, 3, 9), 0) << "a link that a line does not name has no delay";
    EXPECT_EQ(DelayMs(0, 1, 999), 15);
    EXPECT_EQ(slow.kill.nic[0], '\0');
}

TEST_F(PipelineTrace, ACrashIsOfTheNamedDevicesOrOfAll)
{
    ASSERT_TRUE(Read("3;2_3;inf\n")) << error.text;
    EXPECT_STREQ(slow.kill.nic, DT_PIPELINE_FIRST_NIC);
    EXPECT_EQ(slow.kill.devices, 0xcu);
    EXPECT_EQ(slow.kill.period.from, 3u);
    EXPECT_EQ(slow.kill.period.to, UINT32_MAX);
    ASSERT_TRUE(Read("1;0_1;0.01\n3;;inf\n")) << error.text;
    EXPECT_EQ(slow.kill.devices, UINT64_MAX);
    EXPECT_EQ(DelayMs(0, 1, 2), 10);
    EXPECT_EQ(DelayMs(0, 1, 3), 0);
    ASSERT_TRUE(Read("3;;inf\n")) << "no link is named at all";
    EXPECT_EQ(slow.kill.period.from, 3u);
    ASSERT_TRUE(Read("3;;inf\n", 8, 3)) << "after the last iteration";
    EXPECT_EQ(slow.kill.nic[0], '\0');
}

TEST_F(PipelineTrace, Table3OfAdaptraIsThere)
{
    ASSERT_TRUE(dt_pipeline_trace_read(DETOUR_SOURCE_DIR "/experiments/adaptra.trace", 8, 1200, &slow,
                                       &digest, &error))
        << error.text;
    EXPECT_EQ(slow.link_count, 17u);
    EXPECT_EQ(DelayMs(6, 7, 600), 60);
    EXPECT_EQ(DelayMs(6, 7, 630), 0);
    EXPECT_EQ(slow.kill.period.from, 1030u);
}

TEST_F(PipelineTrace, OtherTextsAreRefused)
{
    for (const char *text : {"1;0_9;0.1", "1;a;0.1", "1;0_0;0.1", "1;0_1", "1;0_1;x", "5;0_1;1\n4;0_1;1",
                             "1,0_1,0.1", "1;0_1;0.1,0.2", "1;;0.1", "x", "1;0_1;inf\n2;2_3;inf"}) {
        EXPECT_FALSE(Read(text)) << text;
        EXPECT_EQ(std::string(error.text).rfind("--trace " + path + ": ", 0), 0u) << error.text;
    }
    std::string many;
    for (int i = 0; i <= DT_PIPELINE_SLOW_MAX; i++)
        many += std::to_string(i) + ";0_1;" + std::to_string(1 + i % 2) + "ms\n";
    EXPECT_FALSE(Read(many, 8, 1000000));
    EXPECT_NE(std::string(error.text).find("too many changes"), std::string::npos) << error.text;
    EXPECT_FALSE(dt_pipeline_trace_read("/nonexistent", 8, 10, &slow, &digest, &error));
}

TEST_F(PipelineTrace, TheDigestCoversTheFile)
{
    ASSERT_TRUE(Read("1;0_1;0.1\n"));
    uint64_t first = digest;
    ASSERT_TRUE(Read("1;0_1;0.2\n"));
    EXPECT_NE(digest, first);
}
