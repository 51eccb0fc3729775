// SPDX-License-Identifier: Apache-2.0
#include "sched/generator.h"

#include "tests/sched/made.h"

using namespace sched_test;

TEST(Generator, EveryAlgorithmHasANameASummaryAndAFunction)
{
    for (int i = 0; i < DETOUR_ALGORITHM_COUNT; i++) {
        enum detour_algorithm algorithm = static_cast<enum detour_algorithm>(i), found;
        const struct dt_generator *row = dt_generator_find(algorithm);
        ASSERT_NE(row, nullptr) << i;
        EXPECT_NE(row->generate, nullptr);
        EXPECT_STREQ(detour_algorithm_name(algorithm), row->name);
        EXPECT_STREQ(detour_algorithm_summary(algorithm), row->summary);
        ASSERT_TRUE(detour_algorithm_find(row->name, &found));
        EXPECT_EQ(found, algorithm);
    }
}

TEST(Generator, AnUnknownAlgorithmIsRefused)
{
    enum detour_algorithm none = static_cast<enum detour_algorithm>(DETOUR_ALGORITHM_COUNT), found;
    Profile profile = Profile::Uniform(1, 1, 10, 10, 10);
    Made made(profile);
    struct dt_result result;
    EXPECT_EQ(detour_algorithm_name(none), nullptr);
    EXPECT_EQ(detour_algorithm_summary(none), nullptr);
    EXPECT_FALSE(detour_algorithm_find("fastest", &found));
    EXPECT_FALSE(detour_algorithm_find(nullptr, &found));
    EXPECT_EQ(dt_generate_with(&made.call, made.p, none, &result), DETOUR_INVALID);
    EXPECT_STREQ(made.error.text, "there is no algorithm number 13");
}

TEST(Generator, AFailureGivesItsMemoryBack)
{
    Profile profile = Profile::Uniform(4, 8, 10, 10, 10);
    Made made(profile.MaxInflight({1, 1, 1, 1}));
    struct dt_result result;
    struct dt_arena_mark before = dt_arena_save(made.arena);
    EXPECT_EQ(dt_generate_with(&made.call, made.p, DETOUR_ALGORITHM_ZB_H2, &result), DETOUR_MEMORY_TOO_SMALL);
    EXPECT_EQ(made.error.status, DETOUR_MEMORY_TOO_SMALL);
    struct dt_arena_mark after = dt_arena_save(made.arena);
    EXPECT_EQ(memcmp(&before, &after, sizeof before), 0);
}
