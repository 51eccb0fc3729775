/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/slow.h"

#include <gtest/gtest.h>

TEST(PipelineSlow, ReadsLinks)
{
    struct dt_pipeline_slow slow = {};
    ASSERT_TRUE(dt_pipeline_slow_add_link(&slow, "2-3=20ms"));
    ASSERT_TRUE(dt_pipeline_slow_add_link(&slow, "3-0=1.5s,serial,from=4,to=9"));
    ASSERT_TRUE(dt_pipeline_slow_add_link(&slow, "0-1=250us,to=2,serial"));
    ASSERT_EQ(slow.link_count, 3u);
    EXPECT_EQ(slow.links[0].delay_ns, 20000000);
    EXPECT_FALSE(slow.links[0].serial);
    EXPECT_EQ(slow.links[0].period.to, UINT32_MAX);
    EXPECT_EQ(slow.links[1].a.device, 0) << "a link has no direction";
    EXPECT_EQ(slow.links[1].b.device, 3);
    EXPECT_EQ(slow.links[1].b.replica, DT_PIPELINE_EVERY_REPLICA);
    EXPECT_EQ(slow.links[1].delay_ns, 1500000000);
    EXPECT_TRUE(slow.links[1].serial);
    EXPECT_EQ(slow.links[2].delay_ns, 250000);
    EXPECT_FALSE(dt_pipeline_period_has(&slow.links[1].period, 3));
    EXPECT_TRUE(dt_pipeline_period_has(&slow.links[1].period, 4));
    EXPECT_FALSE(dt_pipeline_period_has(&slow.links[1].period, 9));
}

/* Position 2@1 is device 2 of replica 1. */
TEST(PipelineSlow, ReadsPositionsInAGrid)
{
    struct dt_pipeline_slow slow = {};
    struct dt_pipeline_position peer;
    char text[DT_PIPELINE_POSITION_BYTES];
    for (const char *link : {"0-1=1ms", "1@1-0@1=1ms", "0@2-0@1=1ms"})
        ASSERT_TRUE(dt_pipeline_slow_add_link(&slow, link)) << link;
    EXPECT_FALSE(dt_pipeline_slow_link_is_dp(&slow.links[1]));
    EXPECT_TRUE(dt_pipeline_slow_link_is_dp(&slow.links[2]));
    EXPECT_TRUE(dt_pipeline_slow_link_joins(&slow.links[0], {0, 3}, {1, 3})) << "of every replica";
    EXPECT_TRUE(dt_pipeline_slow_link_joins(&slow.links[0], {1, 3}, {0, 3})) << "in both directions";
    EXPECT_FALSE(dt_pipeline_slow_link_joins(&slow.links[0], {0, 3}, {1, 2}));
    EXPECT_FALSE(dt_pipeline_slow_link_joins(&slow.links[0], {0, 3}, {2, 3}));
    EXPECT_TRUE(dt_pipeline_slow_link_joins(&slow.links[1], {0, 1}, {1, 1}));
    EXPECT_FALSE(dt_pipeline_slow_link_joins(&slow.links[1], {0, 0}, {1, 0}));
    EXPECT_TRUE(dt_pipeline_slow_link_joins(&slow.links[2], {0, 1}, {0, 2}));
    EXPECT_TRUE(dt_pipeline_slow_link_joins(&slow.links[2], {0, 2}, {0, 1}));
    EXPECT_FALSE(dt_pipeline_slow_link_joins(&slow.links[2], {0, 0}, {0, 1}));
    ASSERT_TRUE(dt_pipeline_slow_link_peer(&slow.links[0], {1, 7}, &peer));
    EXPECT_EQ(peer.device, 0);
    EXPECT_EQ(peer.replica, 7);
    EXPECT_FALSE(dt_pipeline_slow_link_peer(&slow.links[2], {0, 0}, &peer));
    EXPECT_STREQ(dt_pipeline_position_text({2, 1}, text), "2@1");
    EXPECT_STREQ(dt_pipeline_position_text({2, DT_PIPELINE_EVERY_REPLICA}, text), "2");

    ASSERT_TRUE(dt_pipeline_slow_add_device(&slow, "1@2=3x"));
    EXPECT_EQ(dt_pipeline_slow_permille(&slow, {1, 2}, 0), 3000u);
    EXPECT_EQ(dt_pipeline_slow_permille(&slow, {1, 1}, 0), 1000u);
    EXPECT_EQ(dt_pipeline_slow_permille(&slow, {2, 2}, 0), 1000u);
}

