/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/staged/stage_inflight.h"

#include "tests/hostpath/staged/staged_ends.h"

namespace
{
class StageInflight : public detour_test::StagedEnds
{
  protected:
    StageInflight() : StagedEnds("auto") {}
};

TEST_F(StageInflight, HoldsTheAddedThatNeitherArrivedNorWereLost)
{
    EXPECT_EQ(100u, dt_stage_inflight_add(s, 100));
    EXPECT_EQ(350u, dt_stage_inflight_add(s, 250));
    dt_stage_inflight_lost(s, 100);
    EXPECT_EQ(250u, stage->inflight_bytes);
    dt_stage_inflight_arrived(s, dt_ticks_now(sender->meter.ticks), 250, 350);
    EXPECT_EQ(0u, stage->inflight_bytes);
}

TEST_F(StageInflight, AMessageCountsWithTheBytesOfAllItsParts)
{
    dt_send_slot *slot = SlotOf(5);
    slot->parts = 2;
    slot->part[0].bytes = 300;
    slot->part[1].bytes = 45;
    EXPECT_EQ(345u, dt_stage_message_bytes(slot));
    dt_stage_inflight_add(s, 1000);
    dt_stage_inflight_message(s, slot);
    EXPECT_EQ(1345u, stage->inflight_bytes);
    EXPECT_EQ(1345u, dt_stage_slot(s, slot)->inflight_bytes);
    dt_stage_inflight_lost(s, 1345);
}

TEST_F(StageInflight, MessagesThatTakeFarLongerThanUsualTurnStagingOn)
{
    const dt_ticks *ticks = sender->meter.ticks;
    for (int i = 0; i < 200; i++)
        dt_stage_decide(s, dt_ticks_now(ticks), 1000);
    EXPECT_FALSE(stage->decision.is_on);
    /* Handed over when the clock of stamps began: seconds ago at least. */
    for (int i = 0; i < 10 && !stage->decision.is_on; i++)
        dt_stage_decide(s, 1, 1000);
    EXPECT_TRUE(stage->decision.is_on);
    stage->decision.is_on = false;
}
} // namespace
