/* SPDX-License-Identifier: Apache-2.0 */
/* A scripted device for the tests of devices, queues and flushes, and two connected QPs on it. */
#ifndef DETOUR_TESTS_VERBS_DEVICE_FIXTURE_H
#define DETOUR_TESTS_VERBS_DEVICE_FIXTURE_H

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/harness/harness.h"
#include "tests/verbs/fake_verbs.h"
#include "verbs/device.h"
#include "verbs/queue.h"

class DeviceFixture : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        fake::Reset();
        Script();
        ASSERT_EQ(DT_OK, dt_verbs_open_table(fake::Table(), &verbs));
        ASSERT_EQ(DT_OK, dt_verbs_devices(verbs, &list, &count));
        fake::TheWorld().log.clear();
    }

    void TearDown() override
    {
        dt_verbs_devices_free(list);
        dt_verbs_close(verbs);
        EXPECT_EQ(0, fake::TheWorld().live) << "something was not released";
        EXPECT_TRUE(fake::TheWorld().failures.empty()) << "an armed failure was never met";
    }

    /* What a suite changes about the devices before they are listed. */
    virtual void Script() {}

    void Open()
    {
        ASSERT_EQ(DT_OK, dt_device_open(verbs, &list[0], &device));
    }

    dt_qp_options Options(dt_cq *cq)
    {
        dt_qp_options options = {};
        options.send_cq = options.recv_cq = cq;
        options.sq_depth = 4;
        options.rq_depth = 4;
        return options;
    }

    /* Each release is of what was made last. */
    static void ExpectReverseRelease()
    {
        std::vector<std::string> made;
        for (const std::string &call : fake::TheWorld().log) {
            if (call.rfind("create_", 0) == 0) {
                made.push_back(call.substr(7));
                continue;
            }
            ASSERT_FALSE(made.empty()) << call;
            EXPECT_EQ(made.back(), call.substr(8));
            made.pop_back();
        }
        EXPECT_TRUE(made.empty());
    }

    dt_verbs *verbs = nullptr;
    dt_device *device = nullptr;
    dt_device_info *list = nullptr;
    size_t count = 0;
};

/* Two connected QPs on one device that share a CQ. */
class PairFixture : public DeviceFixture
{
  protected:
    void SetUp() override
    {
        DeviceFixture::SetUp();
        Open();
        ASSERT_EQ(DT_OK, dt_cq_create(device, 64, nullptr, &cq));
        a = MakeQp(1);
        b = MakeQp(2);
        dt_qp_local_address(a, &address_a);
        dt_qp_local_address(b, &address_b);
        link.timeout_exponent = 14;
        link.rnr_retry_count = 7;
        link.rd_atomic = 1;
    }

    void TearDown() override
    {
        dt_qp_destroy(a);
        dt_qp_destroy(b);
        dt_cq_destroy(cq);
        dt_device_close(device);
        DeviceFixture::TearDown();
    }

    dt_qp *MakeQp(uint64_t recv_wr_id)
    {
        dt_qp_options options = Options(cq);
        dt_qp *qp = nullptr;
        options.recv_wr_id = recv_wr_id;
        EXPECT_EQ(DT_OK, dt_qp_create(device, &options, &qp));
        return qp;
    }

    void Connect()
    {
        ASSERT_EQ(DT_OK, dt_qp_connect(a, &address_b, &link));
        ASSERT_EQ(DT_OK, dt_qp_connect(b, &address_a, &link));
    }

    dt_write Nothing(uint64_t wr_id, uint32_t flags = DT_POST_SIGNALED)
    {
        dt_write write = {};
        write.wr_id = wr_id;
        write.flags = flags;
        return write;
    }

    dt_cq *cq = nullptr;
    dt_qp *a = nullptr, *b = nullptr;
    dt_qp_address address_a, address_b;
    dt_qp_link_options link = {};
};

#endif