TEST(PipelineSlow, RefusesOtherTexts)
{
    struct dt_pipeline_slow slow = {};
    for (const char *text : {"",
                             "2",
                             "2-3",
                             "2-3=",
                             "2-3=20",
                             "2-3=20m",
                             "2-3=20msx",
                             "2-2=20ms",
                             "-2-3=20ms",
                             "2-64=20ms",
                             "2.5-3=1ms",
                             "2-3=nanms",
                             "2-3=-1ms",
                             "2-3=11s",
                             "2-3=20ms,from=5,to=5",
                             "2-3=20ms,from=",
                             "2-3=20ms,parallel",
                             "2@0-3=20ms",
                             "2-2@1=20ms",
                             "2@1-2@1=20ms",
                             "2@0-3@1=20ms",
                             "2@-3@0=20ms",
                             "2@64-3@64=20ms"})
        EXPECT_FALSE(dt_pipeline_slow_add_link(&slow, text)) << text;
    for (const char *text : {"", "1", "1=", "1=1.5", "1=x", "1=1.5xx", "1=0x", "1=101x", "1=1.5x,serial",
                             "64=2x", "1@=2x", "1@64=2x"})
        EXPECT_FALSE(dt_pipeline_slow_add_device(&slow, text)) << text;
    EXPECT_EQ(slow.link_count + slow.device_count, 0u);
}

TEST(PipelineSlow, ReadsTheRnicThatFails)
{
    for (const char *text :
         {"", "soft0", "soft0@", "@iteration=5", "soft0@iteration=", "soft0@iteration=5,back=5",
          "soft0@iteration=5,back", "soft0@iteration=5x", "so ft@iteration=5", "soft0;down@iteration=5",
          "a-name-that-is-longer-than-an-rnic@iteration=5"}) {
        struct dt_pipeline_slow slow = {};
        EXPECT_FALSE(dt_pipeline_slow_set_kill(&slow, text)) << text;
    }
    struct dt_pipeline_slow slow = {};
    ASSERT_TRUE(dt_pipeline_slow_set_kill(&slow, "mlx5_0@iteration=5,back=8"));
    EXPECT_STREQ(slow.kill.nic, "mlx5_0");
    EXPECT_EQ(slow.kill.period.from, 5u);
    EXPECT_EQ(slow.kill.period.to, 8u);
    EXPECT_FALSE(dt_pipeline_slow_set_kill(&slow, "soft0@iteration=1")) << "one is enough";
}

TEST(PipelineSlow, TablesHaveAnEnd)
{
    struct dt_pipeline_slow slow = {};
    for (int i = 0; i < DT_PIPELINE_SLOW_MAX; i++) {
        EXPECT_TRUE(dt_pipeline_slow_add_link(&slow, "0-1=1ms"));
        EXPECT_TRUE(dt_pipeline_slow_add_device(&slow, "0=2x"));
    }
    EXPECT_FALSE(dt_pipeline_slow_add_link(&slow, "0-1=1ms"));
    EXPECT_FALSE(dt_pipeline_slow_add_device(&slow, "0=2x"));
}

TEST(PipelineSlow, FactorsOfADeviceMultiply)
{
    struct dt_pipeline_slow slow = {};
    ASSERT_TRUE(dt_pipeline_slow_add_device(&slow, "1=1.5x"));
    ASSERT_TRUE(dt_pipeline_slow_add_device(&slow, "1=2x,from=3"));
    EXPECT_EQ(dt_pipeline_slow_permille(&slow, {0, 0}, 5), 1000u);
    EXPECT_EQ(dt_pipeline_slow_permille(&slow, {1, 0}, 2), 1500u);
    EXPECT_EQ(dt_pipeline_slow_permille(&slow, {1, 0}, 3), 3000u);
}
