/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <vector>

#include "base/prng.h"
#include "transport/message/arrivals.h"
#include "transport/protocol/cts.h"
#include "transport/protocol/immediate.h"
#include "transport/protocol/split.h"
#include "transport/protocol/work_id.h"

namespace
{
TEST(Immediate, EveryValueIsDecodedToItsParts)
{
    // All kinds and parts with all sequences would be 2^32 cases: every sequence for one part, and every kind
    // and part for sequences a prime apart, cover each bit with each of its neighbors.
    for (uint32_t sequence = 0; sequence <= DT_IMM_SEQUENCE_MASK; sequence++) {
        dt_imm imm = dt_imm_decode(dt_imm_encode(DT_IMM_SIZED, 5, sequence));
        if (imm.kind != DT_IMM_SIZED || imm.part != 5 || imm.sequence != sequence)
            FAIL() << sequence;
    }
    for (uint32_t part = 0; part < DT_PARTS_MAX; part++) {
        for (dt_imm_kind kind : {DT_IMM_DATA, DT_IMM_SIZED}) {
            for (uint64_t sequence = 0; sequence <= DT_IMM_SEQUENCE_MASK; sequence += 4099) {
                dt_imm imm = dt_imm_decode(dt_imm_encode(kind, part, sequence));
                ASSERT_EQ(kind, imm.kind);
                ASSERT_EQ(part, imm.part);
                ASSERT_EQ(sequence, imm.sequence);
            }
        }
    }
}

TEST(Immediate, HighBitsOfTheSequenceDoNotTouchPartAndKind)
{
    EXPECT_EQ(dt_imm_encode(DT_IMM_DATA, 3, 77), dt_imm_encode(DT_IMM_DATA, 3, (1ull << 27) + 77));
    EXPECT_EQ(dt_imm_encode(DT_IMM_SIZED, 0, DT_IMM_SEQUENCE_MASK),
              dt_imm_encode(DT_IMM_SIZED, 0, UINT64_MAX));
}

TEST(WorkId, FieldsDoNotOverlap)
{
    for (dt_work_kind kind : {DT_WORK_PAYLOAD, DT_WORK_CTS, DT_WORK_RECEIVE, DT_WORK_FLUSH, DT_WORK_PROBE})
        for (uint32_t path : {0u, 1u, 15u})
            for (uint32_t qp : {0u, 1u, 128u, 255u})
                for (uint32_t epoch : {0u, 1u, 0x8000u, 0xffffu})
                    for (uint32_t sequence : {0u, 1u, 0x80000000u, 0xffffffffu}) {
                        dt_work work = dt_work_decode(dt_work_encode(kind, path, qp, epoch, sequence));
                        ASSERT_EQ(kind, work.kind);
                        ASSERT_EQ(path, work.path);
                        ASSERT_EQ(qp, work.qp);
                        ASSERT_EQ(epoch, work.epoch);
                        ASSERT_EQ(sequence, work.sequence);
                    }
}

TEST(Split, SharesCoverThePartAndAreCutAtLines)
{
    for (uint32_t count = 1; count <= DT_QPS_MAX; count++) {
        for (uint32_t bytes :
             {0u, 1u, 8u, 127u, 128u, 129u, 1000u, 1024u, 4097u, 65536u, DT_MESSAGE_BYTES_MAX}) {
            uint32_t next = 0;
            for (uint32_t i = 0; i < count; i++) {
                dt_share share = dt_split_share(bytes, count, i);
                ASSERT_EQ(next, share.offset) << bytes << " over " << count;
                if (share.bytes) {
                    ASSERT_EQ(0u, share.offset % DT_CUT_BYTES);
                }
                next += share.bytes;
            }
            ASSERT_EQ(bytes, next) << bytes << " over " << count;
        }
    }
}

TEST(Split, ChunksStayWithinTheirNumberAndAreCutAtLines)
{
    for (uint32_t chunk : {DT_CHUNK_BYTES_MIN, 65536u, DT_CHUNK_BYTES_DEFAULT}) {
        for (uint32_t bytes : {0u, 1u, 4096u, 4097u, 65536u, 65537u, 1000001u, DT_MESSAGE_BYTES_MAX}) {
            uint32_t each = dt_split_chunk_bytes(bytes, chunk, false);
            ASSERT_EQ(0u, each % DT_CUT_BYTES);
            ASSERT_GE(each, chunk);
            ASSERT_GE((uint64_t)each * DT_CHUNKS_MAX, bytes);
        }
    }
    EXPECT_EQ(DT_CHUNK_BYTES_DEFAULT,
              dt_split_chunk_bytes(DT_MESSAGE_BYTES_MAX, DT_CHUNK_BYTES_DEFAULT, false));
    EXPECT_EQ(4096u, dt_split_chunk_bytes(4096, 4096, false));
}

TEST(Split, EachShareHasAQueuePairOfItsOwnAndTheyTakeTurns)
{
    for (uint32_t qps = 1; qps <= DT_QPS_MAX; qps++) {
        for (uint32_t shares : {1u, qps < DT_SHARES_MAX ? qps : (uint32_t)DT_SHARES_MAX}) {
            std::vector<int> used(qps);
            for (uint64_t sequence = (1ull << 33) - 1; sequence < (1ull << 33) - 1 + qps; sequence++) {
                std::vector<bool> has_share(qps);
                for (uint32_t share = 0; share < shares; share++) {
                    uint32_t q = dt_split_qp(sequence, shares, qps, share);
                    ASSERT_LT(q, qps);
                    ASSERT_FALSE(has_share[q]);
                    has_share[q] = true;
                    used[q]++;
                    ASSERT_EQ(share, dt_split_share_of(sequence, shares, qps, q));
                }
                for (uint32_t q = 0; q < qps; q++)
                    ASSERT_EQ(has_share[q], dt_split_share_of(sequence, shares, qps, q) < shares);
            }
            for (int times : used)
                ASSERT_EQ((int)shares, times) << "as often as every other one";
        }
    }
}

TEST(Arrivals, CompleteExactlyWhenEveryShareOfEveryPartIsThere)
{
    dt_prng prng;
    dt_prng_init(&prng, 1);
    for (uint32_t parts = 1; parts <= DT_PARTS_MAX; parts++) {
        for (uint32_t qps = 1; qps <= DT_SHARES_MAX; qps++) {
            std::vector<std::pair<uint32_t, uint32_t>> shares;
            for (uint32_t part = 0; part < parts; part++)
                for (uint32_t qp = 0; qp < qps; qp++)
                    shares.emplace_back(part, qp);
            for (size_t i = shares.size(); i > 1; i--)
                std::swap(shares[i - 1], shares[dt_prng_below(&prng, i)]);
            dt_arrivals arrivals;
            memset(&arrivals, 0xee, sizeof arrivals); // what an earlier message left behind
            dt_arrivals_clear(&arrivals);
            uint64_t all = dt_arrivals_of_parts(dt_arrivals_whole(qps), parts);
            for (auto [part, qp] : shares) {
                ASSERT_NE(all, arrivals.seen);
                ASSERT_TRUE(dt_arrivals_add(&arrivals, part, qp, 10 * part + 1));
                ASSERT_FALSE(dt_arrivals_add(&arrivals, part, qp, 99)) << "twice";
            }
            ASSERT_EQ(all, arrivals.seen) << parts << " parts on " << qps;
            for (uint32_t part = 0; part < parts; part++)
                ASSERT_EQ(qps * (10ull * part + 1), arrivals.bytes[part]);
        }
    }
}

dt_cts_row Row(uint64_t sequence, uint8_t parts)
{
    dt_cts_row row;
    memset(&row, 0, sizeof row);
    for (uint8_t i = 0; i < parts; i++) {
        row.entry[i].part = i;
        row.entry[i].parts = parts;
        row.entry[i].sequence_plus_1 = htole64(sequence + 1);
    }
    return row;
}

TEST(Cts, ARowIsValidWhenEachOfItsEntriesIs)
{
    bool broken;
    dt_cts_entry out[DT_PARTS_MAX];
    for (uint8_t parts = 1; parts <= DT_PARTS_MAX; parts++) {
        dt_cts_row row = Row(1000, parts);
        EXPECT_TRUE(dt_cts_read(&row, 1000, out, &broken));
        for (uint8_t missing = 0; missing < parts; missing++) {
            row = Row(1000, parts);
            row.entry[missing].sequence_plus_1 = htole64(1000 - 64 + 1);
            EXPECT_FALSE(dt_cts_read(&row, 1000, out, &broken));
            EXPECT_FALSE(broken);
        }
    }
}

TEST(Cts, FreshMemoryHoldsNoEntryOfTheFirstMessage)
{
    bool broken;
    dt_cts_entry out[DT_PARTS_MAX];
    dt_cts_row row;
    memset(&row, 0, sizeof row);
    EXPECT_FALSE(dt_cts_read(&row, 0, out, &broken));
    EXPECT_FALSE(broken);
}

TEST(Cts, ARowThatCannotBeIsBroken)
{
    bool broken;
    dt_cts_entry out[DT_PARTS_MAX];
    dt_cts_row row = Row(7, 2);
    row.entry[0].parts = 0;
    EXPECT_FALSE(dt_cts_read(&row, 7, out, &broken));
    EXPECT_TRUE(broken);
    row = Row(7, 2);
    row.entry[0].parts = 9;
    EXPECT_FALSE(dt_cts_read(&row, 7, out, &broken));
    EXPECT_TRUE(broken);
    row = Row(7, 2);
    row.entry[1].part = 5;
    EXPECT_FALSE(dt_cts_read(&row, 7, out, &broken));
    EXPECT_TRUE(broken);
    row = Row(7, 1);
    row.entry[0].part = 1;
    EXPECT_FALSE(dt_cts_read(&row, 7, out, &broken));
    EXPECT_TRUE(broken);
}
} // namespace
