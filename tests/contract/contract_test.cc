// SPDX-License-Identifier: Apache-2.0
// The contract of a reliable connection through the calls of libibverbs, the same suite for every wire. What
// a wire does differently stands in wire_under_test.h.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>

#include "base/clock.h"
#include "tests/contract/wire_under_test.h"
#include "tests/softrnic/soft_end.h"

namespace detour_test
{
namespace
{
constexpr uint64_t kMillisecond = 1000000;
constexpr int kTries = 120000; // of half a millisecond each

class Contract : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        StartWire();
        Make({}, {});
    }

    void TearDown() override
    {
        a.reset();
        b.reset();
        StopWire();
    }

    void Make(EndOptions options, const ConnectOptions &connect)
    {
        a.reset();
        b.reset();
        options.device = 0;
        a = std::make_unique<End>(options);
        options.device = 1;
        b = std::make_unique<End>(options);
        ConnectEnds(*a, *b, connect);
        to_b = b->Address();
        a->Fill(1, 0, a->options.buffer_bytes);
    }

    // Delays what device 0 sends, and repeats the steps with twice the delay until they take less real time
    // than that: on a busy machine a packet may have arrived before the last step. Queue pairs are made anew
    // each time; their making and the order to delay, which take long in a guest, do not count.
    void WithinDelay(uint64_t *delay_ns, const ConnectOptions &connect, const std::function<void()> &steps)
    {
        for (;; *delay_ns *= 2) {
            Make({}, connect);
            DelayAll(0, *delay_ns);
            uint64_t begin_ns = dt_clock_now_ns();
            steps();
            if (dt_clock_now_ns() - begin_ns < *delay_ns || HasFailure())
                return;
            Heal(0);
        }
    }

    // Writes with immediate from `a` to `b`, as one list: on a busy machine the first of several calls may
    // have exhausted its retries before the last call, whose request would then be flushed unsent.
    template <int kCount>
    int PostWritesTogether(uint32_t bytes)
    {
        ibv_sge sges[kCount];
        ibv_send_wr requests[kCount] = {}, *bad = nullptr;

        for (int i = 0; i < kCount; i++) {
            uint64_t offset = static_cast<uint64_t>(i) * bytes;

            sges[i] = {reinterpret_cast<uintptr_t>(a->buffer) + offset, bytes, a->mr->lkey};
            requests[i].wr_id = i;
            requests[i].next = i + 1 < kCount ? &requests[i + 1] : nullptr;
            requests[i].sg_list = &sges[i];
            requests[i].num_sge = 1;
            requests[i].opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
            requests[i].send_flags = IBV_SEND_SIGNALED;
            requests[i].wr.rdma.remote_addr = to_b.addr + offset;
            requests[i].wr.rdma.rkey = to_b.rkey;
        }
        return ibv_post_send(a->qp, requests, &bad);
    }

    // The next completion within a minute of the wire's own time.
    ibv_wc Next(End &end)
    {
        ibv_wc wc = {};

        for (int i = 0; i < kTries; i++) {
            if (end.Poll(&wc))
                return wc;
            PassTime(kMillisecond / 2);
        }
        ADD_FAILURE() << "no completion";
        return wc;
    }

    void ExpectNext(End &end, uint64_t wr_id, ibv_wc_status status)
    {
        ibv_wc wc = Next(end);
        EXPECT_EQ(wr_id, wc.wr_id);
        EXPECT_EQ(status, wc.status) << dt_soft_wc_status_str(wc.status);
    }

    void ExpectNone(End &end)
    {
        ibv_wc wc;
        PassTime(20 * kMillisecond);
        EXPECT_FALSE(end.Poll(&wc));
    }

