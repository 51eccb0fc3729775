// SPDX-License-Identifier: Apache-2.0
// When a checkpoint is due, and from which one all ranks continue. Jobs that do so: process.pipeline.
#include "cli/pipeline/checkpoint.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace
{
struct dt_pipeline_checkpoint_offer Offer(std::initializer_list<uint32_t> valid)
{
    struct dt_pipeline_checkpoint_offer offer = {};
    for (uint32_t iterations : valid)
        offer.valid[offer.count++] = iterations;
    return offer;
}
} // namespace

TEST(Checkpoint, IsDueEveryFewIterationsAndOnRequest)
{
    struct dt_pipeline_checkpoints checkpoints = {};
    EXPECT_EQ(dt_pipeline_checkpoint_due(&checkpoints, 4, true), DT_PIPELINE_CHECKPOINT_NONE);
    checkpoints.directory = "/tmp";
    EXPECT_EQ(dt_pipeline_checkpoint_due(&checkpoints, 4, false), DT_PIPELINE_CHECKPOINT_NONE);
    EXPECT_EQ(dt_pipeline_checkpoint_due(&checkpoints, 4, true), DT_PIPELINE_CHECKPOINT_EARLY);
    checkpoints.every = 2;
    EXPECT_EQ(dt_pipeline_checkpoint_due(&checkpoints, 4, true), DT_PIPELINE_CHECKPOINT_PERIODIC);
    EXPECT_EQ(dt_pipeline_checkpoint_due(&checkpoints, 5, false), DT_PIPELINE_CHECKPOINT_NONE);
}

TEST(Checkpoint, TheNewestOneOfAllRanksIsChosen)
{
    const struct dt_pipeline_checkpoint_offer interrupted[] = {Offer({8, 4}), Offer({4}), Offer({12, 8, 4})};
    EXPECT_EQ(dt_pipeline_checkpoint_newest_of_all(interrupted, 3), 4u);
    EXPECT_EQ(dt_pipeline_checkpoint_newest_of_all(interrupted, 1), 8u);
    const struct dt_pipeline_checkpoint_offer apart[] = {Offer({8}), Offer({4})};
    EXPECT_EQ(dt_pipeline_checkpoint_newest_of_all(apart, 2), 0u);
    const struct dt_pipeline_checkpoint_offer missing[] = {Offer({8}), Offer({})};
    EXPECT_EQ(dt_pipeline_checkpoint_newest_of_all(missing, 2), 0u);
}
