/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <string>

#include "delay/record.h"

namespace
{
const std::string kHeader = DT_DELAY_RECORD_HEADER "\n";

TEST(DelayRecord, TheRingKeepsTheNewest)
{
    dt_delay_ring *ring = nullptr;
    dt_delay_entry entry = {};
    ASSERT_EQ(DT_OK, dt_delay_ring_create(&ring));
    EXPECT_EQ(DT_NEVER_NS, dt_delay_ring_read(ring, 0, &entry));
    for (uint64_t i = 0; i < DT_DELAY_RING_ENTRIES + 10; i++) {
        entry.message = i;
        dt_delay_ring_write(ring, &entry);
    }
    EXPECT_EQ(10u, dt_delay_ring_read(ring, 3, &entry)) << "the oldest that is left";
    EXPECT_EQ(10u, entry.message);
    EXPECT_EQ(DT_DELAY_RING_ENTRIES, dt_delay_ring_read(ring, DT_DELAY_RING_ENTRIES, &entry));
    EXPECT_EQ(DT_DELAY_RING_ENTRIES, entry.message);
    EXPECT_EQ(DT_NEVER_NS, dt_delay_ring_read(ring, DT_DELAY_RING_ENTRIES + 10, &entry));
    dt_delay_ring_destroy(ring);
}

TEST(DelayRecord, IsReadInAnyOrderOfLines)
{
    std::string text = kHeader + "0,10,5,1,00,soft0,p,9,4096,300,0\n0,10,5,0,00,soft0,p,7,4096,200,0\n"
                                 "1,11,5,0,00,soft0,p,7,4096,999,0\n0,10,6,0,00,soft0,p,3,4096,100,0";
    dt_delay_replay *replay = nullptr;
    dt_delay_error error;
    ASSERT_EQ(DT_OK, dt_delay_replay_parse(text.data(), text.size(), 0, &replay, &error)) << error.text;
    EXPECT_EQ(100u, dt_delay_replay_at(replay, 0, 3));
    EXPECT_EQ(200u, dt_delay_replay_at(replay, 0, 7));
    EXPECT_EQ(300u, dt_delay_replay_at(replay, 1, 9));
    EXPECT_EQ(0u, dt_delay_replay_at(replay, 1, 3));
    dt_delay_replay_destroy(replay);
    ASSERT_EQ(DT_OK, dt_delay_replay_parse(kHeader.data(), kHeader.size(), 0, &replay, &error));
    EXPECT_EQ(0u, dt_delay_replay_at(replay, 0, 0));
    dt_delay_replay_destroy(replay);
}

TEST(DelayRecord, ReportsWhereTheErrorIs)
{
    dt_delay_replay *replay = nullptr;
    dt_delay_error error;
    EXPECT_EQ(DT_INVALID, dt_delay_replay_parse("time", 4, 0, &replay, &error));
    EXPECT_STREQ("line 1, column 1: this is no record: its first line is not `" DT_DELAY_RECORD_HEADER "`",
                 error.text);
    std::string text = kHeader + "0,10,5,x,00,soft0,p,9,4096,300,0";
    EXPECT_EQ(DT_INVALID, dt_delay_replay_parse(text.data(), text.size(), 0, &replay, &error));
    EXPECT_STREQ("line 2, column 8: expected a whole number, got 'x,00,soft0,p,9,4096,300,0'", error.text);
    text = kHeader + "0,10,5";
    EXPECT_EQ(DT_INVALID, dt_delay_replay_parse(text.data(), text.size(), 0, &replay, &error));
    EXPECT_STREQ("line 2, column 7: expected ','", error.text);
}
} // namespace
