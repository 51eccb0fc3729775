// SPDX-License-Identifier: Apache-2.0
// Faults that only a kernel's device has, and what the sender sees of them: docs/softrnic.md.
#include <gtest/gtest.h>

#include <memory>

#include "tests/contract/wire_under_test.h"
#include "tests/softrnic/soft_end.h"
#include "tests/vm/link.h"

namespace detour_test
{
namespace
{
class Rxe : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        StartWire();
        for (int device : {0, 1}) {
            EndOptions options;
            options.device = device;
            ends[device] = std::make_unique<End>(options);
        }
        ConnectOptions connect;
        connect.timeout = 14; // 67 ms
        connect.retry_cnt = 3;
        ConnectEnds(*ends[0], *ends[1], connect);
    }

    void TearDown() override
    {
        StopWire();
    }

    // Three writes; how the first ends, and that the others are flushed.
    ibv_wc_status FirstError()
    {
        EndAddress to = ends[1]->Address();
        double start = Seconds();
        for (uint64_t i = 0; i < 3; i++)
            EXPECT_EQ(0, ends[0]->Post(IBV_WR_RDMA_WRITE, 0, 4096, to, 0, i));
        ibv_wc first = ends[0]->Wait(20);
        printf("first error: status %d, vendor_err %u, after %.3f s\n", first.status, first.vendor_err,
               Seconds() - start);
        EXPECT_EQ(0u, first.wr_id);
        for (uint64_t i = 1; i < 3; i++) {
            ibv_wc next = ends[0]->Wait(20);
            EXPECT_EQ(i, next.wr_id);
            EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, next.status);
        }
        return first.status;
    }

    std::unique_ptr<End> ends[2];
};

TEST_F(Rxe, OwnInterfaceOff)
{
    Link(0, "off");
    EXPECT_EQ(IBV_WC_LOC_QP_OP_ERR, FirstError());
}

TEST_F(Rxe, PeersInterfaceOff)
{
    Link(1, "off");
    EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, FirstError());
}

TEST_F(Rxe, AllIsLostInTheSwitch)
{
    Link(1, "deaf");
    EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, FirstError());
}
} // namespace
} // namespace detour_test
