// SPDX-License-Identifier: Apache-2.0
// Queues of ConnectX that Detour takes over from libmlx5, and devices where it cannot.
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

    /* The result of dt_qp_create() on a device that is opened for it. */
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
