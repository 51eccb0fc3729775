/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of a receiver's device that was opened again: old ones are not used, new ones are found. */
#include "transport/message/send_keys.h"

#include "tests/transport/message/ends.h"
#include "transport/message/send.h"
#include "transport/message/send_path.h"

namespace
{
class SendKeys : public detour_test::Ends
{
  protected:
    void SetUp() override
    {
        Ends::SetUp();
        ASSERT_EQ(2u, sender->path_count);
        receive = Irecv(100);
        ASSERT_TRUE(Until([&] { return (slot = dt_sender_matching_slot(s)) != nullptr; }));
        slot->part[0].bytes = 100;
        slot->part[0].memory = from_memory;
        before = slot->entry[0];
    }
    void TearDown() override
    {
        slot->part[0].bytes = 0;
        slot->entry[0] = before;
        slot->stale_mask = 0;
        for (uint32_t p = 0; p < 2; p++) {
            sender->path[p].state = DT_PATH_UP;
            sender->path[p].keys_since = 0;
        }
        dt_connection_choose_path(sender);
        Wait(Isend(100));
        Wait(receive);
        Ends::TearDown();
    }
    void Renew(uint32_t p, uint32_t generation, uint64_t keys_since)
    {
        dt_path_offer offer = {};
        offer.generation = generation;
        offer.keys_since = keys_since;
        sender->path[p].state = DT_PATH_NONE;
        dt_sender_keys_renewed(s, &sender->path[p], &offer);
        sender->path[p].state = DT_PATH_UP;
    }
    dt_cts_entry *RingOf(uint32_t p)
    {
        return reinterpret_cast<dt_cts_row *>(sender->path[p].control)[0].entry;
    }
    dt_request *receive = nullptr;
    dt_send_slot *slot = nullptr;
    dt_cts_entry before;
};

TEST_F(SendKeys, OfMessagesBeforeAreNotUsedAnyMore)
{
    RingOf(1)->sequence_plus_1 = htole64(1);
    Renew(1, 1, 1);
    EXPECT_EQ(1u, slot->entry[0].path_mask);
    EXPECT_EQ(2u, slot->stale_mask);
    EXPECT_EQ(0u, RingOf(1)->sequence_plus_1) << "nothing in it is of now";
    EXPECT_EQ(&sender->path[0], dt_sender_path_for(s, slot));
}

/* OPENED of an epoch on the same device, and one that was opened again before there was any message. */
TEST_F(SendKeys, OfTheSameGenerationAndOfLaterMessagesStay)
{
    Renew(1, 1, 0);
    EXPECT_EQ(3u, slot->entry[0].path_mask);
    Renew(1, 1, 5);
    EXPECT_EQ(3u, slot->entry[0].path_mask);
    EXPECT_EQ(0u, slot->stale_mask);
}

/* No message between two returns: they are of the same message on, and still others. */
TEST_F(SendKeys, OfTheNextGenerationReplaceThoseThatCameBefore)
{
    Renew(1, 1, 1);
    slot->entry[0].path_mask = 3; // taken from the ring
    slot->stale_mask = 0;
    Renew(1, 2, 1);
    EXPECT_EQ(1u, slot->entry[0].path_mask);
}

TEST_F(SendKeys, AreTakenFromThePathsOwnRingOnceTheyAreThere)
{
    Renew(1, 1, 1);
    sender->path[0].state = DT_PATH_NONE;
    dt_connection_choose_path(sender);
    EXPECT_EQ(nullptr, dt_sender_path_for(s, slot)) << "the keys have not come";
    EXPECT_EQ(DT_OK, (int)sender->failing) << "but they will";
    *RingOf(1) = before;
    RingOf(1)->rkey[1] = htole32(0xbeef);
    RingOf(1)->rkey[0] = htole32(0xdead);
    EXPECT_EQ(&sender->path[1], dt_sender_path_for(s, slot));
    EXPECT_EQ(0xbeefu, le32toh(slot->entry[0].rkey[1]));
    EXPECT_EQ(before.rkey[0], slot->entry[0].rkey[0]) << "of this path alone";
    EXPECT_EQ(0u, slot->stale_mask);
}

/* Nothing clears the mask when a slot is used again: it is of messages before the new keys alone. */
TEST_F(SendKeys, WhatAnEarlierMessageOfTheSlotLeftIsNotOfThisOne)
{
    slot->entry[0].path_mask = 1;
    slot->stale_mask = 2;
    *RingOf(1) = before;
    sender->path[0].state = DT_PATH_NONE;
    dt_connection_choose_path(sender);
    EXPECT_EQ(nullptr, dt_sender_path_for(s, slot)) << "the ring of path 1 is not read";
    s->keys_since = 1;
    EXPECT_EQ(&sender->path[1], dt_sender_path_for(s, slot))
        << "it is, if the message is before the new keys";
    s->keys_since = 0;
    slot->stale_mask = 1;
    Renew(1, 1, 1);
    EXPECT_EQ(2u, slot->stale_mask);
    slot->stale_mask = 1;
    dt_sender_drop_stale_keys(s, slot, 0, 1);
    EXPECT_EQ(0u, slot->stale_mask);
}

/* What is read from now on: every ring but the path's own may have entries of before. */
TEST_F(SendKeys, ThatComeOverAnotherPathAreOldIfTheMessageIs)
{
    Renew(1, 1, 1);
    for (uint32_t ring : {0u, 1u}) {
        slot->entry[0] = before;
        slot->stale_mask = 0;
        dt_sender_drop_stale_keys(s, slot, 0, ring);
        EXPECT_EQ(ring == 1 ? 3u : 1u, slot->entry[0].path_mask) << ring;
        slot->entry[0] = before;
        slot->stale_mask = 0;
        dt_sender_drop_stale_keys(s, slot, 1, ring);
        EXPECT_EQ(3u, slot->entry[0].path_mask) << ring;
    }
}

/* Its entries named the other path alone, since the memory waited for the device. */
TEST_F(SendKeys, OfMemoryThatWaitedForTheDeviceAreTakenToo)
{
    slot->entry[0].path_mask = 1;
    Renew(1, 1, 1);
    sender->path[0].state = DT_PATH_NONE;
    dt_connection_choose_path(sender);
    EXPECT_EQ(nullptr, dt_sender_path_for(s, slot));
    EXPECT_EQ(DT_OK, (int)sender->failing) << "the keys may still come";
    *RingOf(1) = before;
    EXPECT_EQ(&sender->path[1], dt_sender_path_for(s, slot));
}
} // namespace
