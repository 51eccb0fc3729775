/* SPDX-License-Identifier: Apache-2.0 */
/* The rest of a device's life on the real libmlx5 over the stand-in: events, failing receivers, registers,
 * the end. */
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/harness/harness.h"
#include "tests/provider/uverbs.h"
#include "tests/verbs/rig.h"

namespace
{
using rig::Buffer;
using rig::End;

class ProviderDevice : public ::testing::TestWithParam<rig::Kind>
{
  protected:
    void SetUp() override
    {
        source = GetParam().make();
        ASSERT_EQ(DT_OK, dt_verbs_devices(source->verbs(), &list, &count));
        ASSERT_EQ(2u, count);
    }
    void TearDown() override
    {
        dt_verbs_devices_free(list);
    }

    dt_qp_options Options() const
    {
        dt_qp_options options = {};
        options.sq_depth = 4;
        options.rq_depth = 4;
        options.posting = GetParam().posting;
        options.access = DT_MR_REMOTE_WRITE | DT_MR_REMOTE_READ;
        return options;
    }

    std::unique_ptr<End> MakeEnd(size_t device)
    {
        return std::make_unique<End>(source->verbs(), list[device], Options(), 8);
    }

    // The next event of this type; others, like the one about the first packet, are passed over.
    static dt_device_event Next(dt_device *device, dt_event_type type)
    {
        dt_device_event event = {};

        for (int tries = 0; tries < 100000; tries++) {
            if (dt_device_next_event(device, &event) == DT_OK && event.type == type)
                return event;
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        ADD_FAILURE() << "no event " << dt_event_type_text(type);
        return event;
    }

    static dt_write WriteWithImm(const Buffer &from, const Buffer &to, uint32_t imm)
    {
        dt_write write = {};
        write.local_addr = from.addr();
        write.remote_addr = to.addr();
        write.bytes = 64;
        write.lkey = from.mr()->lkey;
        write.rkey = to.mr()->rkey;
        write.imm = imm;
        write.wr_id = imm;
        write.flags = DT_POST_SIGNALED | DT_POST_IMM;
        return write;
    }

    std::unique_ptr<rig::Source> source;
    dt_device_info *list = nullptr;
    size_t count = 0;
};

TEST_P(ProviderDevice, IsListedAsTwoPortsOfConnectX)
{
    for (size_t i = 0; i < count; i++) {
        EXPECT_EQ(i ? std::string("mlx5_1") : "mlx5_0", list[i].name);
        EXPECT_EQ(DT_PROVIDER_MLX, list[i].provider);
        EXPECT_EQ(DT_LINK_ETHERNET, list[i].link_layer);
        EXPECT_TRUE(list[i].is_active);
        EXPECT_FALSE(list[i].is_soft);
        EXPECT_EQ(4096u, list[i].mtu_bytes);
    }
    EXPECT_NE(0, memcmp(list[0].gid, list[1].gid, sizeof list[0].gid));
}

TEST_P(ProviderDevice, APulledLinkIsAnEventAndSoIsItsReturn)
{
    auto end = MakeEnd(0);

    source->Hold();
    EXPECT_EQ(1u, Next(end->device, DT_EVENT_PORT_ERROR).port);
    source->Resume();
    EXPECT_EQ(1u, Next(end->device, DT_EVENT_PORT_ACTIVE).port);
}

// Every receive and each CQ entry is used many times: index, lap and owner bit come round.
TEST_P(ProviderDevice, QueuesOfFourEntriesCarryHundredsOfMessages)
{
    auto a = MakeEnd(0), b = MakeEnd(1);
    rig::Connect(*a, *b);
    Buffer from(a->device, 4096), to(b->device, 4096);

    for (uint32_t i = 0; i < 200; i++) {
        dt_write write = WriteWithImm(from, to, i);

        memset(from.data(), static_cast<int>(i), 64);
        ASSERT_EQ(DT_OK, dt_qp_post_empty_recvs(b->qp, 1));
        ASSERT_EQ(DT_OK, dt_qp_post_write(a->qp, &write, 1));
        dt_qp_ring(a->qp);
        auto arrived = b->Poll(1), sent = a->Poll(1);
        ASSERT_EQ(1u, arrived.size());
        ASSERT_EQ(DT_WC_SUCCESS, arrived[0].status);
        ASSERT_EQ(i, arrived[0].imm);
        ASSERT_EQ(64u, arrived[0].bytes);
        ASSERT_EQ(0, memcmp(from.data(), to.data(), 64)) << i;
        ASSERT_EQ(1u, sent.size());
        ASSERT_EQ(i, sent[0].wr_id);
    }
}

// The receiver's queue pair fails by a request: an event about it, and its receives come back.
TEST_P(ProviderDevice, AWrongKeyFailsBothEndsAndTheEventNamesTheReceiver)
{
    auto a = MakeEnd(0), b = MakeEnd(1);
    rig::Connect(*a, *b);
    Buffer from(a->device, 4096), to(b->device, 4096);
    dt_write write = WriteWithImm(from, to, 1);

    write.rkey ^= 0x00ffff00;
    ASSERT_EQ(DT_OK, dt_qp_post_empty_recvs(b->qp, 2));
    ASSERT_EQ(DT_OK, dt_qp_post_write(a->qp, &write, 1));
    dt_qp_ring(a->qp);
    auto sent = a->Poll(1), flushed = b->Poll(2);
    ASSERT_EQ(1u, sent.size());
    EXPECT_EQ(DT_WC_REMOTE_ACCESS, sent[0].status);
    ASSERT_EQ(2u, flushed.size());
    EXPECT_EQ(DT_WC_FLUSHED, flushed[0].status);
    EXPECT_EQ(DT_WC_RECV, flushed[0].direction);
    EXPECT_EQ(dt_qp_number(b->qp), Next(b->device, DT_EVENT_QP_FATAL).qpn);
    EXPECT_TRUE(dt_qp_is_in_error(b->qp));
}

TEST_P(ProviderDevice, WithoutAReceiveTheSenderGivesUp)
{
    auto a = MakeEnd(0), b = MakeEnd(1);
    dt_qp_link_options link = rig::PatientLink();

    link.rnr_retry_count = 1;
    rig::Connect(*a, *b, link);
    Buffer from(a->device, 4096), to(b->device, 4096);
    dt_write write = WriteWithImm(from, to, 1);
    ASSERT_EQ(DT_OK, dt_qp_post_write(a->qp, &write, 1));
    dt_qp_ring(a->qp);
    auto sent = a->Poll(1);
    ASSERT_EQ(1u, sent.size());
    EXPECT_EQ(DT_WC_RNR_RETRY_EXCEEDED, sent[0].status);
}

// Queue pairs of one device, each with a send CQ of its own.
class Many
{
  public:
    Many(dt_verbs *verbs, const dt_device_info &info, const dt_qp_options &wanted, size_t count)
    {
        dt_qp_options options = wanted;

        EXPECT_EQ(DT_OK, dt_device_open(verbs, &info, &device_));
        EXPECT_EQ(DT_OK, dt_cq_create(device_, 1024, nullptr, &recv_cq_));
        options.recv_cq = recv_cq_;
        send_cqs.resize(count), qps.resize(count);
        for (size_t i = 0; i < count; i++) {
            EXPECT_EQ(DT_OK, dt_cq_create(device_, 8, nullptr, &send_cqs[i]));
            options.send_cq = send_cqs[i];
            EXPECT_EQ(DT_OK, dt_qp_create(device_, &options, &qps[i]));
        }
    }
    ~Many()
    {
        for (dt_qp *qp : qps)
            dt_qp_destroy(qp);
        for (dt_cq *cq : send_cqs)
            dt_cq_destroy(cq);
        dt_cq_destroy(recv_cq_);
        dt_device_close(device_);
    }
    Many(const Many &) = delete;
    void Connect(const Many &to)
    {
        const dt_qp_link_options link = rig::PatientLink();

        for (size_t i = 0; i < qps.size(); i++) {
            dt_qp_address address;

            dt_qp_local_address(to.qps[i], &address);
            EXPECT_EQ(DT_OK, dt_qp_connect(qps[i], &address, &link));
        }
    }

