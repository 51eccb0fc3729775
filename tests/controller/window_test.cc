// SPDX-License-Identifier: Apache-2.0
#include "controller/window.h"

#include <gtest/gtest.h>

namespace
{
class Window : public ::testing::Test
{
  protected:
    ~Window() override
    {
        dt_window_free(&window);
    }
    dt_window_counts Take(int32_t pid, uint64_t id, uint64_t messages)
    {
        detour_stat_connection connection = {};
        dt_window_counts grown = {99, 99, 99};

        connection.id = id;
        connection.messages = messages;
        connection.bytes = 10 * messages;
        connection.service_ns = 100 * messages;
        EXPECT_TRUE(dt_window_take(&window, pid, &connection, &grown));
        EXPECT_EQ(grown.bytes, 10 * grown.messages);
        EXPECT_EQ(grown.service_ns, 100 * grown.messages);
        return grown;
    }
    dt_window window = {};
};

TEST_F(Window, TheFirstLookHasNoDifference)
{
    dt_window_begin(&window);
    EXPECT_EQ(dt_window_length_ns(&window, 5000), 0);
    EXPECT_EQ(Take(1, 7, 1000).messages, 0u);
    dt_window_end(&window, 5000);
    EXPECT_EQ(dt_window_length_ns(&window, 5200), 200);
}

TEST_F(Window, ConnectionsAreKeptApartByProcessAndId)
{
    dt_window_begin(&window);
    for (uint64_t i = 0; i < 300; i++)
        Take((int32_t)(i % 3), i, i);
    dt_window_end(&window, 1);
    dt_window_begin(&window);
    for (uint64_t i = 300; i-- > 0;)
        EXPECT_EQ(Take((int32_t)(i % 3), i, 3 * i).messages, 2 * i);
    EXPECT_EQ(Take(1, 0, 5).messages, 0u); /* the id of another process */
    dt_window_end(&window, 2);
}

TEST_F(Window, AProcessThatWasReplacedHasNoNegativeDifference)
{
    dt_window_begin(&window);
    Take(1, 7, 1000);
    dt_window_end(&window, 1);
    dt_window_begin(&window);
    EXPECT_EQ(Take(1, 7, 3).messages, 0u);
    dt_window_end(&window, 2);
}

TEST_F(Window, AProcessHasItsIterationsAndTheShareOfItsWaits)
{
    detour_stat_process process = {};
    dt_window_process grown = {99, 99};
    dt_run_queue run_queue = {1000, 0};

    process.pid = 7;
    process.iterations = 5;
    dt_window_begin(&window);
    ASSERT_TRUE(dt_window_take_process(&window, &process, &run_queue, &grown));
    EXPECT_EQ(grown.iterations, 0u);
    EXPECT_EQ(grown.processor_share, 0);
    dt_window_end(&window, 1);
    process.iterations = 8;
    run_queue = {1300, 100};
    dt_window_begin(&window);
    ASSERT_TRUE(dt_window_take_process(&window, &process, &run_queue, &grown));
    EXPECT_EQ(grown.iterations, 3u);
    EXPECT_DOUBLE_EQ(grown.processor_share, 0.25);
    dt_window_end(&window, 2);
}
} // namespace
