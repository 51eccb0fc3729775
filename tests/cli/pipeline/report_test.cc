/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/report.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/exit.h"

namespace
{
class PipelineReport : public ::testing::Test
{
  protected:
    PipelineReport()
    {
        std::string pattern = (std::filesystem::temp_directory_path() / "detour-pipeline-XXXXXX").string();
        folder = mkdtemp(pattern.data());
        path = folder + "/result.json";
        options.devices = 4;
        options.replicas = 1;
        options.microbatches = 16;
        options.payload_bytes = 65536;
        options.algorithm = DETOUR_ALGORITHM_ZB_H1;
    }

    ~PipelineReport() override
    {
        std::filesystem::remove_all(folder);
    }

    void Add(uint32_t number, int64_t time_ms, double cpu)
    {
        struct dt_pipeline_iteration iteration = {};
        iteration.number = number;
        iteration.begin_ns = 7500000;
        iteration.time_ns = time_ms * 1000000;
        iteration.predicted_ns = 500000000;
        iteration.bubble = 0.25;
        iteration.cpu = cpu;
        iteration.dp_ns = 2500000;
        dt_pipeline_report_iteration(&report, &iteration);
    }

    std::string folder, path;
    struct dt_pipeline_options options = {};
    struct dt_pipeline_report report = {};
    struct dt_job_error error = {};
};
} // namespace

TEST_F(PipelineReport, MarksIterationsOfABusyMachine)
{
    ASSERT_TRUE(dt_pipeline_report_init(&report, &options, &error));
    testing::internal::CaptureStdout();
    dt_pipeline_report_start(&report);
    Add(0, 510, 0.69);
    Add(1, 600, 0.71);
    EXPECT_TRUE(dt_pipeline_report_finish(&report, &error));
    std::string out = testing::internal::GetCapturedStdout();
    EXPECT_NE(out.find("schedule zb-h1, mode nccl"), std::string::npos) << out;
    EXPECT_NE(out.find("0      510.00        500.00    25.0%      0.00   69.0%         0       0\n"),
              std::string::npos)
        << out;
    EXPECT_NE(out.find("71.0%         0       0  not comparable"), std::string::npos) << out;
    EXPECT_NE(out.find("2 iterations: mean 555.00 ms, model 500.00 ms, mean difference 11.00 %"),
              std::string::npos)
        << out;
    EXPECT_NE(out.find("1 iterations used more than 70 % of the cores"), std::string::npos) << out;
}

TEST_F(PipelineReport, ShowsTheTimeOfReplicas)
{
    options.replicas = 2;
    options.gradient_bytes = 65536;
    options.json_path = path.c_str();
    ASSERT_TRUE(dt_pipeline_report_init(&report, &options, &error));
    testing::internal::CaptureStdout();
    dt_pipeline_report_start(&report);
    Add(0, 510, 0.1);
    EXPECT_TRUE(dt_pipeline_report_finish(&report, &error));
    std::string out = testing::internal::GetCapturedStdout();
    EXPECT_NE(out.find("# 2 replicas, gradients of 65536 bytes per stage"), std::string::npos) << out;
    EXPECT_NE(out.find("10.0%         0       0       2.50\n"), std::string::npos) << out;
    json_t *document = json_load_file(path.c_str(), 0, nullptr);
    EXPECT_EQ(json_integer_value(json_object_get(document, "replicas")), 2);
    EXPECT_EQ(json_integer_value(json_object_get(document, "gradient_bytes")), 65536);
    json_t *row = json_array_get(json_object_get(document, "iterations"), 0);
    EXPECT_EQ(json_real_value(json_object_get(row, "dp_ms")), 2.5);
    EXPECT_EQ(json_real_value(json_object_get(row, "begin_ms")), 7.5);
    json_decref(document);
}

