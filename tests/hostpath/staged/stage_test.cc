/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/staged/stage.h"

#include "tests/hostpath/staged/staged_ends.h"

namespace
{
class Stage : public detour_test::StagedEnds
{
  protected:
    uint32_t FreeEntries() const
    {
        uint32_t count = 0;
        for (const dt_list *node = stage->free.next; node != &stage->free; node = node->next)
            count++;
        return count;
    }
};

TEST_F(Stage, EntriesAndPoolMemoryComeBackWhenTheirMessageIsDelivered)
{
    EXPECT_EQ((uint32_t)DT_STAGED_MAX, FreeEntries());
    Transfer(5000);
    AwaitDelivery();
    EXPECT_EQ((uint32_t)DT_STAGED_MAX, FreeEntries());
    EXPECT_EQ(0u, dt_pool_taken(stage->pool));
    EXPECT_EQ(0u, sender->open_requests);
    EXPECT_EQ(0u, stage->given_out);
}

TEST_F(Stage, AnEntryWhoseJobADelegateStillHoldsIsNotUsed)
{
    dt_staged *first = dt_container_of(stage->free.next, dt_staged, node);
    first->delegates_hold = 1;
    EXPECT_EQ(nullptr, dt_stage_take_entry(stage, 100));
    EXPECT_EQ((uint32_t)DT_STAGED_MAX, FreeEntries());
    first->delegates_hold = 0;
    EXPECT_EQ(first, dt_stage_take_entry(stage, 100));
    EXPECT_NE(nullptr, first->at);
    dt_pool_free(stage->pool, first->at, 100);
    first->at = nullptr;
    dt_list_push_back(&stage->free, &first->node);
}

TEST_F(Stage, WithoutPoolMemoryThereIsNoEntry)
{
    EXPECT_EQ(nullptr, dt_stage_take_entry(stage, 64u << 20));
    EXPECT_EQ((uint32_t)DT_STAGED_MAX, FreeEntries());
}

TEST_F(Stage, CountsTheEntriesWithoutAMessage)
{
    Wait(Isend(100, 3));
    Wait(Isend(100, 4));
    EXPECT_EQ(2u, dt_stage_unmatched(stage));
    EXPECT_TRUE(dt_stage_has_tag(stage, 3));
    EXPECT_TRUE(dt_stage_has_tag(stage, 4));
    EXPECT_FALSE(dt_stage_has_tag(stage, 5));
    dt_request *fourth = Irecv(100, 4), *third = Irecv(100, 3, 100);
    Wait(fourth);
    Wait(third);
    AwaitDelivery();
    EXPECT_EQ(0u, dt_stage_unmatched(stage));
}

TEST_F(Stage, HostMemoryIsNoGpus)
{
    EXPECT_EQ(nullptr, dt_stage_gpu_of(sender, from.data()));
}
} // namespace
