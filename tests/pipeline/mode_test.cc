// SPDX-License-Identifier: Apache-2.0
#include "pipeline/mode.h"

#include <gtest/gtest.h>

TEST(Mode, HasAName)
{
    for (int i = 0; i < DT_PIPELINE_MODE_COUNT; i++) {
        enum dt_pipeline_mode mode = DT_PIPELINE_MODE_COUNT;
        ASSERT_TRUE(
            dt_pipeline_mode_find(dt_pipeline_mode_name(static_cast<enum dt_pipeline_mode>(i)), &mode));
        EXPECT_EQ(mode, i);
    }
    enum dt_pipeline_mode mode;
    EXPECT_FALSE(dt_pipeline_mode_find("ncc", &mode));
    EXPECT_EQ(dt_pipeline_mode_name(DT_PIPELINE_MODE_COUNT), nullptr);
}

TEST(Mode, FindsWaysOfLaunchingByName)
{
    EXPECT_STREQ(dt_pipeline_launch_at(0)->name, "sends");
    for (unsigned i = 0; const struct dt_pipeline_launch *launch = dt_pipeline_launch_at(i); i++)
        EXPECT_EQ(dt_pipeline_launch_find(launch->name), launch);
    EXPECT_EQ(dt_pipeline_launch_find("batche"), nullptr);
    EXPECT_TRUE(dt_pipeline_launch_find("batched")->batches);
}
