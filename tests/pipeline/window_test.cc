// SPDX-License-Identifier: Apache-2.0
#include "pipeline/window.h"

#include <gtest/gtest.h>

TEST(Window, PostsWhatIsReachedAndHasASlot)
{
    struct dt_pipeline_window window = {};
    dt_pipeline_window_open(&window, 4, 2);
    EXPECT_FALSE(dt_pipeline_window_can_post(&window)) << "nothing is reached";
    dt_pipeline_window_reach(&window, 3);
    EXPECT_EQ(dt_pipeline_window_post(&window), 0u);
    EXPECT_EQ(dt_pipeline_window_post(&window), 1u);
    EXPECT_FALSE(dt_pipeline_window_can_post(&window)) << "both slots are in use";
    EXPECT_EQ(dt_pipeline_window_complete(&window, 77), 0u);
    EXPECT_EQ(window.freed_ns, 77u);
    EXPECT_EQ(dt_pipeline_window_post(&window), 2u);
    EXPECT_EQ(dt_pipeline_window_complete(&window, 88), 1u);
    EXPECT_EQ(window.freed_ns, 77u) << "no transfer was waiting at 88";
    EXPECT_FALSE(dt_pipeline_window_can_post(&window)) << "the fourth is not reached";
    dt_pipeline_window_reach(&window, 1);
    EXPECT_EQ(dt_pipeline_window_post(&window), 3u);
    dt_pipeline_window_complete(&window, 90);
    EXPECT_FALSE(dt_pipeline_window_is_done(&window));
    dt_pipeline_window_complete(&window, 91);
    EXPECT_TRUE(dt_pipeline_window_is_done(&window));
}

TEST(Window, HasNoLimitWithoutSlots)
{
    struct dt_pipeline_window window = {};
    dt_pipeline_window_open(&window, 100, 0);
    dt_pipeline_window_reach(&window, 100);
    for (uint64_t i = 0; i < 100; i++)
        EXPECT_EQ(dt_pipeline_window_post(&window), i);
    EXPECT_FALSE(dt_pipeline_window_can_post(&window));
}

TEST(WindowDeathTest, CountsStayInOrder)
{
    struct dt_pipeline_window window = {};
    dt_pipeline_window_open(&window, 2, 1);
    EXPECT_DEATH(dt_pipeline_window_complete(&window, 1), "completed <= window->posted");
    EXPECT_DEATH(dt_pipeline_window_post(&window), "posted <= window->reached");
    EXPECT_DEATH(dt_pipeline_window_reach(&window, 3), "reached <= window->total");
    EXPECT_DEATH(dt_pipeline_window_open(&window, 2, 1), "is_done");
}
