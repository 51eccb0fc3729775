/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/validation.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace
{
class Validation : public ::testing::Test
{
  protected:
    /* The plan as it is printed. */
    static std::string Print(const char *name, int32_t ranks, bool json)
    {
        detour_arena *arena = detour_arena_create();
        const detour_validation *plan = nullptr;
        detour_error error = {};
        char *text = nullptr;
        size_t bytes = 0;
        FILE *file = open_memstream(&text, &bytes);
        EXPECT_EQ(DETOUR_OK, dt_validation_make(arena, name, ranks, &plan, &error)) << error.text;
        if (json)
            EXPECT_TRUE(dt_validation_print_json(file, plan));
        else
            dt_validation_print(file, plan);
        fclose(file);
        std::string made = text;
        free(text);
        detour_arena_destroy(arena);
        return made;
    }
};

TEST_F(Validation, PassesAreLines)
{
    EXPECT_EQ("pass 0: 0-1\npass 1: 1-0\n", Print("ring", 2, false));
    EXPECT_EQ("pass 0: 0-1\npass 1: 1-2\npass 2: 2-0\n", Print("ring", 3, false));
    EXPECT_EQ("pass 0: 0-1 2-3 4-5 6-7\npass 1: 1-2 3-4 5-6 7-0\n", Print("ring", 8, false));
    EXPECT_EQ("pass 0: 1-0\n", Print("tree", 2, false));
}

TEST_F(Validation, JsonHasThePairsOfEachPass)
{
    EXPECT_EQ("{\"version\": 1, \"ranks\": 4, \"passes\": [[[0, 1], [2, 3]], [[1, 2], [3, 0]]]}\n",
              Print("ring", 4, true));
}

TEST_F(Validation, OnlyTwoNamesAreKnown)
{
    EXPECT_TRUE(dt_validation_is_known("ring"));
    EXPECT_TRUE(dt_validation_is_known("tree"));
    EXPECT_FALSE(dt_validation_is_known("star"));
    EXPECT_STREQ("compute", dt_validation_kind_name(DETOUR_SLOW_COMPUTE));
}
} // namespace
