/* SPDX-License-Identifier: Apache-2.0 */
/* The software RNIC seen through verbs/, beyond what the posting suite runs on it. */
#include <gtest/gtest.h>

#include <poll.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "tests/harness/harness.h"
#include "tests/verbs/fake_verbs.h"
#include "tests/verbs/rig.h"
#include "verbs/flush.h"
#include "verbs/nic_command.h"

namespace
{
TEST(SoftOpen, WithoutDevicesOrWithTooManyIsOneLine)
{
    dt_verbs_options options = {};
    dt_verbs *verbs;
    char reason[300] = "";

    options.kind = DT_VERBS_SOFT;
    options.reason = reason;
    options.reason_bytes = sizeof reason;
    for (uint32_t count : {0u, 17u, 0xffffffffu}) {
        options.soft_device_count = count;
        EXPECT_EQ(DT_INVALID, dt_verbs_open(&options, &verbs));
        EXPECT_EQ("verbs: no " + std::to_string(count) + " software RNICs (1 to 16): Invalid argument",
                  reason);
    }
    options.reason = nullptr;
    detour_test::ExpectWarning("verbs: no 4294967295 software RNICs");
    EXPECT_EQ(DT_INVALID, dt_verbs_open(&options, &verbs));
    options.kind = static_cast<dt_verbs_kind>(7);
    detour_test::ExpectWarning("verbs: kind 7 is neither system nor soft");
    EXPECT_EQ(DT_INVALID, dt_verbs_open(&options, &verbs));
    options.kind = DT_VERBS_SYSTEM;
    options.library = "libno-such-verbs.so.9";
    detour_test::ExpectWarning("libno-such-verbs.so.9");
    EXPECT_EQ(DT_NOT_FOUND, dt_verbs_open(&options, &verbs));
}

class Soft : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        source = rig::MakeSoft();
        verbs = source->verbs();
        ASSERT_EQ(DT_OK, dt_verbs_devices(verbs, &list, &count));
        ASSERT_EQ(2u, count);
        ASSERT_EQ(DT_OK, dt_device_open(verbs, &list[0], &device));
    }

    void TearDown() override
    {
        dt_device_close(device);
        dt_verbs_devices_free(list);
    }

    dt_device_event NextEvent()
    {
        pollfd fd = {dt_device_event_fd(device), POLLIN, 0};
        dt_device_event event = {};
        EXPECT_EQ(1, poll(&fd, 1, 10000));
        EXPECT_EQ(DT_OK, dt_device_next_event(device, &event));
        return event;
    }

    std::string Do(const char *args, enum dt_status expected = DT_OK)
    {
        char answer[300];
        EXPECT_EQ(expected, dt_verbs_nic_command(verbs, args, answer, sizeof answer)) << answer;
        return answer;
    }

    std::unique_ptr<rig::Source> source;
    dt_verbs *verbs = nullptr;
    dt_device_info *list = nullptr;
    size_t count = 0;
    dt_device *device = nullptr;
};

TEST_F(Soft, DescribesItself)
{
    EXPECT_STREQ("soft0", list[0].name);
    EXPECT_STREQ("soft1", list[1].name);
    EXPECT_NE(list[0].guid, list[1].guid);
    EXPECT_NE(0, memcmp(list[0].gid, list[1].gid, 16));
    EXPECT_TRUE(list[0].is_soft);
    EXPECT_TRUE(list[0].is_active);
    EXPECT_GT(list[0].speed_mbps, 0u);
    EXPECT_EQ(-1, list[0].numa_node);
    EXPECT_GE(list[0].rd_atomic_max, 1u);
}

TEST_F(Soft, PortEventsComeWithoutBlocking)
{
    dt_device_event event;

    EXPECT_EQ(DT_AGAIN, dt_device_next_event(device, &event));
    EXPECT_EQ("soft0: down", Do("soft0 down"));
    event = NextEvent();
    EXPECT_EQ(DT_EVENT_PORT_ERROR, event.type);
    EXPECT_EQ(1u, event.port);
    EXPECT_EQ("soft0: up", Do("soft0 up"));
    EXPECT_EQ(DT_EVENT_PORT_ACTIVE, NextEvent().type);
    EXPECT_EQ(DT_AGAIN, dt_device_next_event(device, &event));
}

