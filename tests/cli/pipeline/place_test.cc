// SPDX-License-Identifier: Apache-2.0
// The place of a rank before any exchange; exchanges need a job (process.pipeline).
#include "cli/pipeline/place.h"

#include <gtest/gtest.h>

#include <string>

namespace
{
TEST(Place, BeginsAtTheRanksPositionWithItsParameters)
{
    static struct dt_pipeline_options options;
    static struct dt_pipeline_place place;
    struct detour_stage stages[2] = {};
    struct detour_profile profile = {};
    struct dt_job_error error = {};
    options.devices = options.replicas = 2;
    options.microbatches = 4;
    options.gradient_bytes = 80;
    stages[1].device = 1;
    profile.stage_count = profile.device_count = 2;
    profile.stages = stages;
    dt_pipeline_place_init(&place, &options, 3);
    EXPECT_EQ(place.home.device, 1);
    EXPECT_EQ(place.home.replica, 1);
    EXPECT_EQ(place.ranks[3], 3u);
    ASSERT_TRUE(dt_pipeline_place_create_parameters(&place, &profile));
    EXPECT_EQ(place.parameters.elements, nullptr); /* nothing is exchanged */
    ASSERT_TRUE(dt_pipeline_exchanges_add(&options.exchanges, "1-2@3"));
    ASSERT_TRUE(dt_pipeline_place_create_parameters(&place, &profile));
    EXPECT_EQ(place.parameters.count, 10u);
    EXPECT_TRUE(dt_pipeline_place_check(&place, 0, &error));
    place.parameters.elements[9]--;
    EXPECT_FALSE(dt_pipeline_place_check(&place, 0, &error));
    EXPECT_NE(std::string(error.text).find("rank 3: parameter 9 of device 1"), std::string::npos)
        << error.text;
    dt_pipeline_place_free(&place);
}
} // namespace
