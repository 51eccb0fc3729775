/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/grid.h"

#include <gtest/gtest.h>

TEST(Grid, RanksAreNumberedReplicaByReplica)
{
    unsigned rank = 0;
    for (int32_t replica = 0; replica < 3; replica++) {
        for (int32_t device = 0; device < 4; device++, rank++) {
            EXPECT_EQ(dt_pipeline_rank_of(4, {device, replica}), rank);
            EXPECT_EQ(dt_pipeline_position_of(4, rank).device, device);
            EXPECT_EQ(dt_pipeline_position_of(4, rank).replica, replica);
        }
    }
}
