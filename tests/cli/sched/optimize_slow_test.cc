// SPDX-License-Identifier: Apache-2.0
#include "cli/sched/optimize_slow.h"

#include <gtest/gtest.h>

#include <vector>

TEST(OptimizeSlow, ReadsLinksAndDevices)
{
    struct dt_optimize_slow slow = {};
    EXPECT_EQ(dt_optimize_slow_last(&slow), -1);
    EXPECT_TRUE(dt_optimize_slow_add_link(&slow, "0-1=40ms"));
    EXPECT_TRUE(dt_optimize_slow_add_link(&slow, "12-3=1.5us"));
    EXPECT_TRUE(dt_optimize_slow_add_device(&slow, "7=1.5x"));
    EXPECT_EQ(slow.links[0].delay_ns, 40000000);
    EXPECT_EQ(slow.links[1].a, 12);
    EXPECT_EQ(slow.links[1].b, 3);
    EXPECT_EQ(slow.links[1].delay_ns, 1500);
    EXPECT_DOUBLE_EQ(slow.devices[0].factor, 1.5);
    EXPECT_EQ(dt_optimize_slow_last(&slow), 12);
}

TEST(OptimizeSlow, RefusesOtherForms)
{
    struct dt_optimize_slow slow = {};
    for (const char *text :
         {"", "0-1", "0-1=40", "0-1=ms", "0-1=40m", "0-0=1ms", "-1-0=1ms", "0--1=1ms", "0-1=-1ms", "0-1=101s",
          "0-1=nanms", "0-1=1ms,to=3", " 0-1=1ms", "0-1=+1ms", "0 -1=1ms"})
        EXPECT_FALSE(dt_optimize_slow_add_link(&slow, text)) << text;
    for (const char *text :
         {"", "1", "1=2", "1=x", "1=2xx", "-1=2x", "1=-2x", "1=0x", "1=101x", "1=nanx", "1= 2x"})
        EXPECT_FALSE(dt_optimize_slow_add_device(&slow, text)) << text;
    EXPECT_EQ(slow.link_count + slow.device_count, 0);
    for (int i = 0; i < DT_OPTIMIZE_SLOW_MAX; i++)
        EXPECT_TRUE(dt_optimize_slow_add_link(&slow, "0-1=1ms"));
    EXPECT_FALSE(dt_optimize_slow_add_link(&slow, "0-1=1ms"));
}

TEST(OptimizeSlow, ChangesBothDirectionsAndTheSpeed)
{
    const struct detour_model_device healthy[] = {{0, 1000}, {5, 1000}, {0, 500}};
    struct detour_model model = {};
    struct dt_optimize_slow slow = {};
    std::vector<struct detour_model_link> links(9), given(9, {7, 100, true});
    std::vector<struct detour_model_device> devices(3);
    model.device_count = 3;
    model.devices = healthy;
    ASSERT_TRUE(dt_optimize_slow_add_link(&slow, "2-0=1us"));
    ASSERT_TRUE(dt_optimize_slow_add_device(&slow, "2=4x"));
    ASSERT_TRUE(dt_optimize_slow_add_device(&slow, "1=0.5x"));
    dt_optimize_slow_apply(&slow, &model, links.data(), devices.data());
    EXPECT_EQ(links[0 * 3 + 2].latency_ns, 1000);
    EXPECT_EQ(links[2 * 3 + 0].latency_ns, 1000);
    EXPECT_EQ(links[1].latency_ns, 0);
    EXPECT_EQ(devices[0].speed_permille, 1000);
    EXPECT_EQ(devices[1].speed_permille, 2000);
    EXPECT_EQ(devices[1].capacity_bytes, 5);
    EXPECT_EQ(devices[2].speed_permille, 125);
    model.links = given.data();
    dt_optimize_slow_apply(&slow, &model, links.data(), devices.data());
    EXPECT_EQ(links[2].latency_ns, 1007);
    EXPECT_EQ(links[2].bytes_per_s, 100);
    EXPECT_EQ(links[1].latency_ns, 7);
}
