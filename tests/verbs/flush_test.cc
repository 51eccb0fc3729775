/* SPDX-License-Identifier: Apache-2.0 */
/* Flushes: reads of a device from its own memory. */
#include "tests/verbs/device_fixture.h"

#include <cerrno>

#include "verbs/flush.h"

namespace
{
class Flush : public DeviceFixture
{
};

TEST_F(Flush, ReadsThroughTheDevice)
{
    static char memory[64];
    dt_qp_link_options link = {};
    dt_flush *flush;
    dt_mr *mr;
    dt_completion done[2];

    link.timeout_exponent = 14;
    link.rd_atomic = 1;
    Open();
    ASSERT_EQ(DT_OK, dt_mr_register(device, memory, sizeof memory, DT_MR_REMOTE_READ, &mr));
    ASSERT_EQ(DT_OK, dt_flush_create(device, 2, 5, &link, &flush));
    fake::TheWorld().hold = true;
    auto addr = reinterpret_cast<uint64_t>(memory);
    EXPECT_EQ(DT_OK, dt_flush_post(flush, addr, mr->rkey, 1));
    EXPECT_EQ(DT_OK, dt_flush_post(flush, addr, mr->rkey, 2));
    EXPECT_EQ(DT_FULL, dt_flush_post(flush, addr, mr->rkey, 3));
    EXPECT_EQ(0, dt_flush_poll(flush, done, 2));
    fake::TheWorld().hold = false;
    ASSERT_EQ(2, dt_flush_poll(flush, done, 2));
    EXPECT_EQ(1u, done[0].wr_id);
    EXPECT_EQ(DT_WC_SUCCESS, done[1].status);
    EXPECT_EQ(DT_OK, dt_flush_post(flush, addr, mr->rkey + 1000, 4));
    ASSERT_EQ(1, dt_flush_poll(flush, done, 2));
    EXPECT_EQ(DT_WC_REMOTE_ACCESS, done[0].status);
    dt_flush_destroy(flush);
    EXPECT_EQ(DT_OK, dt_mr_deregister(device, mr));
    dt_device_close(device);
    ExpectReverseRelease();
}

TEST_F(Flush, EveryFailureWhileMakingAFlushIsOneWarningAndLeavesNothing)
{
    dt_qp_link_options link = {};
    dt_flush *flush;

    link.timeout_exponent = 14;
    Open();
    int live = fake::TheWorld().live;
    detour_test::ExpectWarning("Input/output error");
    for (const char *call :
         {"create_mr", "create_cq", "create_qp", "modify_to_init", "modify_to_rtr", "modify_to_rts"}) {
        fake::Fail(call, EIO);
        EXPECT_EQ(DT_SYSTEM, dt_flush_create(device, 2, 0, &link, &flush)) << call;
        EXPECT_EQ(live, fake::TheWorld().live) << call;
    }
    for (int i = 0;; i++) {
        detour_test_fail_alloc(i);
        enum dt_status status = dt_flush_create(device, 2, 0, &link, &flush);
        if (!detour_test_alloc_failed()) {
            ASSERT_EQ(DT_OK, status);
            break;
        }
        EXPECT_EQ(DT_NO_MEMORY, status) << i;
        EXPECT_EQ(live, fake::TheWorld().live) << i;
    }
    dt_flush_destroy(flush);
    dt_device_close(device);
    ExpectReverseRelease();
}
} // namespace
