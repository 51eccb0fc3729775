// SPDX-License-Identifier: Apache-2.0
#include "cli/perf/pairs_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "cli/validation.h"
#include "tests/obs/folder.h"

namespace
{
class PerfPairsFile : public ::testing::Test
{
  protected:
    /* The list; "": it is refused. */
    std::string Read(const std::string &text)
    {
        std::ofstream(path) << text;
        char *list = dt_perf_pairs_read_file(path.c_str());
        const std::string read = list ? list : "";
        free(list);
        return read;
    }
    Folder folder;
    const std::string path = folder.path + "/plan.json";
};

TEST_F(PerfPairsFile, ItsNameEndsWithJson)
{
    EXPECT_TRUE(dt_perf_pairs_is_file("a.json"));
    EXPECT_FALSE(dt_perf_pairs_is_file("ring"));
    EXPECT_FALSE(dt_perf_pairs_is_file("0-1,2-3"));
    EXPECT_FALSE(dt_perf_pairs_is_file(".json"));
}

/* Every link of each plan that is printed is in the list, in its order. */
TEST_F(PerfPairsFile, ThePrintedPlanIsRead)
{
    for (const char *name : {"ring", "tree", "0-1,2-3,0-2"}) {
        detour_arena *arena = detour_arena_create();
        const detour_validation *plan;
        std::string expected;

        ASSERT_EQ(dt_validation_make(arena, name, 9, &plan, nullptr), DETOUR_OK);
        for (int32_t i = 0; i < plan->first_pair[plan->pass_count]; i++)
            expected += (i ? "," : "") + std::to_string(plan->pairs[i].from) + "-" +
                        std::to_string(plan->pairs[i].to);
        FILE *out = fopen(path.c_str(), "w");
        ASSERT_TRUE(dt_validation_print_json(out, plan));
        ASSERT_EQ(fclose(out), 0);
        char *list = dt_perf_pairs_read_file(path.c_str());
        ASSERT_NE(list, nullptr);
        EXPECT_EQ(std::string(list), expected);
        EXPECT_TRUE(dt_validation_is_known(list));
        free(list);
        detour_arena_destroy(arena);
    }
}

TEST_F(PerfPairsFile, AWrongFileIsOneLine)
{
    testing::internal::CaptureStderr();
    EXPECT_EQ(Read("{"), "");
    EXPECT_EQ(Read(R"({"version": 2, "ranks": 4, "passes": [[[0, 1]]]})"), "");
    EXPECT_EQ(Read(R"({"version": 1, "ranks": 4})"), "");
    for (const char *pair : {"7", "[0]", "[0, 1, 2]", "[0, -1]", "[0, 99999999999]", "[0, \"1\"]"})
        EXPECT_EQ(Read(R"({"version": 1, "ranks": 4, "passes": [[)" + std::string(pair) + "]]}"), "") << pair;
    std::string many = "[0, 1]";
    for (int i = 0; i < DT_VALIDATION_LINKS_MAX; i++)
        many += ",[0, 1]";
    EXPECT_EQ(Read("{\"version\": 1, \"passes\": [[" + many + "]]}"), "");
    EXPECT_EQ(dt_perf_pairs_read_file((path + "-none").c_str()), nullptr);
    const std::string lines = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 11) << lines;
    EXPECT_NE(lines.find(path + ": version: expected 1\n"), std::string::npos) << lines;
}
} // namespace
