// SPDX-License-Identifier: Apache-2.0
// Completion queue entries of ConnectX, one by one.
#include "verbs/mlx5_cq.h"

#include <gtest/gtest.h>
#include <endian.h>

#include <vector>

#include "tests/harness/harness.h"

namespace
{
// A CQ in memory, written as the device would.
class Entries : public ::testing::TestWithParam<uint32_t>
{
  protected:
    static constexpr uint32_t kCount = 4;

    void SetUp() override
    {
        memory.assign(static_cast<size_t>(kCount) * GetParam(), 0);
        for (uint32_t i = 0; i < kCount; i++)
            At(i)->op_own = DT_MLX5_CQE_INVALID << 4;
        dt_mlx5_cq_out out = Out();
        const char *wrong;
        ASSERT_EQ(DT_OK, dt_mlx5_cq_init(&cq, &out, &wrong));
    }

    dt_mlx5_cq_out Out()
    {
        dt_mlx5_cq_out out = {};
        out.buf = memory.data();
        out.dbrec = dbrec;
        out.cqe_count = kCount;
        out.cqe_bytes = GetParam();
        return out;
    }

    dt_mlx5_cqe *At(uint32_t number)
    {
        size_t at = static_cast<size_t>(number % kCount) * GetParam() + GetParam() - 64;
        return reinterpret_cast<dt_mlx5_cqe *>(&memory[at]);
    }

    void Write(uint16_t counter, uint8_t opcode = DT_MLX5_CQE_REQUEST, uint8_t syndrome = 0,
               uint8_t format = 0)
    {
        dt_mlx5_cqe *cqe = At(written);
        cqe->opcode_qpn = htobe32(0x0d123456);
        cqe->wqe_counter = htobe16(counter);
        cqe->syndrome = syndrome;
        cqe->vendor_syndrome = 0x81;
        cqe->op_own = static_cast<uint8_t>(opcode << 4 | format | ((written / kCount) & 1));
        written++;
    }

