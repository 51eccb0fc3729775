/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and records of elements that Detour writes into a send queue itself. */
#include "verbs/dv.h"

#include <gtest/gtest.h>

#include <vector>

namespace
{
TEST(Dv, TheLargestElementHoldsOneSegmentOrTheInlinePayload)
{
    EXPECT_EQ(1u, dt_dv_blocks_max(0)) << "control, remote address and one data segment";
    EXPECT_EQ(1u, dt_dv_blocks_max(28)) << "control, remote address, 4 bytes of header and 28 of payload";
    EXPECT_EQ(2u, dt_dv_blocks_max(29));
    EXPECT_EQ(2u, dt_dv_blocks_max(92));
    EXPECT_EQ(3u, dt_dv_blocks_max(93));
}

TEST(Dv, ARecordIsFoundAtTheFirstBlockOfItsElement)
{
    std::vector<dt_send_slot> slots(8, dt_send_slot{0, DT_DV_ORDINAL_NONE});
    dt_qp qp = {};
    qp.slots = slots.data();
    qp.slot_mask = 7;
    qp.sq_depth = 4;
    qp.inline_bytes = 92;
    dt_dv_record(&qp, 11, 2);
    dt_dv_record(&qp, 12, 1);
    EXPECT_EQ(11u, slots[0].wr_id);
    EXPECT_EQ(0u, slots[0].ordinal);
    EXPECT_EQ(uint32_t{DT_DV_ORDINAL_NONE}, slots[1].ordinal) << "the middle of an element";
    EXPECT_EQ(12u, slots[2].wr_id);
    EXPECT_EQ(1u, slots[2].ordinal);
    EXPECT_EQ(2u, qp.posted);
    EXPECT_EQ(2u, qp.block_last);
    EXPECT_EQ(3u, qp.block_head);
}
} // namespace
