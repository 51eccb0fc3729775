/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/protocol.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace
{
struct dt_perf_shape ShapeOf(const struct dt_perf_op *op, unsigned ranks, size_t bytes,
                             enum dt_perf_protocol wanted = DT_PERF_AUTO)
{
    struct dt_perf_shape shape = {};
    shape.ranks = ranks;
    shape.type = dt_perf_type_find("float");
    shape.count = dt_perf_op_count(op, shape.type, ranks, bytes);
    dt_perf_protocol_set(&shape, op, wanted);
    return shape;
}

TEST(PerfProtocol, NamesAreFound)
{
    EXPECT_EQ(dt_perf_protocol_find("auto"), DT_PERF_AUTO);
    EXPECT_EQ(dt_perf_protocol_find("simple"), DT_PERF_SIMPLE);
    EXPECT_EQ(dt_perf_protocol_find("ll"), DT_PERF_LL);
    EXPECT_EQ(dt_perf_protocol_find("LL128"), DT_PERF_PROTOCOL_COUNT);
}

/* The sizes on both sides of each change, recorded with NCCL 2.28.9. */
TEST(PerfProtocol, CollectivesChangeToSimpleWhereNcclDoes)
{
    const struct {
        const struct dt_perf_op *op;
        unsigned ranks;
        size_t last_ll, first_simple;
    } rows[] = {
        {&dt_perf_op_all_reduce, 2, 393216, 458752},     {&dt_perf_op_all_reduce, 3, 524256, 786432},
        {&dt_perf_op_all_gather, 2, 196608, 262144},     {&dt_perf_op_all_gather, 3, 262128, 393216},
        {&dt_perf_op_reduce_scatter, 2, 196608, 262144}, {&dt_perf_op_reduce_scatter, 3, 262128, 393216},
        {&dt_perf_op_broadcast, 2, 131072, 163840},      {&dt_perf_op_broadcast, 3, 131040, 163824},
        {&dt_perf_op_all_reduce, 4, 524288, 786432},    {&dt_perf_op_all_gather, 4, 393216, 524288},
        {&dt_perf_op_reduce_scatter, 4, 393216, 524288}, {&dt_perf_op_broadcast, 4, 131072, 163840},
    };
    for (const auto &row : rows) {
        EXPECT_EQ(ShapeOf(row.op, row.ranks, row.last_ll).protocol, DT_PERF_LL) << row.op->name << row.ranks;
        EXPECT_EQ(ShapeOf(row.op, row.ranks, row.first_simple).protocol, DT_PERF_SIMPLE)
            << row.op->name << row.ranks;
    }
}

TEST(PerfProtocol, SendAndReceiveAreSimpleWhateverTheirSize)
{
    for (const auto *op : {&dt_perf_op_sendrecv, &dt_perf_op_alltoall, &dt_perf_op_latency})
        EXPECT_EQ(ShapeOf(op, 2, 8).protocol, DT_PERF_SIMPLE) << op->name;
}

TEST(PerfProtocol, TheChoiceOfTheUserCounts)
{
    EXPECT_EQ(ShapeOf(&dt_perf_op_all_reduce, 2, 8, DT_PERF_SIMPLE).protocol, DT_PERF_SIMPLE);
    EXPECT_EQ(ShapeOf(&dt_perf_op_all_reduce, 2, 1 << 30, DT_PERF_LL).protocol, DT_PERF_LL);
}

TEST(PerfProtocol, SlotsHoldTheLargestMessage)
{
    for (size_t i = 0; dt_perf_ops[i]; i++) {
        for (size_t bytes : {8, 4096, 1 << 20, 1 << 28}) {
            struct dt_perf_shape shape = ShapeOf(dt_perf_ops[i], 2, bytes);
            EXPECT_LE(dt_perf_message_bytes(&shape, shape.slice_bytes), dt_perf_slot_bytes(&shape));
        }
    }
    struct dt_perf_shape simple = ShapeOf(&dt_perf_op_all_reduce, 2, 8, DT_PERF_SIMPLE);
    EXPECT_EQ(dt_perf_slot_bytes(&simple), 1024u * 1024);
    EXPECT_EQ(dt_perf_slot_count(&simple), 4u);
    struct dt_perf_shape ll = ShapeOf(&dt_perf_op_all_reduce, 2, 8);
    EXPECT_EQ(dt_perf_slot_bytes(&ll), 64u * 1024);
    EXPECT_EQ(dt_perf_slot_count(&ll), 8u);
    EXPECT_EQ(dt_perf_message_bytes(&ll, 0), 0u);
    EXPECT_EQ(dt_perf_message_bytes(&ll, 9), 32u);
}

TEST(PerfProtocol, LinesCarryTheDataOfEveryLength)
{
    for (size_t bytes = 0; bytes <= 33; bytes++) {
        std::vector<char> data(bytes), lines(2 * (bytes + 8), 'x'), back(bytes);
        for (size_t i = 0; i < bytes; i++)
            data[i] = static_cast<char>(i + 1);
        dt_perf_ll_write(lines.data(), data.data(), bytes, 7);
        EXPECT_EQ(lines[2 * ((bytes + 7) / 8 * 8)], 'x') << "beyond the last line";
        EXPECT_EQ(dt_perf_ll_read(back.data(), lines.data(), bytes, 7), 0u);
        EXPECT_EQ(back, data);
        EXPECT_EQ(dt_perf_ll_read(back.data(), lines.data(), bytes, 8), 2 * ((bytes + 7) / 8));
    }
}
} // namespace
