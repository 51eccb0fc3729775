// SPDX-License-Identifier: Apache-2.0
// ConnectX' completion queues entry by entry, and what happens when its queues are not to be had.
#include "verbs/mlx5.h"

#include <gtest/gtest.h>
#include <endian.h>

#include <vector>

#include "tests/harness/harness.h"
#include "tests/verbs/fake_verbs.h"
#include "tests/verbs/rig.h"
#include "verbs/fault.h"
#include "verbs/object.h"

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
TEST_P(Entries, LapsAreToldApart)
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

// Neither is ever asked for; whoever took it for a plain one would deliver something wrong.
TEST_P(Entries, WhatASendQueueCannotReportFailsTheCqAfterWhatWasBefore)
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

/* Two devices of mlx5. */
class Mlx5 : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        fake::Reset();
        ASSERT_EQ(DT_OK, dt_verbs_open_table(fake::Mlx5Table(), &verbs));
        ASSERT_EQ(DT_OK, dt_verbs_devices(verbs, &list, &count));
        ASSERT_EQ(2u, count);
        options.sq_depth = 16;
        options.rq_depth = 16;
        options.inline_bytes = 64;
        options.posting = DT_POSTING_DV;
        options.access = DT_MR_REMOTE_WRITE;
    }
    void TearDown() override
    {
        dt_verbs_devices_free(list);
        dt_verbs_close(verbs);
        EXPECT_EQ(0, fake::TheWorld().live) << "something was not released";
    }

    /* What dt_qp_create() says on a device that is opened for it. */
    enum dt_status Create()
    {
        dt_device *device = nullptr;
        dt_qp *qp = nullptr;

        EXPECT_EQ(DT_OK, dt_device_open(verbs, &list[0], &device));
        EXPECT_EQ(DT_OK, dt_cq_create(device, 64, nullptr, &options.send_cq));
        EXPECT_EQ(DT_OK, dt_cq_create(device, 64, nullptr, &options.recv_cq));
        enum dt_status status = dt_qp_create(device, &options, &qp);
        if (status == DT_OK)
            dt_qp_destroy(qp);
        dt_cq_destroy(options.send_cq);
        dt_cq_destroy(options.recv_cq);
        dt_device_close(device);
        return status;
    }

    dt_verbs *verbs = nullptr;
    dt_device_info *list = nullptr;
    size_t count = 0;
    dt_qp_options options = {};
};

TEST_F(Mlx5, BothDoorbellRegistersAreUsedInTurnAndRungForTheNewest)
{
    rig::End a(verbs, list[0], options), b(verbs, list[1], options);
    rig::Connect(a, b);
    fake::Qp *qp = fake::TheWorld().qps.at(dt_qp_number(a.qp));
    dt_write write = {};
    write.flags = DT_POST_SIGNALED;

    for (uint32_t ring = 0; ring < 6; ring++) {
        qp->registers_used = 0;
        ASSERT_EQ(DT_OK, dt_qp_post_write(a.qp, &write, 1));
        ASSERT_EQ(DT_OK, dt_qp_post_write(a.qp, &write, 1));
        dt_qp_ring(a.qp);
        dt_qp_ring(a.qp); // nothing is new
        ASSERT_EQ(2u, a.Poll(2).size());
        EXPECT_EQ(ring % 2 ? 2u : 1u, qp->registers_used) << ring;
    }
}

TEST_F(Mlx5, EachQueuePairHasADoorbellRegisterOfItsOwn)
{
    EXPECT_EQ(DT_OK, Create());
    EXPECT_EQ(1u, fake::TheWorld().domains);
    fake::Fail("create_td", ENOSPC);
    EXPECT_EQ(DT_OK, Create()) << "or shares one";
    fake::Fail("alloc_parent_domain", ENOMEM);
    EXPECT_EQ(DT_OK, Create());
    options.posting = DT_POSTING_STD;
    EXPECT_EQ(DT_OK, Create());
    EXPECT_EQ(1u, fake::TheWorld().domains);
}