    // The next event of an end's device within a minute; -1: none.
    int NextEvent(const End &end)
    {
        ibv_async_event event;
        int fd = end.context->async_fd;

        EXPECT_EQ(0, fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
        for (int i = 0; i < kTries; i++) {
            if (!dt_soft_get_async_event(end.context, &event)) {
                dt_soft_ack_async_event(&event);
                return event.event_type;
            }
            PassTime(kMillisecond / 2);
        }
        return -1;
    }

    ibv_qp_state StateOf(const End &end)
    {
        ibv_qp_attr attr = {};
        ibv_qp_init_attr init = {};
        EXPECT_EQ(0, dt_soft_query_qp(end.qp, &attr, IBV_QP_STATE, &init));
        return attr.qp_state;
    }

    std::unique_ptr<End> a, b;
    EndAddress to_b = {};
};

TEST(ContractList, NamesEveryWireAndTheOneUnderTest)
{
    std::set<std::string> listed;
    for (const WireDeviation &wire : kWires)
        listed.insert(wire.wire);
    EXPECT_TRUE(listed.count(kWireName)) << kWireName;
    EXPECT_EQ(1u, listed.erase("rxe")); // the kernel's
    for (const char *folder : {"/softrnic", "/tests/sim"}) {
        for (const auto &file :
             std::filesystem::directory_iterator(std::string(DETOUR_SOURCE_DIR) + folder)) {
            std::string name = file.path().filename().string();
            if (name.rfind("wire_", 0) == 0 && file.path().extension() == ".c") {
                name = name.substr(5, name.size() - 7);
                EXPECT_TRUE(listed.erase(name)) << "wire " << name << " is not in the list";
            }
        }
    }
    EXPECT_TRUE(listed.empty()) << "no such wire: " << *listed.begin();
}

TEST_F(Contract, AWriteWithImmediateArrivesWholeAndReportsItsBytes)
{
    ASSERT_EQ(0, b->PostRecv(7));
    ASSERT_EQ(0, a->Post(IBV_WR_RDMA_WRITE_WITH_IMM, 3, 100001, to_b, 3, 5, IBV_SEND_SIGNALED, 0xabcdef01));
    ibv_wc wc = Next(*b);
    EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
    EXPECT_EQ(IBV_WC_RECV_RDMA_WITH_IMM, wc.opcode);
    EXPECT_EQ(7u, wc.wr_id);
    EXPECT_EQ(100001u, wc.byte_len);
    EXPECT_EQ(htobe32(0xabcdef01), wc.imm_data);
    EXPECT_EQ(0, memcmp(a->buffer + 3, b->buffer + 3, 100001));
    EXPECT_EQ(0, b->buffer[2] | b->buffer[100004]);
    ExpectNext(*a, 5, IBV_WC_SUCCESS);
}

TEST_F(Contract, AZeroByteWriteWithImmediateIsAMessage)
{
    ASSERT_EQ(0, b->PostRecv(7));
    ASSERT_EQ(0, a->Post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, to_b, 0, 5));
    ibv_wc wc = Next(*b);
    EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
    EXPECT_EQ(0u, wc.byte_len);
    ExpectNext(*a, 5, IBV_WC_SUCCESS);
}

TEST_F(Contract, APlainWriteIsSilentAtTheTarget)
{
    ASSERT_EQ(0, b->PostRecv(7));
    ASSERT_EQ(0, a->Post(IBV_WR_RDMA_WRITE, 0, 5000, to_b, 64, 5));
    ExpectNext(*a, 5, IBV_WC_SUCCESS);
    EXPECT_EQ(0, memcmp(a->buffer, b->buffer + 64, 5000));
    ExpectNone(*b);
}

TEST_F(Contract, ASendLandsInThePostedReceive)
{
    ASSERT_EQ(0, b->PostRecv(7, 4096, 9000));
    ASSERT_EQ(0, a->Post(IBV_WR_SEND_WITH_IMM, 10, 8999, to_b, 0, 5, IBV_SEND_SIGNALED, 9));
    ibv_wc wc = Next(*b);
    EXPECT_EQ(IBV_WC_RECV, wc.opcode);
    EXPECT_EQ(8999u, wc.byte_len);
    EXPECT_EQ(htobe32(9), wc.imm_data);
    EXPECT_EQ(0, memcmp(a->buffer + 10, b->buffer + 4096, 8999));
    ExpectNext(*a, 5, IBV_WC_SUCCESS);
}

