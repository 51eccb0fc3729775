/* SPDX-License-Identifier: Apache-2.0 */
/* The table and the JSON file of a run whose numbers are given. */
#include "cli/perf/report.h"

#include <gtest/gtest.h>

#include <jansson.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "cli/perf/op.h"
#include "cli/perf/type.h"
#include "base/exit.h"

namespace
{
class PerfReport : public ::testing::Test
{
  protected:
    PerfReport()
    {
        std::string pattern = (std::filesystem::temp_directory_path() / "detour-report-XXXXXX").string();
        folder = mkdtemp(pattern.data());
        path = folder + "/result.json";
        for (size_t i = 0; dt_perf_ops[i]; i++) {
            if (!strcmp(dt_perf_ops[i]->name, "all_reduce"))
                options.op = dt_perf_ops[i];
        }
        options.type = dt_perf_type_find("float");
        options.redop = DT_PERF_SUM;
        options.bytes_min = 8;
        options.bytes_max = 4096;
        options.step_factor = 2;
        options.iterations = 20;
        options.job.ranks = 2;
        snprintf(start.plugin, sizeof start.plugin, "Detour");
        start.channels = 1;
        for (int rank = 0; rank < 2; rank++) {
            ranks[rank].pid = 100 + rank;
            snprintf(ranks[rank].host, sizeof ranks[rank].host, "host%d", rank);
            snprintf(ranks[rank].devices, sizeof ranks[rank].devices, "soft0 soft1");
        }
        row.bytes = 4096;
        row.count = 1024;
        row.columns[DT_PERF_OUT_OF_PLACE] = {true, 12.5, 0.3277, 0.3277, 0};
        row.columns[DT_PERF_IN_PLACE] = {true, 123456.7, 12.0, 12.0, -1};
    }

    ~PerfReport() override
    {
        std::filesystem::remove_all(folder);
    }

    bool Init()
    {
        char name[] = "perf";
        char *arguments[] = {name};
        return dt_perf_report_init(&report, &options, 1, arguments, &error);
    }

    /* The whole run; returns what stands on standard output. */
    std::string Print()
    {
        testing::internal::CaptureStdout();
        dt_perf_report_start(&report, &start, ranks);
        dt_perf_report_row(&report, &row);
        is_written = dt_perf_report_finish(&report, &error);
        return testing::internal::GetCapturedStdout();
    }

    static bool Has(const std::string &text, const std::string &part)
    {
        return text.find(part) != std::string::npos;
    }