TEST_F(Mlx5, WhatIsNotHandedOverIsRefusedWithTheReason)
{
    detour_test::ExpectWarning("cannot be taken over: Operation not supported; DETOUR_POSTING=std does");
    fake::Fail("init_qp", EOPNOTSUPP);
    EXPECT_EQ(DT_UNSUPPORTED, Create());
    detour_test::ExpectWarning("cannot be taken over: Invalid argument; DETOUR_POSTING=std does");
    fake::Fail("init_cq", EINVAL);
    EXPECT_EQ(DT_SYSTEM, Create());
    detour_test::ExpectWarning("is not in a format known here (blocks of 128 bytes)");
    fake::TheWorld().sq_stride = 128;
    EXPECT_EQ(DT_SYSTEM, Create());
    fake::TheWorld().sq_stride = 64;
    detour_test::ExpectWarning("neither 64 nor 128 bytes (128 entries of 256 bytes)");
    fake::TheWorld().cqe_bytes = 256;
    EXPECT_EQ(DT_SYSTEM, Create());
    fake::TheWorld().cqe_bytes = 64;
    EXPECT_EQ(DT_OK, Create());
}

TEST_F(Mlx5, AnotherProvidersDeviceIsRefusedWithoutAskingLibmlx5)
{
    list[0].provider = DT_PROVIDER_RXE;
    fake::TheWorld().devices[0]->vendor_id = 0xffffff;
    fake::Fail("init_qp", EIO); // stays
    detour_test::ExpectWarning("(it is for mlx5, this one is of 'rxe'); DETOUR_POSTING=std does");
    EXPECT_EQ(DT_UNSUPPORTED, Create());
    EXPECT_EQ(1u, fake::TheWorld().failures.count("init_qp"));
}

TEST_F(Mlx5, WithoutLibmlx5ThereIsNoDv)
{
    dt_verbs_table table = *fake::Mlx5Table();

    table.mlx5_init_object = nullptr;
    dt_verbs_close(verbs);
    ASSERT_EQ(DT_OK, dt_verbs_open_table(&table, &verbs));
    snprintf(verbs->mlx5_library, sizeof verbs->mlx5_library, "libno-such-mlx5.so.9");
    detour_test::ExpectWarning("needs libmlx5: libno-such-mlx5.so.9: cannot open shared object file");
    EXPECT_EQ(DT_UNSUPPORTED, Create());
    snprintf(verbs->mlx5_library, sizeof verbs->mlx5_library, "%s", STUB_VERBS);
    detour_test::ExpectWarning("has no mlx5dv_init_obj");
    EXPECT_EQ(DT_UNSUPPORTED, Create());
    options.posting = DT_POSTING_STD;
    EXPECT_EQ(DT_OK, Create());
}

TEST_F(Mlx5, AnEntryThatCannotBeFailsTheCq)
{
    rig::End a(verbs, list[0], options), b(verbs, list[1], options);
    dt_write write = {};
    dt_completion completion;
    rig::Connect(a, b);

    write.flags = DT_POST_SIGNALED;
    fake::TheWorld().cqe_op_own = DT_MLX5_CQE_FORMAT;
    ASSERT_EQ(DT_OK, dt_qp_post_write(a.qp, &write, 1));
    dt_qp_ring(a.qp);
    fake::Run();
    detour_test::ExpectWarning("a CQ failed: it can no longer be polled");
    EXPECT_EQ(-1, dt_cq_poll(a.send_cq, &completion, 1));
    EXPECT_EQ(-1, dt_cq_poll(a.send_cq, &completion, 1));
}

// The fault layer stands before libmlx5's operations, and before Detour's own polling all the same.
TEST_F(Mlx5, FaultsActOnACqThatIsPolledByHand)
{
    rig::End a(verbs, list[0], options), b(verbs, list[1], options);
    uint64_t fired = 0;
    dt_device_fault fault = {};
    dt_write write = {};
    rig::Connect(a, b);

    fault.id = 1;
    fault.kind = DT_DEVICE_FAULT_STATUS;
    fault.status = DT_WC_RETRY_EXCEEDED;
    fault.limit = 1;
    fault.fired = &fired;
    dt_device_set_faults(a.device, &fault, 1);
    write.flags = DT_POST_SIGNALED;
    write.wr_id = 5;
    ASSERT_EQ(DT_OK, dt_qp_post_write(a.qp, &write, 1));
    dt_qp_ring(a.qp);
    auto done = a.Poll(1);
    ASSERT_EQ(1u, done.size());
    EXPECT_EQ(DT_WC_RETRY_EXCEEDED, done[0].status);
    EXPECT_EQ(5u, done[0].wr_id);
    EXPECT_EQ(1u, fired);
    dt_device_set_faults(a.device, nullptr, 0);
}
} // namespace
