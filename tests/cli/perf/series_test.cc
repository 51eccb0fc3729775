/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>
#include <jansson.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/perf/series.h"

namespace
{
constexpr uint64_t kMs = 1000000;

/* What a function writes into a FILE. */
template <typename Function>
std::string Written(Function function)
{
    char *text = nullptr;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    function(out);
    fclose(out);
    std::string result(text, bytes);
    free(text);
    return result;
}

std::string Text(const std::vector<double> &values)
{
    return Written([&](FILE *out) { dt_perf_series_text(values.data(), values.size(), out); });
}

class PerfSeries : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        std::string pattern = ::testing::TempDir() + "/series-XXXXXX";
        folder_ = mkdtemp(pattern.data());
        lines_path_ = folder_ + "/s.jsonl";
        plot_path_ = folder_ + "/s.svg";
        options_.series_path = lines_path_.c_str();
        options_.plot_path = plot_path_.c_str();
    }
    void TearDown() override
    {
        remove(lines_path_.c_str());
        remove(plot_path_.c_str());
        remove(folder_.c_str());
    }
    void Add(unsigned rank, uint64_t ms, uint64_t bytes)
    {
        struct dt_perf_sample sample = {ms * kMs, bytes, 4096};
        dt_perf_series_add(&series_, rank, &sample);
    }
    std::string File(const std::string &path)
    {
        std::ifstream file(path);
        std::stringstream text;
        text << file.rdbuf();
        return text.str();
    }

    std::string folder_, lines_path_, plot_path_;
    struct dt_perf_options options_ = {};
    struct dt_perf_series series_;
    struct dt_job_error error_ = {};
};

TEST_F(PerfSeries, EveryLineHasTheBytesOfItsInterval)
{
    ASSERT_TRUE(dt_perf_series_init(&series_, &options_, &error_)) << error_.text;
    Add(0, 100, 1000);
    Add(1, 110, 500);
    Add(0, 200, 1500);
    Written([&](FILE *out) { EXPECT_TRUE(dt_perf_series_finish(&series_, &options_, out)); });

    std::istringstream lines(File(lines_path_));
    std::string line;
    std::vector<std::pair<int, int>> seen;
    while (std::getline(lines, line)) {
        json_error_t error;
        json_t *object = json_loads(line.c_str(), 0, &error);
        ASSERT_TRUE(object) << line;
        seen.emplace_back(json_integer_value(json_object_get(object, "rank")),
                          json_integer_value(json_object_get(object, "bytes")));
        EXPECT_EQ(4096, json_integer_value(json_object_get(object, "size")));
        json_decref(object);
    }
    EXPECT_EQ((std::vector<std::pair<int, int>>{{0, 1000}, {1, 500}, {0, 500}}), seen);
}

TEST_F(PerfSeries, RanksAreAddedUpAndSpreadOverTime)
{
    ASSERT_TRUE(dt_perf_series_init(&series_, &options_, &error_)) << error_.text;
    Add(0, 200, 2000000); // 1 MB in each of the first two periods
    Add(1, 100, 1000000); // and another in the first
    Add(0, 300, 2000000); // nothing, and a rest that is not drawn
    ASSERT_EQ(4u, series_.bins);
    EXPECT_DOUBLE_EQ(2e6, series_.bin[0]);
    EXPECT_DOUBLE_EQ(1e6, series_.bin[1]);
    EXPECT_DOUBLE_EQ(0, series_.bin[2]);
    std::string text =
        Written([&](FILE *out) { EXPECT_TRUE(dt_perf_series_finish(&series_, &options_, out)); });
    EXPECT_NE(std::string::npos, text.find("#      20 |#  \n")) << text;
    EXPECT_NE(std::string::npos, text.find("#      10 |## \n")) << text;
    std::string svg = File(plot_path_);
    EXPECT_EQ(0u, svg.find("<svg ")) << svg;
    EXPECT_NE(std::string::npos, svg.find("MB/s")) << svg;
    EXPECT_EQ(svg.size() - 7, svg.rfind("</svg>\n")) << svg;
}

TEST_F(PerfSeries, AnEarlierPictureIsReplacedAndABadPathIsBadInput)
{
    std::ofstream(plot_path_) << std::string(100000, 'x');
    ASSERT_TRUE(dt_perf_series_init(&series_, &options_, &error_));
    Written([&](FILE *out) { EXPECT_TRUE(dt_perf_series_finish(&series_, &options_, out)); });
    EXPECT_EQ(std::string::npos, File(plot_path_).find("xx"));
    options_.plot_path = "/nowhere/at/all.svg";
    EXPECT_FALSE(dt_perf_series_init(&series_, &options_, &error_));
    EXPECT_EQ(DT_EXIT_USAGE, error_.exit_code);
    EXPECT_NE(nullptr, strstr(error_.text, "--plot /nowhere/at/all.svg")) << error_.text;
    fclose(series_.lines);
}

TEST_F(PerfSeries, AFullDiskIsReported)
{
    options_.series_path = "/dev/full";
    options_.plot_path = nullptr;
    ASSERT_TRUE(dt_perf_series_init(&series_, &options_, &error_)) << error_.text;
    Add(0, 100, 1);
    ::testing::internal::CaptureStderr();
    Written([&](FILE *out) { EXPECT_FALSE(dt_perf_series_finish(&series_, &options_, out)); });
    EXPECT_NE(std::string::npos,
              ::testing::internal::GetCapturedStderr().find("--series /dev/full: could not be written"));
}

TEST_F(PerfSeries, TextStaysWithinALineForAnyLengthAndForNothing)
{
    EXPECT_NE(std::string::npos, Text({}).find("0.0 s"));
    EXPECT_NE(std::string::npos, Text({0, 0}).find("0.2 s"));
    for (size_t count : {79u, 80u, 81u, 1000u, 100001u}) {
        std::istringstream lines(Text(std::vector<double>(count, 5e9)));
        std::string line;
        while (std::getline(lines, line))
            EXPECT_GE(117u, line.size()) << "wider than the table: " << line;
    }
}
} // namespace
