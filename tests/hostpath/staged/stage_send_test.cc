/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/staged/stage_send.h"

#include "tests/hostpath/staged/staged_ends.h"

namespace
{
class StageSend : public detour_test::StagedEnds
{
};

TEST_F(StageSend, AnIsendIsDoneWithoutAnIrecvAndItsBufferIsTheCallersAgain)
{
    std::vector<uint8_t> sent(from.begin(), from.begin() + 5000);

    Wait(Isend(5000));
    EXPECT_EQ(0u, from_memory->open);
    std::fill(from.begin(), from.begin() + 5000, 0xee);
    dt_request *receive = Irecv(5000);
    ASSERT_TRUE(Until([&] {
        dt_connection_progress(sender);
        return IsDone(receive);
    }));
    EXPECT_EQ(0, memcmp(sent.data(), to.data(), 5000));
    AwaitDelivery();
}

TEST_F(StageSend, ALargePayloadIsCopiedInPieces)
{
    Transfer(kBytes);
    AwaitDelivery();
    EXPECT_EQ(1u, sender->meter.row->staged_count);
    EXPECT_EQ(kBytes, sender->meter.row->staged_bytes);
}

TEST_F(StageSend, WithoutRoomAnIsendWaitsForItsClearToSendLikeADirectOne)
{
    for (int i = 0; i < DT_STAGED_MAX; i++)
        ASSERT_NE(nullptr, Isend(8, 1)) << i;
    EXPECT_EQ(nullptr, Isend(8, 1)); // would overtake those with its tag
    EXPECT_EQ(nullptr, Isend(8, 2));
    EXPECT_EQ((uint32_t)DT_STAGED_MAX, stage->given_out);
    EXPECT_EQ((uint32_t)DT_STAGED_MAX, stage->undelivered);
}

/* However often NCCL asks, a wait for room is counted once; the next one again. */
TEST_F(StageSend, CountsTheSendsWithoutRoom)
{
    for (int i = 0; i < DT_STAGED_MAX; i++)
        ASSERT_NE(nullptr, Isend(8, 1)) << i;
    EXPECT_EQ(0u, sender->meter.row->full_count);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(nullptr, Isend(8, 1));
    EXPECT_EQ(1u, sender->meter.row->full_count);
    stage->lacks_room = false; /* as a send that got a request leaves it */
    EXPECT_EQ(nullptr, Isend(8, 1));
    EXPECT_EQ(2u, sender->meter.row->full_count);
}

/* A payload that never fits goes directly, and the next one is another. */
TEST_F(StageSend, ASendThatGoesDirectlyEndsTheWaitForRoom)
{
    for (uint64_t i = 0; i < 3; i++) {
        void *room = dt_pool_alloc(stage->pool, stage->pool->bytes);
        ASSERT_NE(nullptr, room);
        dt_request *receive = Irecv(100), *send = nullptr;
        ASSERT_TRUE(Until([&] { return (send = Isend(100)) != nullptr; }));
        Wait(send);
        Wait(receive);
        dt_pool_free(stage->pool, room, stage->pool->bytes);
        EXPECT_EQ(i + 1, sender->meter.row->full_count);
        EXPECT_EQ(0u, sender->meter.row->staged_count);
    }
}

TEST_F(StageSend, OfOneTagTheOrderIsThatOfTheIsends)
{
    for (uint32_t i = 0; i < 20; i++)
        Wait(Isend(50 + i, 0, 100 * i));
    for (uint32_t i = 0; i < 20; i++) {
        int bytes = 0;
        dt_request *receive = Irecv(1000, 0, 1000 * i);
        ASSERT_TRUE(Until([&] {
            dt_connection_progress(sender);
            return IsDone(receive, &bytes);
        }));
        EXPECT_EQ(50 + (int)i, bytes);
        EXPECT_EQ(0, memcmp(from.data() + 100 * i, to.data() + 1000 * i, bytes));
    }
    AwaitDelivery();
}

TEST_F(StageSend, AnOrderHoldsFromTheNextIsendOnAndWhatIsStagedKeepsItsPlace)
{
    for (uint32_t i = 0; i < 3; i++)
        Wait(Isend(50 + i, 1, 100 * i));
    dt_store_relaxed(&s->staging, DT_HOSTPATH_OFF);
    EXPECT_EQ(nullptr, Isend(8, 1)); // would overtake those with its tag
    EXPECT_EQ(nullptr, Isend(8, 2)); // direct: its CTS is not there
    for (uint32_t i = 0; i < 3; i++) {
        int bytes = 0;
        Wait(Irecv(1000, 1, 1000 * i), &bytes);
        EXPECT_EQ(50 + (int)i, bytes);
        EXPECT_EQ(0, memcmp(from.data() + 100 * i, to.data() + 1000 * i, bytes));
    }
    Transfer(1000, 1);
    EXPECT_EQ(3u, sender->meter.row->staged_count);
    dt_store_relaxed(&s->staging, DT_HOSTPATH_ON);
    Transfer(1000, 1);
    EXPECT_EQ(4u, sender->meter.row->staged_count);
    AwaitDelivery();
}

TEST_F(StageSend, BytesInFlightAreCountedInEveryMode)
{
    for (int mode : {DT_HOSTPATH_ON, DT_HOSTPATH_OFF, DT_HOSTPATH_AUTO, DT_HOSTPATH_ON}) {
        dt_request *receive = Irecv(1000), *send = SendWhenPossible(1000);
        dt_store_relaxed(&s->staging, (uint32_t)mode); // while it is in flight
        Wait(receive);
        Wait(send);
    }
    AwaitDelivery();
    EXPECT_EQ(0u, stage->inflight_bytes);
}

class StageSendAuto : public detour_test::StagedEnds
{
  protected:
    StageSendAuto() : StagedEnds("auto") {}
};

TEST_F(StageSendAuto, OnAHealthyLinkIsendsGoDirectly)
{
    for (int i = 0; i < 5; i++)
        Transfer(1000);
    EXPECT_EQ(0u, sender->meter.row->staged_count);
    AwaitDelivery();
    EXPECT_EQ(0u, stage->inflight_bytes);
}

TEST_F(StageSendAuto, OnASlowLinkIsendsAreStaged)
{
    stage->decision.is_on = true;
    Transfer(1000);
    EXPECT_EQ(1u, sender->meter.row->staged_count);
}
} // namespace