TEST_F(Soft, TheNicCommandListsAndActs)
{
    EXPECT_EQ("soft0 soft up, soft1 soft up", Do("list"));
    Do("soft0 down");
    EXPECT_EQ("soft0 soft down, soft1 soft up", Do("list"));
    Do("soft0   up");
    EXPECT_EQ("soft0: drop 20%", Do("soft0 drop 20%"));
    EXPECT_EQ("soft0: drop 0%", Do("soft0 drop 0%"));
    EXPECT_EQ("soft0: rate 250M", Do("soft0 rate 250M"));
    EXPECT_EQ("soft0: rate 0", Do("soft0 rate 0"));
    Do("soft0 rate fast", DT_INVALID);
    Do("soft0 verbs 10000001", DT_INVALID);
    EXPECT_EQ("no software RNIC named 'soft9' is open in this process", Do("soft9 down", DT_NOT_FOUND));
    EXPECT_EQ("'explode' is no action: down, up, fatal, plug, drop N, drop P%, rate R or verbs N",
              Do("soft0 explode", DT_INVALID));
    for (const char *args : {"", " ", "soft0", "listx", " soft0 down"})
        EXPECT_EQ("expected `list` or `DEVICE ACTION`", Do(args, DT_INVALID)) << args;
    Do((std::string(200, 'n') + " down").c_str(), DT_INVALID);
}

TEST_F(Soft, VerbsTakeAsLongAsOrdered)
{
    dt_qp_options options = {};
    options.sq_depth = options.rq_depth = 4;
    Do("soft0 verbs 20000");
    auto begin = std::chrono::steady_clock::now();
    {
        rig::End end(verbs, list[0], options);
    }
    EXPECT_LE(std::chrono::milliseconds(40), std::chrono::steady_clock::now() - begin)
        << "made and destroyed";
    EXPECT_EQ("soft0: verbs 0", Do("soft0 verbs 0"));
}

// No completion comes any more: the event is all there is.
TEST_F(Soft, ADeviceThatDiesReportsItAndIsSilent)
{
    dt_qp_options options = {};
    dt_completion done;
    options.sq_depth = options.rq_depth = 4;
    rig::End a(verbs, list[0], options), b(verbs, list[1], options);

    rig::Connect(a, b);
    ASSERT_EQ(DT_OK, dt_qp_post_empty_recvs(a.qp, 3));
    Do("soft0 fatal");
    EXPECT_EQ(DT_EVENT_DEVICE_FATAL, NextEvent().type);
    detour_test::ExpectWarning("cannot go to ERR: Input/output error");
    EXPECT_EQ(DT_SYSTEM, dt_qp_fail(a.qp));
    EXPECT_EQ(0, dt_cq_poll(a.recv_cq, &done, 1));
    EXPECT_EQ(3u, dt_qp_recvs_outstanding(a.qp));
}

TEST_F(Soft, ALinkThatStaysDownIsRetryExceeded)
{
    dt_qp_options options = {};
    dt_qp_link_options link = rig::PatientLink();
    dt_write write = {};
    options.sq_depth = options.rq_depth = 4;
    rig::End a(verbs, list[0], options), b(verbs, list[1], options);

    link.timeout_exponent = 8; // about 1 ms
    link.retry_count = 2;
    rig::Connect(a, b, link);
    Do("soft1 down");
    write.wr_id = 9;
    ASSERT_EQ(DT_OK, dt_qp_post_write(a.qp, &write, 1)); // not signaled
    dt_qp_ring(a.qp);
    auto done = a.Poll(1);
    ASSERT_EQ(1u, done.size());
    EXPECT_EQ(9u, done[0].wr_id);
    EXPECT_EQ(DT_WC_RETRY_EXCEEDED, done[0].status);
    EXPECT_EQ(DT_WC_CLASS_TRANSPORT, dt_wc_status_class(DT_PROVIDER_SOFT, done[0].status));
    Do("soft1 up");
}

