/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/pairs_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

namespace
{
class PairsReport : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        arena = detour_arena_create();
        options.pairs = "ring";
        options.slow_permille = 1100;
        options.bytes_min = 4096;
        options.iterations = 20;
        options.job.ranks = 8;
        times.pair_count = 8;
        std::fill_n(times.pair_ns, 8, 1000000);
        std::fill_n(times.compute_ns, 8, 500000);
    }
    void TearDown() override
    {
        detour_arena_destroy(arena);
    }
    void Judge()
    {
        ASSERT_EQ(DETOUR_OK, dt_perf_pairs_judge(arena, options.pairs, options.job.ranks,
                                                 options.slow_permille, &times, &result, &error))
            << error.text;
    }
    template <typename Print>
    std::string Text(Print print)
    {
        char *text = nullptr;
        size_t bytes = 0;
        FILE *file = open_memstream(&text, &bytes);
        print(file);
        fclose(file);
        std::string made = text;
        free(text);
        return made;
    }

    detour_arena *arena = nullptr;
    detour_error error = {};
    dt_perf_options options = {};
    dt_perf_pairs_times times = {};
    dt_perf_pairs_result result = {};
};

TEST_F(PairsReport, HealthyTimesAreThoseOfNothingSlow)
{
    Judge();
    std::string text = Text([&](FILE *file) { dt_perf_pairs_print(file, &options, &times, &result); });
    EXPECT_NE(std::string::npos, text.find("\npair        1     7     0        1.000\n")) << text;
    EXPECT_NE(std::string::npos, text.find("\nslow: nothing\n")) << text;
}

TEST_F(PairsReport, ComputingIsOfALoopOrOfTheGpu)
{
    auto print = [&](FILE *file) { dt_perf_pairs_print(file, &options, &times, &result); };
    auto print_json = [&](FILE *file) { dt_perf_pairs_print_json(file, &options, &times, &result); };
    strcpy(times.compute_text, "rank 2: no GPU");
    Judge();
    std::string text = Text(print);
    EXPECT_NE(std::string::npos, text.find("compute     -     7     -        0.500\n"
                                           "compute: a loop on the processor: rank 2: no GPU\n"))
        << text;
    EXPECT_NE(std::string::npos, Text(print_json).find("\"compute\": \"loop\"")) << Text(print_json);
    times.is_gemm = 1;
    strcpy(times.compute_text, "libcublas.so.12");
    text = Text(print);
    EXPECT_NE(std::string::npos,
              text.find("compute     -     7     -        0.500  274.88 TFLOP/s\n"
                        "compute: products of 4096 x 4096 floats on the GPU, by libcublas.so.12\n"))
        << text;
    text = Text(print_json);
    EXPECT_NE(std::string::npos, text.find("\"compute\": \"gemm\"")) << text;
    EXPECT_NE(std::string::npos, text.find("\"compute_tflops\": [\n  274.8")) << text;
}

TEST_F(PairsReport, OnlyTimesAboveTheThresholdOfALargeJobHaveARow)
{
    options.job.ranks = 1024;
    times.pair_count = 1024;
    std::fill_n(times.pair_ns, 1024, 1000000);
    std::fill_n(times.compute_ns, 1024, 500000);
    times.pair_ns[2] = 3000000; /* of pass 0: the ranks 4 and 5 */
    times.compute_ns[1023] = 900000;
    strcpy(times.compute_text, "rank 0: no GPU");
    Judge();
    std::string text = Text([&](FILE *file) { dt_perf_pairs_print(file, &options, &times, &result); });
    EXPECT_EQ("         PASS  FROM    TO     TIME(ms)\n"
              "pair        0     4     5        3.000\n"
              "pair: 1023 times up to 1.10 medians of 1.000 ms are not listed; -J FILE has all\n"
              "compute     -  1023     -        0.900\n"
              "compute: 1023 times up to 1.10 medians of 0.500 ms are not listed; -J FILE has all\n"
              "compute: a loop on the processor: rank 0: no GPU\n"
              "slow: the computing of rank 1023, 1.80 times the others' time\n"
              "slow: the link between the ranks 4 and 5, 3.00 times the others' time\n"
              "took: set-up 0.000 s, exchange 0.000 s\n",
              text);
    std::string json = Text([&](FILE *file) { dt_perf_pairs_print_json(file, &options, &times, &result); });
    EXPECT_NE(std::string::npos, json.find("\"from\": 1023,\n   \"to\": 0"));
}

TEST_F(PairsReport, EachCauseIsALineAndAnObject)
{
    times.pair_ns[2] = 3000000; /* of pass 0: the ranks 4 and 5 */
    times.compute_ns[6] = 900000;
    Judge();
    std::string text = Text([&](FILE *file) { dt_perf_pairs_print(file, &options, &times, &result); });
    EXPECT_NE(std::string::npos, text.find("slow: the computing of rank 6, 1.80 times the others' time\n"))
        << text;
    EXPECT_NE(std::string::npos,
              text.find("slow: the link between the ranks 4 and 5, 3.00 times the others' time\n"))
        << text;
    std::string json =
        Text([&](FILE *file) { EXPECT_TRUE(dt_perf_pairs_print_json(file, &options, &times, &result)); });
    EXPECT_NE(std::string::npos, json.find("\"kind\": \"compute\",\n   \"rank\": 6,\n   \"peer\": null"))
        << json;
    EXPECT_NE(std::string::npos, json.find("\"kind\": \"link\",\n   \"rank\": 4,\n   \"peer\": 5")) << json;
}
} // namespace
