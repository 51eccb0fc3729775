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
