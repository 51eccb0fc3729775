// SPDX-License-Identifier: Apache-2.0
#include "sched/arena.h"

#include <cstring>

#include "tests/harness/harness.h"
#include "tests/sched/sched_test.h"

using sched_test::Arena;

TEST(Arena, ZeroesAndAligns)
{
    Arena arena;
    for (size_t bytes : {1, 7, 16, 1000, 200000}) {
        auto *memory = static_cast<unsigned char *>(dt_arena_alloc(arena, bytes, 1));
        ASSERT_NE(memory, nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 16, 0u);
        for (size_t i = 0; i < bytes; i++)
            ASSERT_EQ(memory[i], 0);
        memset(memory, 0xab, bytes);
    }
}

TEST(Arena, RewindGivesTheSameMemoryAgain)
{
    Arena arena;
    ASSERT_NE(dt_arena_alloc(arena, 100, 1), nullptr);
    struct dt_arena_mark mark = dt_arena_save(arena);
    void *first = dt_arena_alloc(arena, 1000, 8);
    ASSERT_NE(dt_arena_alloc(arena, 1000000, 1), nullptr);
    dt_arena_rewind(arena, mark);
    EXPECT_EQ(dt_arena_alloc(arena, 1000, 8), first);
    detour_arena_reset(arena);
    ASSERT_NE(dt_arena_alloc(arena, 1000000, 1), nullptr);
}

TEST(Arena, RefusesOverflow)
{
    Arena arena;
    EXPECT_EQ(dt_arena_alloc(arena, SIZE_MAX / 2, 4), nullptr);
    EXPECT_EQ(dt_arena_alloc(arena, SIZE_MAX, 1), nullptr);
}

TEST(Arena, ReportsThatMemoryIsOut)
{
    detour_test_fail_alloc(0);
    EXPECT_EQ(detour_arena_create(), nullptr);
    Arena arena;
    detour_test_fail_alloc(0);
    EXPECT_EQ(dt_arena_alloc(arena, 1, 1), nullptr);
    EXPECT_NE(dt_arena_alloc(arena, 1, 1), nullptr);
}