TEST_F(Contract, AReadFetchesAndAFenceWaitsForIt)
{
    b->Fill(2, 0, 300000);
    ASSERT_EQ(0, a->Post(IBV_WR_RDMA_READ, 0, 300000, to_b, 0, 1));
    ASSERT_EQ(0, a->Post(IBV_WR_RDMA_WRITE, 0, 64, to_b, 500000, 2, IBV_SEND_SIGNALED | IBV_SEND_FENCE));
    ExpectNext(*a, 1, IBV_WC_SUCCESS);
    ExpectNext(*a, 2, IBV_WC_SUCCESS);
    a->Check(2, 0, 300000, "read");
    EXPECT_EQ(0, memcmp(a->buffer, b->buffer + 500000, 64))
        << "the fenced write carried bytes from before the read";
}

TEST_F(Contract, AnInlinePayloadIsTakenWhenItIsPosted)
{
    ASSERT_EQ(0, a->Post(IBV_WR_RDMA_WRITE, 0, 60, to_b, 0, 5, IBV_SEND_SIGNALED | IBV_SEND_INLINE));
    memset(a->buffer, 0, 60);
    ExpectNext(*a, 5, IBV_WC_SUCCESS);
    b->Check(1, 0, 60, "inline");
}

TEST_F(Contract, UnsignaledWorkIsSilentAndOrderIsKept)
{
    for (uint64_t i = 0; i < 40; i++)
        ASSERT_EQ(0, a->Post(IBV_WR_RDMA_WRITE, i * 128, 128, to_b, i * 128, i,
                             i % 8 == 7 ? IBV_SEND_SIGNALED : 0));
    for (uint64_t i = 7; i < 40; i += 8)
        ExpectNext(*a, i, IBV_WC_SUCCESS);
    ExpectNone(*a);
    b->Check(1, 0, 40 * 128, "in order");
}

TEST_F(Contract, ASenderWaitsForAReceiverThatIsNotReady)
{
    ASSERT_EQ(0, a->Post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 8, to_b, 0, 5));
    ExpectNone(*a);
    ASSERT_EQ(0, b->PostRecv(7));
    ExpectNext(*b, 7, IBV_WC_SUCCESS);
    ExpectNext(*a, 5, IBV_WC_SUCCESS);
}

TEST_F(Contract, ASenderGivesUpOnAReceiverThatIsNeverReady)
{
    ConnectOptions connect;
    connect.rnr_retry = 2;
    Make({}, connect);
    ASSERT_EQ(0, a->Post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 8, to_b, 0, 5));
    ExpectNext(*a, 5, IBV_WC_RNR_RETRY_EXC_ERR);
    EXPECT_EQ(IBV_QPS_ERR, StateOf(*a));
    EXPECT_EQ(IBV_QPS_RTS, StateOf(*b));
}

