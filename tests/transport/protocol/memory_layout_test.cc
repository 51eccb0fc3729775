/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/protocol/memory_layout.h"

#include <gtest/gtest.h>

#include <set>

namespace
{
TEST(MemoryLayout, RecordsLieBehindTheRowsAndDoNotOverlap)
{
    for (uint32_t slots : {1u, 4u, 64u}) {
        std::set<size_t> offsets;
        for (uint64_t sequence = 0; sequence < slots; sequence++) {
            for (uint32_t part = 0; part < DT_PARTS_MAX; part++)
                EXPECT_TRUE(offsets.insert(dt_record_offset(slots, sequence, part)).second);
        }
        EXPECT_EQ(dt_cts_ring_bytes(slots), *offsets.begin());
        EXPECT_EQ(dt_cts_ring_bytes(slots) + (slots * DT_PARTS_MAX - 1) * sizeof(uint64_t),
                  *offsets.rbegin());
    }
}

TEST(MemoryLayout, ASlotIsUsedAgainAfterAllOthers)
{
    EXPECT_EQ(dt_record_offset(64, 3, 5), dt_record_offset(64, 64 + 3, 5));
    EXPECT_EQ(dt_record_offset(64, 3, 5), dt_record_offset(64, (1ull << 40) + 3, 5));
    EXPECT_NE(dt_record_offset(64, 3, 5), dt_record_offset(64, 4, 5));
}

/* A receiver announces where its records begin, a sender where its ring begins. */
TEST(MemoryLayout, TheProbeAreaFollowsWhatThePeerAnnounces)
{
    uint32_t slots = 64;
    size_t records_end = dt_record_offset(slots, slots - 1, DT_PARTS_MAX - 1) + sizeof(uint64_t);
    EXPECT_EQ(records_end - dt_cts_ring_bytes(slots), dt_peer_probe_offset(true, slots)) << "of a receiver";
    EXPECT_EQ(dt_cts_ring_bytes(slots), dt_peer_probe_offset(false, slots)) << "of a sender";
}

/* What an end adds to the announced address is what the other end finds in its own block. */
TEST(MemoryLayout, BothEndsMeanTheSameProbeAreaAndMailbox)
{
    for (uint32_t slots : {8u, 64u}) {
        for (bool is_sender : {false, true}) {
            size_t announced = is_sender ? 0 : dt_cts_ring_bytes(slots);
            EXPECT_EQ(dt_probe_offset(is_sender, slots), announced + dt_peer_probe_offset(!is_sender, slots));
            EXPECT_EQ(dt_mailbox_offset(is_sender, slots),
                      dt_probe_offset(is_sender, slots) + DT_PROBE_BYTES);
            EXPECT_EQ(0u, dt_mailbox_offset(is_sender, slots) % 8);
            EXPECT_EQ(dt_control_bytes(is_sender, slots),
                      dt_mailbox_offset(is_sender, slots) + sizeof(dt_mailbox));
        }
    }
}
} // namespace