/* What is slow, by how much, and what was done about it: in the line, in the summary, in the JSON. */
TEST_F(PipelineReport, ShowsVerdictsAndTheHostPath)
{
    options.json_path = path.c_str();
    ASSERT_TRUE(dt_pipeline_report_init(&report, &options, &error));
    testing::internal::CaptureStdout();
    for (uint32_t number = 0; number < 3; number++) {
        struct dt_pipeline_iteration iteration = {};
        iteration.number = number;
        iteration.time_ns = iteration.predicted_ns = 500000000;
        if (number > 0) {
            iteration.slow_count = 2;
            iteration.slow[0] = {2, 3, 20050000 + 20000 * (int64_t)number};
            iteration.slow[1] = {3, 2, 20000000};
        }
        if (number == 2) {
            iteration.staged = 48;
            iteration.pool_full = 3;
            iteration.hostpath_count = 1;
            iteration.hostpath[0] = {2, 3, 0};
        }
        dt_pipeline_report_iteration(&report, &iteration);
    }
    EXPECT_TRUE(dt_pipeline_report_finish(&report, &error));
    std::string out = testing::internal::GetCapturedStdout();
    EXPECT_NE(out.find("        0       0\n"), std::string::npos) << out;
    EXPECT_NE(out.find("        0       0  slow: 2>3 +20.1 ms, 3>2 +20.0 ms\n"), std::string::npos) << out;
    EXPECT_NE(
        out.find("        0      48  slow: 2>3 +20.1 ms, 3>2 +20.0 ms  pool full: 3 sends  host path: 2>3\n"),
        std::string::npos)
        << out;
    EXPECT_NE(out.find("# the messages from 2 to 3 were slow after 2 iterations, by 20.1 ms at most\n"),
              std::string::npos)
        << out;
    EXPECT_NE(out.find("# 48 messages went over the host path, by order in 1 iterations\n"),
              std::string::npos)
        << out;
    json_t *document = json_load_file(path.c_str(), 0, nullptr);
    json_t *last = json_array_get(json_object_get(document, "iterations"), 2);
    EXPECT_EQ(json_integer_value(json_object_get(last, "staged_messages")), 48);
    EXPECT_EQ(json_integer_value(json_object_get(last, "pool_full")), 3);
    EXPECT_NE(out.find("# the staging memory was full for 3 sends"), std::string::npos) << out;
    json_t *slow = json_array_get(json_object_get(last, "slow"), 1);
    EXPECT_EQ(json_integer_value(json_object_get(slow, "from")), 3);
    EXPECT_EQ(json_real_value(json_object_get(slow, "delay_ms")), 20.0);
    EXPECT_EQ(json_array_size(json_object_get(last, "hostpath")), 1u);
    json_decref(document);
}

TEST_F(PipelineReport, WritesJson)
{
    options.json_path = path.c_str();
    ASSERT_TRUE(dt_pipeline_report_init(&report, &options, &error));
    testing::internal::CaptureStdout();
    Add(0, 510, 0.1);
    Add(1, 520, 0.9);
    EXPECT_TRUE(dt_pipeline_report_finish(&report, &error));
    testing::internal::GetCapturedStdout();
    json_error_t where;
    json_t *document = json_load_file(path.c_str(), 0, &where);
    ASSERT_NE(document, nullptr) << where.text;
    json_t *iterations = json_object_get(document, "iterations");
    ASSERT_EQ(json_array_size(iterations), 2u);
    EXPECT_EQ(json_real_value(json_object_get(json_array_get(iterations, 1), "time_ms")), 520.0);
    EXPECT_TRUE(json_is_false(json_object_get(json_array_get(iterations, 1), "comparable")));
    EXPECT_EQ(json_object_get(document, "error"), nullptr);
    json_decref(document);
}

TEST_F(PipelineReport, AnErrorGoesToStandardErrorAndJson)
{
    options.json_path = path.c_str();
    ASSERT_TRUE(dt_pipeline_report_init(&report, &options, &error));
    dt_job_fail(&error, DT_EXIT_FAILED, "rank 1 was killed");
    testing::internal::CaptureStderr();
    EXPECT_TRUE(dt_pipeline_report_finish(&report, &error));
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "detour pipeline: rank 1 was killed\n");
    json_t *document = json_load_file(path.c_str(), 0, nullptr);
    EXPECT_STREQ(json_string_value(json_object_get(document, "error")), "rank 1 was killed");
    json_decref(document);
}

TEST_F(PipelineReport, AFileThatCannotBeWrittenIsRefusedFirst)
{
    path = folder + "/missing/result.json";
    options.json_path = path.c_str();
    EXPECT_FALSE(dt_pipeline_report_init(&report, &options, &error));
    EXPECT_EQ(error.exit_code, DT_EXIT_USAGE);
    options.json_path = (path = folder + "/result.json").c_str();
    std::string picture = folder + "/missing/picture.svg";
    options.svg_path = picture.c_str();
    EXPECT_FALSE(dt_pipeline_report_init(&report, &options, &error));
    EXPECT_EQ(report.json_file, nullptr) << "closed";
}
