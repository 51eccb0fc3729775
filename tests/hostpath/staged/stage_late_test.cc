/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/staged/stage_late.h"

#include "tests/hostpath/staged/staged_ends.h"

namespace
{
/* An entry whose copy out of a GPU is under way, as part 0 of a message. */
class StageLate : public detour_test::StagedEnds
{
  protected:
    void SetUp() override
    {
        StagedEnds::SetUp();
        ASSERT_FALSE(HasFatalFailure());
        entry = dt_stage_take_entry(stage, kBytes);
        ASSERT_NE(nullptr, entry);
        at = entry->at;
        entry->request = {};
        entry->request.connection = sender;
        entry->request.is_open = true;
        entry->bytes = kBytes;
        entry->memory = &memory;
        entry->is_of_gpu = true;
        entry->is_direct = entry->is_delivered = false;
        entry->eager = DT_EAGER_NONE;
        entry->gpu_copy = {};
        entry->gpu_copy.from = from.data();
        entry->copies_left = 1;
        entry->queued = 1; // seconds ago at least
        memory.path_mask = 1;
        slot = SlotOf(5);
        slot->part[0].addr = reinterpret_cast<uintptr_t>(at);
        slot->part[0].memory = &stage->memory;
        slot->part[0].bytes = kBytes;
        slot->part[0].ready_bytes = 0;
    }
    void TearDown() override
    {
        entry->copies_left = 0;
        if (entry->at)
            dt_pool_free(stage->pool, entry->at, entry->bytes);
        entry->at = nullptr;
        slot->part[0] = {};
        StagedEnds::TearDown();
    }
    void Check()
    {
        dt_stage_late_check(s, slot, 0, entry);
    }
    void ExpectStaged()
    {
        EXPECT_FALSE(entry->is_direct);
        EXPECT_FALSE(dt_stage_late_is_any(stage));
        EXPECT_EQ(reinterpret_cast<uintptr_t>(at), slot->part[0].addr);
        EXPECT_EQ(0u, slot->part[0].ready_bytes);
    }

    static constexpr uint32_t kBytes = 5000;
    dt_memory memory = {};
    dt_staged *entry = nullptr;
    dt_send_slot *slot = nullptr;
    void *at = nullptr;
};

TEST_F(StageLate, APartIsSentDirectlyOnceItsCopyIsLate)
{
    entry->queued = dt_ticks_now(sender->meter.ticks);
    Check();
    ExpectStaged();
    entry->queued = 1;
    Check();
    EXPECT_TRUE(entry->is_direct);
    EXPECT_TRUE(entry->gpu_copy.is_unwanted);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(from.data()), slot->part[0].addr);
    EXPECT_EQ(&memory, slot->part[0].memory);
    EXPECT_EQ(kBytes, slot->part[0].ready_bytes);
    EXPECT_TRUE(dt_stage_late_is_any(stage));
    Check(); // once
    EXPECT_TRUE(entry->is_direct);
}

TEST_F(StageLate, ACopyThatHasEndedIsNotLate)
{
    entry->copies_left = 0;
    Check();
    ExpectStaged();
}

TEST_F(StageLate, MemoryThatThePathCannotReadStaysStaged)
{
    memory.path_mask = 0;
    Check();
    ExpectStaged();
    slot->state = DT_SEND_PARTIAL; // begun over path 1
    slot->path = 1;
    memory.path_mask = 1;
    Check();
    ExpectStaged();
    slot->state = DT_SEND_FREE;
    slot->path = 0;
}

TEST_F(StageLate, APlaceThatALateCopyStillWritesIsNotUsedAgain)
{
    Check();
    entry->is_delivered = true;
    entry->request.is_open = false;
    dt_count(&sender->open_requests, 1);
    dt_stage_free_entry(s, entry);
    EXPECT_EQ(at, entry->at) << "not given back to the pool";
    for (int i = 0; i < 2 * DT_STAGED_MAX; i++) {
        dt_staged *other = dt_stage_take_entry(stage, 0);
        ASSERT_NE(nullptr, other);
        ASSERT_NE(entry, other);
        dt_list_push_back(&stage->free, &other->node);
    }
    entry->copies_left = 0;
    dt_stage_late_collect(stage);
    EXPECT_EQ(nullptr, entry->at);
    EXPECT_FALSE(dt_list_is_empty(&entry->node)) << "it is free";
    EXPECT_TRUE(dt_list_is_empty(&stage->late));
    EXPECT_FALSE(dt_stage_late_is_any(stage));
}
} // namespace