TEST_F(Contract, AKeyThatIsNotTheTargetsIsRefused)
{
    EndAddress wrong = to_b;
    wrong.rkey ^= 0x55;
    ASSERT_EQ(0, a->Post(IBV_WR_RDMA_WRITE, 0, 64, wrong, 0, 5));
    ExpectNext(*a, 5, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(IBV_QPS_ERR, StateOf(*a));
    EXPECT_EQ(IBV_QPS_ERR, StateOf(*b)) << "a responder that found an error stops";
    EXPECT_EQ(0, b->buffer[0]);
}

TEST_F(Contract, ARangeThatEndsOutsideIsRefusedWhole)
{
    uint64_t bytes = b->options.buffer_bytes;
    ASSERT_EQ(0, a->Post(IBV_WR_RDMA_WRITE, 0, 8192, to_b, bytes - 8191, 5));
    ExpectNext(*a, 5, IBV_WC_REM_ACCESS_ERR);
    for (uint64_t i = bytes - 8191; i < bytes; i++)
        ASSERT_EQ(0, b->buffer[i]);
}

TEST_F(Contract, AWrongLocalKeyFailsWithoutAWordToThePeer)
{
    ibv_sge sge = {reinterpret_cast<uintptr_t>(a->buffer), 64, a->mr->lkey ^ 0x55};
    ibv_send_wr wr = {}, *bad;
    wr.wr_id = 5;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = to_b.addr;
    wr.wr.rdma.rkey = to_b.rkey;
    ASSERT_EQ(0, ibv_post_send(a->qp, &wr, &bad));
    ExpectNext(*a, 5, kWrongLocalKeyStatus); // although it was unsignaled
    EXPECT_EQ(IBV_QPS_RTS, StateOf(*b));
}

// The two scenarios that were measured on Linux soft-RoCE: the sender sees the same, whatever has landed.
TEST_F(Contract, LostAcknowledgementsAndLostDataLookTheSameToTheSender)
{
    for (const char *lost : {"responses", "requests"}) {
        bool data_arrives = !strcmp(lost, "responses");
        ConnectOptions connect;
        connect.timeout = 8; // 1 ms
        connect.retry_cnt = 3;
        Make({}, connect);
        for (uint64_t i = 0; i < 4; i++)
            ASSERT_EQ(0, b->PostRecv(100 + i));
        LoseAll(data_arrives ? 1 : 0, lost);
        ASSERT_EQ(0, PostWritesTogether<4>(4096));
        ExpectNext(*a, 0, IBV_WC_RETRY_EXC_ERR);
        for (uint64_t i = 1; i < 4; i++)
            ExpectNext(*a, i, IBV_WC_WR_FLUSH_ERR);
        for (uint64_t i = 0; data_arrives && i < 4; i++)
            ExpectNext(*b, 100 + i, IBV_WC_SUCCESS);
        ExpectNone(*b);
        if (data_arrives)
            b->Check(1, 0, 4 * 4096, "landed");
        else
            EXPECT_EQ(0, b->buffer[0]);
        EXPECT_EQ(IBV_QPS_ERR, StateOf(*a));
        EXPECT_EQ(IBV_QPS_RTS, StateOf(*b)) << "the peer receives nothing";
        Heal(0);
        Heal(1);
    }
}

TEST_F(Contract, ALatePacketOverwritesUnlessTheOldQueuePairWasFenced)
{
    for (bool is_fenced : {false, true}) {
        uint64_t delay_ns = 60 * kMillisecond;
        ConnectOptions connect;
        connect.timeout = 6; // 0.26 ms
        connect.retry_cnt = 1;
        WithinDelay(&delay_ns, connect, [&] {
            ASSERT_EQ(0, a->Post(IBV_WR_RDMA_WRITE, 0, 4096, to_b, 0, 5));
            ExpectNext(*a, 5, IBV_WC_RETRY_EXC_ERR);
            if (is_fenced) {
                ASSERT_EQ(0, b->ToError());
            }
            memset(b->buffer, 'Y', 4096); // the next message, which came another way
        });
        if (is_fenced)
            PassTime(2 * delay_ns + 80 * kMillisecond);
        for (int i = 0; !is_fenced && i < kTries && b->buffer[4095] == 'Y'; i++)
            PassTime(kMillisecond / 2);
        ibv_wc wc;
        while (b->Poll(&wc)) {
        }
        if (!is_fenced)
            b->Check(1, 0, 4096, "overwritten by the late packet");
        for (int i = 0; is_fenced && i < 4096; i++)
            ASSERT_EQ('Y', b->buffer[i]);
        Heal(0);
    }
}

TEST_F(Contract, TheErrorStateFlushesEverythingInOrder)
{
    for (uint64_t i = 0; i < 5; i++)
        ASSERT_EQ(0, a->PostRecv(i));
    ASSERT_EQ(0, a->ToError());
    for (uint64_t i = 0; i < 5; i++)
        ExpectNext(*a, i, IBV_WC_WR_FLUSH_ERR);
    ASSERT_EQ(0, a->Post(IBV_WR_RDMA_WRITE, 0, 8, to_b, 0, 77, 0));
    ExpectNext(*a, 77, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(IBV_QPS_RTS, StateOf(*b));
}

TEST_F(Contract, ADeregisteredRegionIsNotWrittenAnyMore)
{
    uint64_t delay_ns = 30 * kMillisecond;
    ConnectOptions connect;
    connect.timeout = 18; // 1.1 s: longer than any delay that a busy machine asks for
    WithinDelay(&delay_ns, connect, [&] {
        ASSERT_EQ(0, a->Post(IBV_WR_RDMA_WRITE, 0, 4096, to_b, 0, 5));
        ASSERT_EQ(0, dt_soft_dereg_mr(b->mr));
        b->mr = nullptr;
    });
    ExpectNext(*a, 5, IBV_WC_REM_ACCESS_ERR);
    for (int i = 0; i < 4096; i++)
        ASSERT_EQ(0, b->buffer[i]);
}

TEST_F(Contract, ALostPacketInTheMiddleIsSentAgain)
{
    LoseSome(0);
    ASSERT_EQ(0, b->PostRecv(7));
    ASSERT_EQ(0, a->Post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 600001, to_b, 0, 5));
    ExpectNext(*b, 7, IBV_WC_SUCCESS);
    ExpectNext(*a, 5, IBV_WC_SUCCESS);
    b->Check(1, 0, 600001, "after a loss");
}

TEST_F(Contract, ALinkThatIsDownLosesAndOneThatIsUpAgainCarriesOn)
{
    ConnectOptions connect;
    connect.timeout = 18; // 1.1 s: a busy machine may take seconds until the link is up again
    Make({}, connect);
    SetLink(1, false);
    ASSERT_EQ(0, a->Post(IBV_WR_RDMA_WRITE, 0, 64, to_b, 0, 5));
    ExpectNone(*a);
    EXPECT_EQ(0, b->buffer[0]);
    SetLink(1, true);
    ExpectNext(*a, 5, IBV_WC_SUCCESS);
    b->Check(1, 0, 64, "after the link came back");
}

TEST_F(Contract, ACutCableAtEitherEndIsAnExhaustedRetryToTheSender)
{
    for (int device : {0, 1}) {
        ConnectOptions connect;
        connect.timeout = 12; // 17 ms
        connect.retry_cnt = 2;
        Make({}, connect);
        SetLink(device, false);
        for (uint64_t i = 0; i < 3; i++)
            ASSERT_EQ(0, a->Post(IBV_WR_RDMA_WRITE, 0, 64, to_b, 0, i));
        ExpectNext(*a, 0, IBV_WC_RETRY_EXC_ERR);
        for (uint64_t i = 1; i < 3; i++)
            ExpectNext(*a, i, IBV_WC_WR_FLUSH_ERR);
        SetLink(device, true);
    }
}

TEST_F(Contract, ACutCableIsAnEventAndSoIsItsReturn)
{
    SetLink(0, false);
    EXPECT_EQ(IBV_EVENT_PORT_ERR, NextEvent(*a));
    SetLink(0, true);
    EXPECT_EQ(IBV_EVENT_PORT_ACTIVE, NextEvent(*a));
}

TEST_F(Contract, AQueuePairInErrorDoesNotAnswer)
{
    ConnectOptions connect;
    connect.timeout = 12;
    connect.retry_cnt = 2;
    Make({}, connect);
    ASSERT_EQ(0, b->ToError());
    ASSERT_EQ(0, a->Post(IBV_WR_RDMA_WRITE, 0, 64, to_b, 0, 5));
    ExpectNext(*a, 5, IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(0, b->buffer[0]);
}

// What the return of a path needs.
TEST_F(Contract, AFailedQueuePairCarriesTrafficAgainAfterAResetOfBothEnds)
{
    ConnectOptions connect;
    connect.timeout = 12;
    connect.retry_cnt = 2;
    Make({}, connect);
    ASSERT_EQ(0, b->ToError());
    ASSERT_EQ(0, a->Post(IBV_WR_RDMA_WRITE, 0, 64, to_b, 0, 5));
    ExpectNext(*a, 5, IBV_WC_RETRY_EXC_ERR);
    a->Reset();
    b->Reset();
    ConnectEnds(*a, *b, ConnectOptions());
    for (uint64_t i = 0; i < 10; i++) {
        ASSERT_EQ(0, b->PostRecv(100 + i));
        ASSERT_EQ(0, a->Post(IBV_WR_RDMA_WRITE_WITH_IMM, i, 20000, to_b, i, i));
        ExpectNext(*a, i, IBV_WC_SUCCESS);
        ExpectNext(*b, 100 + i, IBV_WC_SUCCESS);
    }
    b->Check(1, 0, 20000, "after the reset");
}
} // namespace
} // namespace detour_test