    std::string folder, path;
    dt_perf_options options = {};
    dt_perf_start start = {};
    dt_perf_rank_info ranks[2] = {};
    dt_perf_row row = {};
    dt_perf_report report;
    dt_job_error error = {};
    bool is_written = false;
};

TEST_F(PerfReport, TheTableIsThatOfNcclTests)
{
    ASSERT_TRUE(Init());
    report.note = "a line about the environment";
    std::string text = Print();
    EXPECT_TRUE(is_written);
    EXPECT_TRUE(Has(
        text, "# ranks 2 minBytes 8 maxBytes 4096 step: 2(factor) warmup iters: 0 iters: 20 validation: 0\n"))
        << text;
    EXPECT_TRUE(Has(text, "# plugin Detour, 1 channel per neighbor\n# a line about the environment\n"))
        << text;
    EXPECT_TRUE(Has(text, "#  Rank  1 Pid    101 on      host1 devices soft0 soft1\n")) << text;
    EXPECT_TRUE(Has(text,
                    "        4096          1024     float     sum      -1    12.50    0.33    0.33       0"
                    "   123457   12.00   12.00     N/A\n"))
        << text;
    EXPECT_TRUE(Has(text, "# Out of bounds values : 0 OK\n")) << text;
    EXPECT_TRUE(Has(text, "# Avg bus bandwidth    : 6.16385\n")) << text;
}

TEST_F(PerfReport, AnotherPluginHasNoNoteAndAVariantThatDidNotRunIsNotAveraged)
{
    ASSERT_TRUE(Init());
    report.note = "a line about the environment";
    snprintf(start.plugin, sizeof start.plugin, "Socket");
    row.columns[DT_PERF_IN_PLACE] = {};
    std::string text = Print();
    EXPECT_FALSE(Has(text, "environment")) << text;
    EXPECT_TRUE(Has(text, "      N/A     N/A     N/A     N/A\n")) << text;
    EXPECT_TRUE(Has(text, "# Avg bus bandwidth    : 0.3277\n")) << text;
}

TEST_F(PerfReport, WrongDataIsCountedAndItsPlaceIsNamed)
{
    ASSERT_TRUE(Init());
    row.columns[DT_PERF_OUT_OF_PLACE].wrong = 5;
    row.columns[DT_PERF_IN_PLACE].wrong = 2;
    snprintf(row.first_wrong, sizeof row.first_wrong, "rank 1, element 7");
    std::string text = Print();
    EXPECT_EQ(7u, report.wrong);
    EXPECT_TRUE(Has(text, "# wrong data at 4096 bytes: rank 1, element 7\n")) << text;
    EXPECT_TRUE(Has(text, "# Out of bounds values : 7 FAILED\n")) << text;
}

TEST_F(PerfReport, TheJsonFileHasTheSameNumbersAndReplacesAnOlderOne)
{
    std::ofstream(path) << std::string(100000, 'x');
    options.json_path = path.c_str();
    ASSERT_TRUE(Init());
    EXPECT_EQ(100000u, std::filesystem::file_size(path)) << "kept until there is a result";
    row.columns[DT_PERF_OUT_OF_PLACE].wrong = 5;
    Print();
    EXPECT_TRUE(is_written);
    json_error_t where;
    json_t *json = json_load_file(path.c_str(), 0, &where);
    ASSERT_NE(nullptr, json) << where.text;
    const char *host;
    json_int_t size, wrong, count;
    double time_us, bandwidth;
    int okay, is_null;
    json_t *in_place_wrong;
    EXPECT_EQ(0,
              json_unpack_ex(json, &where, 0, "{s:{s:[{}, {s:s}]}}", "config", "devices", "hostname", &host))
        << where.text;
    EXPECT_STREQ("host1", host);
    EXPECT_EQ(0, json_unpack_ex(json, &where, 0, "{s:[{s:I, s:{s:f, s:I}, s:{s:o}}]}", "results", "size",
                                &size, "out_of_place", "time", &time_us, "nwrong", &wrong, "in_place",
                                "nwrong", &in_place_wrong))
        << where.text;
    EXPECT_EQ(0, json_unpack_ex(json, &where, 0, "{s:{s:I, s:b}, s:{s:f}}", "out_of_bounds", "count", &count,
                                "okay", &okay, "average_bus_bandwidth", "bandwidth", &bandwidth))
        << where.text;
    is_null = json_is_null(in_place_wrong);
    EXPECT_EQ(4096, size);
    EXPECT_EQ(12.5, time_us);
    EXPECT_EQ(5, wrong);
    EXPECT_TRUE(is_null) << "not checked";
    EXPECT_EQ(5, count);
    EXPECT_FALSE(okay);
    EXPECT_NEAR(6.16385, bandwidth, 1e-9);
    json_decref(json);
}

TEST_F(PerfReport, AnErrorIsOneLineAndPartOfTheJson)
{
    options.json_path = path.c_str();
    ASSERT_TRUE(Init());
    dt_job_fail(&error, DT_EXIT_FAILED, "rank 1 died");
    testing::internal::CaptureStderr();
    std::string text = Print();
    EXPECT_EQ("detour perf: rank 1 died\n", testing::internal::GetCapturedStderr());
    EXPECT_FALSE(Has(text, "Avg bus bandwidth")) << text;
    std::ifstream file(path);
    std::string json((std::istreambuf_iterator<char>(file)), {});
    EXPECT_TRUE(Has(json, "\"rank 1 died\"")) << json;
}

TEST_F(PerfReport, AFileThatCannotBeWrittenIsKnownBeforeTheRun)
{
    path = folder + "/missing/result.json";
    options.json_path = path.c_str();
    EXPECT_FALSE(Init());
    EXPECT_EQ(DT_EXIT_USAGE, error.exit_code);
    EXPECT_TRUE(Has(error.text, "cannot write there: No such file or directory")) << error.text;
}

TEST_F(PerfReport, AFullDiskIsOneLineAtTheEnd)
{
    if (access("/dev/full", W_OK) != 0)
        GTEST_SKIP() << "there is no /dev/full";
    options.json_path = "/dev/full";
    ASSERT_TRUE(Init());
    testing::internal::CaptureStderr();
    Print();
    EXPECT_FALSE(is_written);
    EXPECT_EQ("detour perf: -J /dev/full: could not be written: No space left on device\n",
              testing::internal::GetCapturedStderr());
}

TEST_F(PerfReport, ProgressWithoutATerminalIsALineEachTenSecondsAndNoneAtFirst)
{
    ASSERT_TRUE(Init());
    testing::internal::CaptureStderr();
    dt_perf_report_status(&report, "a", 1000000000);
    dt_perf_report_status(&report, "b", 10999999999);
    dt_perf_report_status(&report, "c", 11000000000);
    dt_perf_report_status(&report, "d", 12000000000);
    EXPECT_EQ("# c\n", testing::internal::GetCapturedStderr());
    Print();
}
} // namespace