    std::vector<dt_cq *> send_cqs;
    std::vector<dt_qp *> qps;

  private:
    dt_device *device_ = nullptr;
    dt_cq *recv_cq_ = nullptr;
};

// More queue pairs than libmlx5 has registers at first: with std some share one, with dv pages are mapped, so
// that each has its own.
TEST_P(ProviderDevice, ManyQueuePairsOfADeviceAllSend)
{
    Many from(source->verbs(), list[0], Options(), 40), to(source->verbs(), list[1], Options(), 40);

    from.Connect(to), to.Connect(from);
    for (dt_qp *qp : from.qps) {
        dt_write write = {};
        write.flags = DT_POST_SIGNALED;
        ASSERT_EQ(DT_OK, dt_qp_post_write(qp, &write, 1));
        dt_qp_ring(qp);
    }
    for (dt_cq *cq : from.send_cqs) {
        dt_completion completion = {};

        for (int tries = 0; tries < 100000 && dt_cq_poll(cq, &completion, 1) == 0; tries++)
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        EXPECT_EQ(DT_WC_SUCCESS, completion.status);
        EXPECT_NE(0u, completion.qpn);
    }
    for (const std::string &line : detour_test::LoggedLines())
        EXPECT_EQ(std::string::npos, line.find("dv-doorbell")) << line;
}

INSTANTIATE_TEST_SUITE_P(All, ProviderDevice, ::testing::ValuesIn(rig::Kinds()),
                         [](const auto &test) { return std::string(test.param.name); });
} // namespace
