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
        iteration.time_ns = time_ms * 1000000;
        iteration.predicted_ns = 500000000;
        iteration.bubble = 0.25;
        iteration.cpu = cpu;
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
    EXPECT_NE(out.find("0      510.00        500.00    25.0%      0.00   69.0%         0\n"),
              std::string::npos)
        << out;
    EXPECT_NE(out.find("71.0%         0  not comparable"), std::string::npos) << out;
    EXPECT_NE(out.find("2 iterations: mean 555.00 ms, model 500.00 ms, mean difference 11.00 %"),
              std::string::npos)
        << out;
    EXPECT_NE(out.find("1 iterations used more than 70 % of the cores"), std::string::npos) << out;
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
}
