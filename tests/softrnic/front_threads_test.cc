// SPDX-License-Identifier: Apache-2.0
// Threads on one device: each posts and polls on a QP of its own, one CQ is shared by two pollers, and
// meanwhile others register memory, make and destroy queue pairs, and flip the link. Meant for the thread
// sanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/softrnic/soft_end.h"

using namespace detour_test;

namespace
{
const int kMessages = 3000;

void stream(End &sender, End &receiver, uint64_t seed)
{
    int sent = 0, done = 0, got = 0;
    double limit = Seconds() + 60;

    for (int i = 0; i < 32; i++)
        receiver.PostRecv(0);
    while (done < kMessages || got < kMessages) {
        ibv_wc wc;
        ASSERT_LT(Seconds(), limit) << done << " sent, " << got << " received";
        if (sent < kMessages && sent - done < 16 && sent - got < 16) {
            uint32_t bytes = static_cast<uint32_t>((static_cast<uint64_t>(sent) * 7919 + seed) % 30000);
            ASSERT_EQ(sender.Post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, bytes, receiver.Address(), 0, 1), 0);
            sent++;
        }
        if (sender.Poll(&wc)) {
            ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
            done++;
        }
        if (receiver.Poll(&wc)) {
            ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
            got++;
            receiver.PostRecv(0);
        }
    }
}

TEST(FrontThreads, TwoStreamsOnOneDevice)
{
    ibv_context *context = OpenDevice(0);
    {
        EndOptions options;
        options.context = context;
        End a(options), b(options), c(options), d(options);
        ConnectEnds(a, b);
        ConnectEnds(c, d);
        std::thread first([&] { stream(a, b, 1); });
        std::thread second([&] { stream(c, d, 2); });
        first.join();
        second.join();
    }
    EXPECT_EQ(dt_soft_close_device(context), 0);
}

// Posting on one thread, polling on another, on both ends, over two devices.
TEST(FrontThreads, PosterAndPollerApart)
{
    EndOptions options;
    options.sq_sig_all = true;
    End a(options);
    options.device = 1;
    End b(options);
    ConnectEnds(a, b);
    std::atomic<int> got{0}, done{0};
    double limit = Seconds() + 60;
    auto poll_for = [&](End &end, std::atomic<int> &count) {
        ibv_wc wc;
        while (count < kMessages && Seconds() < limit)
            if (end.Poll(&wc)) {
                ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
                count++;
            }
    };
    for (int i = 0; i < 64; i++)
        b.PostRecv(0);
    std::thread sender_polls([&] { poll_for(a, done); });
    std::thread receiver_polls([&] { poll_for(b, got); });
    int posted_recvs = 64;
    for (int i = 0; i < kMessages || posted_recvs < kMessages;) {
        int error = i < kMessages ? a.Post(IBV_WR_SEND, 0, 0, b.Address(), 0, 1, 0) : EAGAIN;
        ASSERT_TRUE(error == 0 || error == ENOMEM || i == kMessages) << error;
        i += !error;
        while (posted_recvs - got < 32 && posted_recvs < kMessages)
            posted_recvs += b.PostRecv(0) == 0;
        if (error)
            std::this_thread::yield();
    }
    sender_polls.join();
    receiver_polls.join();
    EXPECT_EQ(got, kMessages);
    EXPECT_EQ(done, kMessages);
}

// Traffic on one QP while everything else about the device changes.
TEST(FrontThreads, ControlBesideData)
{
    ibv_context *context = OpenDevice(0);
    std::atomic<bool> stop{false};
    {
        EndOptions options;
        options.context = context;
        End a(options), b(options);
        ConnectEnds(a, b);
        std::thread churn([&] {
            for (uint64_t i = 0; !stop; i++) {
                End other(options), another(options);
                ibv_wc wc;
                ConnectEnds(other, another);
                other.Post(IBV_WR_RDMA_WRITE, 0, 20000, another.Address(), 0, i);
                other.Poll(&wc);
                if (i % 2)
                    another.ToError();
            }
        });
        std::thread opener([&] {
            while (!stop) {
                ibv_context *more = OpenDevice(1);
                ibv_port_attr port;
                ibv_query_port(more, 1, &port);
                dt_soft_device_control("soft1", DT_SOFT_CONTROL_DOWN, 0);
                dt_soft_device_control("soft1", DT_SOFT_CONTROL_UP, 0);
                ASSERT_EQ(dt_soft_close_device(more), 0);
            }
        });
        stream(a, b, 3);
        stop = true;
        churn.join();
        opener.join();
    }
    EXPECT_EQ(dt_soft_close_device(context), 0);
}

// One thread asks for the state while another one sets it: the state that is shown is never an older one.
TEST(FrontThreads, QueriesBesideAModification)
{
    for (int round = 0; round < 20; round++) {
        End end{EndOptions()}, peer{EndOptions()};
        std::atomic<bool> begun{false};
        ConnectEnds(end, peer);
        std::thread asking([&] {
            ibv_qp_attr attr;
            ibv_qp_init_attr init;
            do {
                ASSERT_EQ(dt_soft_query_qp(end.qp, &attr, IBV_QP_STATE, &init), 0);
                begun = true;
            } while (attr.qp_state != IBV_QPS_ERR);
        });
        while (!begun)
            std::this_thread::yield();
        end.ToError();
        asking.join();
        EXPECT_EQ(end.qp->state, IBV_QPS_ERR);
    }
}

// Commands by name know nothing of the device's life: it is there, or ENODEV.
TEST(FrontThreads, ControlWhileTheDeviceComesAndGoes)
{
    std::atomic<bool> stop{false};
    std::atomic<int> done{0};
    std::thread control([&] {
        while (!stop) {
            int error = dt_soft_device_control("soft0", DT_SOFT_CONTROL_DROP_NEXT, 1);
            EXPECT_TRUE(error == 0 || error == ENODEV) << strerror(error);
            done += error == 0;
        }
    });
    // Address and thread sanitizer see it within some hundred rounds when the device goes under its hands.
    for (int i = 0; i < 1000; i++)
        dt_soft_close_device(OpenDevice(0));
    for (double limit = Seconds() + 20; !done && Seconds() < limit;)
        dt_soft_close_device(OpenDevice(0));
    stop = true;
    control.join();
    EXPECT_GT(done, 0);
}
} // namespace