TEST_F(Soft, FlushReadsThroughTheDevice)
{
    rig::Buffer buffer(device, 4096);
    dt_qp_link_options link = rig::PatientLink();
    dt_flush *flush;
    dt_completion done;
    int taken = 0;

    ASSERT_EQ(DT_OK, dt_flush_create(device, 4, 77, &link, &flush));
    ASSERT_EQ(DT_OK, dt_flush_post(flush, buffer.addr(100), buffer.mr()->rkey, 31));
    for (auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
         !taken && std::chrono::steady_clock::now() < limit;)
        taken = dt_flush_poll(flush, &done, 1);
    ASSERT_EQ(1, taken);
    EXPECT_EQ(31u, done.wr_id);
    EXPECT_EQ(DT_WC_SUCCESS, done.status);
    dt_flush_destroy(flush);
}

TEST_F(Soft, DmaBufIsUnsupported)
{
    dt_mr *mr;
    char byte;

    EXPECT_EQ(DT_UNSUPPORTED, dt_mr_register_dmabuf(device, &byte, 1, 0, 0, DT_MR_REMOTE_READ, &mr));
}

// NCCL registers from many threads; the QPs of both ends work meanwhile.
TEST_F(Soft, ManyThreadsRegisterWhileBytesMove)
{
    dt_qp_options options = {};
    options.sq_depth = options.rq_depth = 16;
    options.access = DT_MR_REMOTE_WRITE;
    rig::End a(verbs, list[0], options), b(verbs, list[1], options);
    std::vector<std::thread> threads;
    auto pool = std::make_unique<uint8_t[]>(1 << 20);

    rig::Connect(a, b);
    for (int t = 0; t < 4; t++) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 300; i++) {
                dt_mr *mr;
                ASSERT_EQ(DT_OK,
                          dt_mr_register(a.device, &pool[static_cast<size_t>((i * 7 + t) % 200) * 4096], 9000,
                                         DT_MR_REMOTE_WRITE, &mr));
                ASSERT_EQ(DT_OK, dt_mr_deregister(a.device, mr));
            }
        });
    }
    {
        rig::Buffer from(a.device, 65536), to(b.device, 65536);
        memset(from.data(), 0x5a, 65536);
        for (uint64_t i = 0; i < 300; i++) {
            dt_write write = {};
            write.local_addr = from.addr();
            write.remote_addr = to.addr();
            write.lkey = from.mr()->lkey;
            write.rkey = to.mr()->rkey;
            write.bytes = 65536;
            write.wr_id = i;
            write.flags = DT_POST_SIGNALED;
            ASSERT_EQ(DT_OK, dt_qp_post_write(a.qp, &write, 1));
            dt_qp_ring(a.qp);
            ASSERT_EQ(i, a.Poll(1).at(0).wr_id);
        }
        EXPECT_EQ(0, memcmp(from.data(), to.data(), 65536));
        for (std::thread &thread : threads)
            thread.join();
    }
}

// Real devices are listed without being opened.
TEST(NicCommand, ListsRealDevicesByNameOnly)
{
    dt_verbs *verbs;
    char answer[200];

    fake::Reset();
    ASSERT_EQ(DT_OK, dt_verbs_open_table(fake::Table(), &verbs));
    EXPECT_EQ(DT_OK, dt_verbs_nic_command(verbs, "list", answer, sizeof answer));
    EXPECT_STREQ("fake0 system, fake1 system", answer);
    EXPECT_TRUE(fake::TheWorld().log.empty());
    fake::Fail("get_device_list", ENOSYS);
    EXPECT_EQ(DT_OK, dt_verbs_nic_command(verbs, "list", answer, sizeof answer));
    EXPECT_STREQ("", answer);
    EXPECT_EQ(DT_UNSUPPORTED, dt_verbs_nic_command(verbs, "fake0 down", answer, sizeof answer));
    char tiny[10];
    EXPECT_EQ(DT_OK, dt_verbs_nic_command(verbs, "list", tiny, sizeof tiny));
    EXPECT_STREQ("fake0 sys", tiny);
    dt_verbs_close(verbs);
    EXPECT_EQ(0, fake::TheWorld().live);
}
} // namespace
