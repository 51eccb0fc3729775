/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/staged/stage_deliver.h"

#include "hostpath/staged/stage_match.h"
#include "tests/hostpath/staged/staged_ends.h"

namespace
{
class StageDeliver : public detour_test::StagedEnds
{
};

TEST_F(StageDeliver, PoolMemoryIsKeptUntilTheMessageIsComplete)
{
    dt_request *receive = Irecv(5000), *send = Isend(5000);
    dt_send_slot *slot = SlotOf(0);
    ASSERT_TRUE(Until([&] {
        dt_stage_match(s);
        return s->next_post == 1;
    }));
    ASSERT_EQ(DT_SEND_POSTED, slot->state);
    dt_stage_reclaim(s);
    EXPECT_EQ(0u, stage->reclaim_next);
    EXPECT_LT(0u, dt_pool_taken(stage->pool));
    PollUntilComplete(slot);
    EXPECT_LT(0u, dt_pool_taken(stage->pool));
    dt_stage_reclaim(s);
    EXPECT_EQ(1u, stage->reclaim_next);
    EXPECT_EQ(0u, dt_pool_taken(stage->pool));
    EXPECT_EQ(0u, stage->undelivered);
    EXPECT_EQ(DT_SEND_FREE, slot->state);
    Wait(send);
    Wait(receive);
}

TEST_F(StageDeliver, AClosedPeerThatTookEagerPayloadsLeavesNothing)
{
    AwaitGrant();
    SendEagerly(100);
    ASSERT_TRUE(Until([&] {
        dt_connection_progress(sender);
        return eager->place[0].is_counted;
    }));
    EXPECT_EQ(1u, stage->undelivered);
    dt_stage_peer_closed(s, s->next + 1);
    EXPECT_EQ(0u, stage->undelivered);
    EXPECT_EQ(DT_OK, (int)sender->failing);
    EXPECT_EQ(0u, dt_pool_taken(stage->pool));
}

/* The queue of completions may be silent: the receiver's CLOSE is proof enough. */
TEST_F(StageDeliver, AClosedPeerThatTookEagerPayloadsNeedsNoCompletions)
{
    AwaitGrant();
    SendEagerly(100);
    eager->place[0].is_counted = false;
    dt_stage_peer_closed(s, s->next + 1);
    EXPECT_EQ(0u, stage->undelivered);
    EXPECT_EQ(DT_OK, (int)sender->failing);
}

TEST_F(StageDeliver, AClosedPeerThatTookFewerFailsTheConnection)
{
    AwaitGrant();
    SendEagerly(100);
    detour_test::ExpectWarning("the receiver closed with 1 messages outstanding");
    dt_stage_peer_closed(s, s->next);
    EXPECT_EQ(DT_PEER_ERROR, (int)sender->failing);
    EXPECT_EQ(1u, stage->undelivered);
}
} // namespace