    std::vector<uint8_t> memory;
    uint32_t dbrec[2] = {0, 0};
    dt_mlx5_cq cq = {};
    uint32_t written = 0;
    ibv_wc wcs[8] = {};
};

TEST_P(Entries, NothingIsTakenBeforeTheDeviceWroteIt)
{
    EXPECT_EQ(0, dt_mlx5_poll_cq(&cq, 8, wcs));
    EXPECT_EQ(0u, dbrec[0]);
    Write(7);
    EXPECT_EQ(1, dt_mlx5_poll_cq(&cq, 8, wcs));
    EXPECT_EQ(7u, wcs[0].wr_id);
    EXPECT_EQ(IBV_WC_SUCCESS, wcs[0].status);
    EXPECT_EQ(0x123456u, wcs[0].qp_num);
    EXPECT_EQ(0u, wcs[0].vendor_err);
    EXPECT_EQ(1u, be32toh(dbrec[0]));
    EXPECT_EQ(0, dt_mlx5_poll_cq(&cq, 8, wcs)) << "taken once";
}

// Every fill level at every place of the ring, over many laps, and past 2^16 for the element's index.
TEST_P(Entries, LapsAreDistinguished)
{
    uint32_t taken = 0;
    for (uint32_t round = 0; round < 40000; round++) {
        uint32_t count = round % (kCount + 1);
        for (uint32_t i = 0; i < count; i++)
            Write(static_cast<uint16_t>(taken + i));
        ASSERT_EQ(static_cast<int>(count), dt_mlx5_poll_cq(&cq, 8, wcs)) << round;
        for (uint32_t i = 0; i < count; i++)
            ASSERT_EQ((taken + i) & 0xffff, wcs[i].wr_id);
        taken += count;
        ASSERT_EQ(taken & 0xffffff, be32toh(dbrec[0]));
        ASSERT_EQ(0, dt_mlx5_poll_cq(&cq, 8, wcs)) << "an old lap's entry was taken";
    }
}

TEST_P(Entries, TheConsumerIndexHas24Bits)
{
    cq.taken = written = 0xffffff / kCount * kCount;
    for (uint32_t i = 0; i < kCount; i++)
        At(i)->op_own = static_cast<uint8_t>(((written / kCount) & 1) ^ 1);
    for (uint32_t i = 0; i < kCount; i++)
        Write(static_cast<uint16_t>(i));
    EXPECT_EQ(static_cast<int>(kCount), dt_mlx5_poll_cq(&cq, 8, wcs));
    EXPECT_EQ(0u, be32toh(dbrec[0]));
}

TEST_P(Entries, NoMoreAreTakenThanAreAskedFor)
{
    for (uint16_t i = 0; i < 3; i++)
        Write(i);
    EXPECT_EQ(2, dt_mlx5_poll_cq(&cq, 2, wcs));
    EXPECT_EQ(2u, be32toh(dbrec[0]));
    EXPECT_EQ(1, dt_mlx5_poll_cq(&cq, 2, wcs));
    EXPECT_EQ(2u, wcs[0].wr_id);
}

TEST_P(Entries, SyndromesAreStatuses)
{
    const struct {
        uint8_t syndrome;
        ibv_wc_status status;
    } known[] = {
        {0x01, IBV_WC_LOC_LEN_ERR},    {0x02, IBV_WC_LOC_QP_OP_ERR},   {0x04, IBV_WC_LOC_PROT_ERR},
        {0x05, IBV_WC_WR_FLUSH_ERR},   {0x06, IBV_WC_MW_BIND_ERR},     {0x10, IBV_WC_BAD_RESP_ERR},
        {0x11, IBV_WC_LOC_ACCESS_ERR}, {0x12, IBV_WC_REM_INV_REQ_ERR}, {0x13, IBV_WC_REM_ACCESS_ERR},
        {0x14, IBV_WC_REM_OP_ERR},     {0x15, IBV_WC_RETRY_EXC_ERR},   {0x16, IBV_WC_RNR_RETRY_EXC_ERR},
        {0x22, IBV_WC_REM_ABORT_ERR},  {0x42, IBV_WC_GENERAL_ERR}};

    for (const auto &one : known) {
        Write(9, DT_MLX5_CQE_REQUEST_ERROR, one.syndrome);
        ASSERT_EQ(1, dt_mlx5_poll_cq(&cq, 8, wcs));
        EXPECT_EQ(one.status, wcs[0].status) << int{one.syndrome};
        EXPECT_EQ(0x81u, wcs[0].vendor_err);
        EXPECT_EQ(9u, wcs[0].wr_id);
        EXPECT_EQ(0x123456u, wcs[0].qp_num);
    }
}

// Neither is ever asked for; code that took it for a plain one would deliver wrong completions.
TEST_P(Entries, AnUnreportableErrorFailsTheCqAfterEarlierCompletions)
{
    for (uint8_t opcode : {1, 2, 5, 12, 14}) {
        Entries::SetUp();
        written = 0;
        Write(1);
        Write(2, opcode);
        Write(3);
        EXPECT_EQ(1, dt_mlx5_poll_cq(&cq, 8, wcs)) << int{opcode};
        EXPECT_EQ(-1, dt_mlx5_poll_cq(&cq, 8, wcs)) << int{opcode};
    }
    for (uint8_t format : {4, 8, 12}) {
        Entries::SetUp();
        written = 0;
        Write(1, DT_MLX5_CQE_REQUEST, 0, format);
        EXPECT_EQ(-1, dt_mlx5_poll_cq(&cq, 8, wcs)) << int{format};
    }
}

TEST_P(Entries, QueuesOfOtherShapesAreNamed)
{
    const char *wrong;
    dt_mlx5_cq_out out = Out();

    out.cqe_bytes = 32;
    EXPECT_EQ(DT_SYSTEM, dt_mlx5_cq_init(&cq, &out, &wrong));
    EXPECT_STREQ("its entries have neither 64 nor 128 bytes", wrong);
    out = Out();
    out.cqe_count = 6;
    EXPECT_EQ(DT_SYSTEM, dt_mlx5_cq_init(&cq, &out, &wrong));
    EXPECT_STREQ("its size is no power of two up to 2^23", wrong);
    out = Out();
    out.dbrec = nullptr;
    EXPECT_EQ(DT_SYSTEM, dt_mlx5_cq_init(&cq, &out, &wrong));
    EXPECT_STREQ("it has no memory", wrong);
}

INSTANTIATE_TEST_SUITE_P(All, Entries, ::testing::Values(64u, 128u));
} // namespace
