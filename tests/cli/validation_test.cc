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

TEST_F(Validation, AListOfLinksIsSpreadOverPasses)
{
    EXPECT_EQ("pass 0: 0-1 2-3\npass 1: 0-2 3-1\n", Print("0-1,0-2,2-3,3-1", 4, false));
}

TEST_F(Validation, WhatIsNoListIsNotKnown)
{
    for (const char *text : {"", "0", "0-", "-1", "0-1,", ",0-1", "0-1;2-3", "0 -1", "0-1 ", "+0-1", "0x1-2",
                             "0-65536", "0-99999999999999999999", "ring,tree"})
        EXPECT_FALSE(dt_validation_is_known(text)) << text;
    std::string most = "0-1";
    for (int i = 1; i < DT_VALIDATION_LINKS_MAX; i++)
        most += ",0-1";
    EXPECT_TRUE(dt_validation_is_known(most.c_str()));
    EXPECT_FALSE(dt_validation_is_known((most + ",0-1").c_str()));
}

TEST_F(Validation, LinksOfRanksThatAreNotThereAreRefused)
{
    detour_arena *arena = detour_arena_create();
    const detour_validation *plan = nullptr;
    detour_error error = {};

    EXPECT_EQ(dt_validation_make(arena, "0-1,3-4", 4, &plan, &error), DETOUR_INVALID);
    EXPECT_STREQ(error.text, "link 3-4: expected two different ranks below 4");
    EXPECT_EQ(dt_validation_make(arena, "1-1", 4, &plan, &error), DETOUR_INVALID);
    EXPECT_EQ(dt_validation_make(arena, "0-1,2-3,1-0", 4, &plan, &error), DETOUR_INVALID);
    EXPECT_STREQ(error.text, "link 0-1 is there twice");
    detour_arena_destroy(arena);
}

TEST_F(Validation, NamesAndListsAreKnown)
{
    EXPECT_TRUE(dt_validation_is_known("0-1"));
    EXPECT_TRUE(dt_validation_is_known("ring"));
    EXPECT_TRUE(dt_validation_is_known("tree"));
    EXPECT_FALSE(dt_validation_is_known("star"));
    EXPECT_STREQ("compute", dt_validation_kind_name(DETOUR_SLOW_COMPUTE));
}
} // namespace
