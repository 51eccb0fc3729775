/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/staged/stage_copy.h"

#include "tests/hostpath/staged/staged_ends.h"

namespace
{
class StageCopy : public detour_test::StagedEnds
{
  protected:
    dt_staged *Start(uint32_t bytes)
    {
        dt_staged *entry = dt_stage_take_entry(stage, bytes);
        EXPECT_NE(nullptr, entry);
        entry->bytes = bytes;
        entry->request.connection = sender;
        entry->is_of_gpu = entry->is_by_delegates = false;
        dt_stage_copy_start(stage, entry, from.data());
        return entry;
    }
    void End(dt_staged *entry)
    {
        if (entry->at)
            dt_pool_free(stage->pool, entry->at, entry->bytes);
        entry->at = nullptr;
        dt_list_push_back(&stage->free, &entry->node);
    }
};

TEST_F(StageCopy, ASmallPayloadIsCopiedAtOnce)
{
    dt_staged *entry = Start(stage->piece_bytes);
    EXPECT_TRUE(dt_stage_is_copied(entry));
    EXPECT_EQ(stage->piece_bytes, dt_stage_copied_bytes(entry));
    EXPECT_EQ(0, memcmp(from.data(), entry->at, entry->bytes));
    End(entry);
}

TEST_F(StageCopy, NoBytesNeedNoMemory)
{
    dt_staged *entry = Start(0);
    EXPECT_EQ(nullptr, entry->at);
    EXPECT_TRUE(dt_stage_is_copied(entry));
    End(entry);
}

TEST_F(StageCopy, ALargePayloadIsCopiedInPiecesByTheWaitingThread)
{
    dt_staged *entry = Start(4 * stage->piece_bytes + 1);
    EXPECT_TRUE(entry->is_by_delegates);
    EXPECT_FALSE(dt_stage_is_copied(entry));
    uint64_t before = dt_stage_copied_bytes(entry);
    for (int i = 0; i < 5; i++) {
        dt_stage_copy_help(entry);
        EXPECT_GE(dt_stage_copied_bytes(entry), before);
        before = dt_stage_copied_bytes(entry);
        EXPECT_EQ(0, memcmp(from.data(), entry->at, before));
    }
    EXPECT_EQ(entry->bytes, before);
    EXPECT_TRUE(dt_stage_is_copied(entry));
    dt_stage_finish_copies(stage);
    EXPECT_EQ(0u, entry->delegates_hold);
    End(entry);
}

TEST_F(StageCopy, FinishedCopiesTouchNothingOfTheCallers)
{
    dt_staged *entry = Start(kBytes);
    dt_stage_finish_copies(stage);
    EXPECT_TRUE(dt_stage_is_copied(entry));
    EXPECT_EQ(0u, entry->delegates_hold);
    EXPECT_EQ(0, memcmp(from.data(), entry->at, kBytes));
    End(entry);
}

TEST_F(StageCopy, ACopyOutOfAGpuThatFailedFailsTheConnection)
{
    dt_staged *entry = Start(100);
    entry->is_of_gpu = true;
    entry->gpu_copy.is_failed = true;
    entry->copies_left = 1;
    EXPECT_FALSE(dt_stage_copy_has_failed(entry)); // not over
    entry->copies_left = 0;
    detour_test::ExpectWarning("a message of 100 bytes could not be copied out of the GPU's memory");
    EXPECT_TRUE(dt_stage_copy_has_failed(entry));
    EXPECT_FALSE(dt_stage_is_copied(entry));
    EXPECT_EQ(DT_SYSTEM, (int)sender->failing);
    entry->is_of_gpu = false;
    End(entry);
}
} // namespace
