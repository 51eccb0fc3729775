// SPDX-License-Identifier: Apache-2.0
/* The port itself is tests/cli/metrics_server_test.cc. */
#include "cli/metrics_output.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/obs/folder.h"

namespace
{
const uint64_t kS = 1000000000;

class MetricsOutput : public ::testing::Test
{
  protected:
    MetricsOutput()
    {
        output.listen.write_metrics = Write;
        output.listen.arg = this;
        output.textfile = path.c_str();
    }
    static bool Write(void *arg, FILE *out, char *, size_t)
    {
        fprintf(out, "detour_x %d\n", ++static_cast<MetricsOutput *>(arg)->versions);
        return true;
    }
    /* What a round at this time writes to standard error, without the time of day. */
    std::string Step(uint64_t now_ns)
    {
        testing::internal::CaptureStderr();
        dt_metrics_output_step(&output, &rounds, now_ns);
        std::string line = testing::internal::GetCapturedStderr();
        size_t text = line.find(" --textfile");
        return text == std::string::npos ? line : line.substr(text + 1);
    }

    Folder folder;
    std::string path = folder.path + "/job.prom";
    dt_rounds rounds = {"detour test", 200, false};
    dt_metrics_output output = {};
    int versions = 0;
};

TEST_F(MetricsOutput, TheFileIsWrittenAtOnceAndThenEvery15Seconds)
{
    std::string line;

    EXPECT_EQ(Step(100 * kS), "");
    EXPECT_EQ(Step(115 * kS - 1), "");
    EXPECT_EQ(versions, 1);
    EXPECT_EQ(Step(115 * kS), "");
    std::getline(std::ifstream(path), line);
    EXPECT_EQ(line, "detour_x 2");
    output.textfile = nullptr;
    EXPECT_EQ(Step(200 * kS), "");
    EXPECT_EQ(versions, 2);
}

TEST_F(MetricsOutput, ASeriesOfFailuresIsOneLine)
{
    std::string missing = folder.path + "/none/job.prom";
    std::string line = "--textfile " + missing + ": No such file or directory\n";

    output.textfile = missing.c_str();
    EXPECT_EQ(Step(100 * kS), line);
    EXPECT_EQ(Step(115 * kS), "");
    std::filesystem::create_directory(folder.path + "/none");
    EXPECT_EQ(Step(130 * kS), "");
    std::filesystem::remove_all(folder.path + "/none");
    EXPECT_EQ(Step(145 * kS), line);
}

TEST_F(MetricsOutput, WithoutListenThereIsNoServer)
{
    EXPECT_TRUE(dt_metrics_output_start("detour test", &output));
    EXPECT_EQ(output.server, nullptr);
    dt_metrics_output_stop(&output);
}

TEST_F(MetricsOutput, AnAddressThatIsNoneIsOneLine)
{
    testing::internal::CaptureStderr();
    EXPECT_NE(dt_metrics_output_parse("detour test", "host:1", &output), 0);
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "detour test: --listen host:1: expected PORT or an IPv4 ADDRESS:PORT\n");
    EXPECT_EQ(dt_metrics_output_parse("detour test", "127.0.0.2:9465", &output), 0);
    EXPECT_EQ(output.listen.port, 9465);
}
} // namespace
