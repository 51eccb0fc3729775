// SPDX-License-Identifier: Apache-2.0
// Completion channels, asynchronous events, and acting on a device from outside.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/softrnic/soft_end.h"

using namespace detour_test;

namespace
{
bool is_readable(int fd, int wait_ms)
{
    pollfd polled = {fd, POLLIN, 0};

    return poll(&polled, 1, wait_ms) == 1;
}

ibv_async_event next_event(ibv_context *context)
{
    ibv_async_event event = {};

    EXPECT_TRUE(is_readable(context->async_fd, 10000)) << "no event came";
    EXPECT_EQ(dt_soft_get_async_event(context, &event), 0);
    return event;
}

// Both ends in this process, the receiver asleep in get_cq_event: the helper thread does the work.
TEST(FrontEvent, ChannelWakesASleeper)
{
    EndOptions options;
    options.with_channel = true;
    End receiver(options);
    options.device = 1;
    options.with_channel = false;
    End sender(options);
    ConnectEnds(receiver, sender);
    std::vector<uint32_t> got;

    std::thread sleeper([&] {
        unsigned unacknowledged = 0;

        while (got.size() < 200) {
            ibv_cq *cq;
            void *user;
            ibv_wc wc;
            ASSERT_EQ(ibv_req_notify_cq(receiver.cq, 0), 0);
            while (receiver.Poll(&wc)) {
                ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
                got.push_back(ntohl(wc.imm_data));
                receiver.PostRecv(0);
            }
            if (got.size() >= 200)
                break;
            ASSERT_EQ(dt_soft_get_cq_event(receiver.channel, &cq, &user), 0);
            ASSERT_EQ(cq, receiver.cq);
            ASSERT_EQ(user, &receiver);
            unacknowledged++;
        }
        dt_soft_ack_cq_events(receiver.cq, unacknowledged);
    });
    for (int i = 0; i < 32; i++)
        receiver.PostRecv(0);
    for (uint32_t i = 0; i < 200; i++) {
        ASSERT_EQ(
            sender.Post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 100, receiver.Address(), 0, i, IBV_SEND_SIGNALED, i),
            0);
        sender.WaitOk();
    }
    sleeper.join();
    for (uint32_t i = 0; i < 200; i++)
        EXPECT_EQ(got[i], i);
}

TEST(FrontEvent, SolicitedOnly)
{
    EndOptions options;
    options.with_channel = true;
    End end(options);
    ConnectEnds(end, end);
    // Sends complete elsewhere, so that only the receives ring.
    ibv_cq *cq;
    void *user;

    for (int i = 0; i < 4; i++)
        end.PostRecv(0);
    ASSERT_EQ(ibv_req_notify_cq(end.cq, 1), 0);
    ASSERT_EQ(end.Post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 8, end.Address(), 64, 1, IBV_SEND_SIGNALED), 0);
    end.WaitOk();
    end.WaitOk();
    EXPECT_FALSE(is_readable(end.channel->fd, 0));
    ASSERT_EQ(end.Post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 8, end.Address(), 64, 1,
                       IBV_SEND_SIGNALED | IBV_SEND_SOLICITED),
              0);
    end.WaitOk();
    end.WaitOk();
    ASSERT_TRUE(is_readable(end.channel->fd, 0));
    ASSERT_EQ(dt_soft_get_cq_event(end.channel, &cq, &user), 0);
    dt_soft_ack_cq_events(cq, 1);
    // Non-blocking, as programs do it.
    fcntl(end.channel->fd, F_SETFL, O_NONBLOCK);
    EXPECT_EQ(dt_soft_get_cq_event(end.channel, &cq, &user), -1);
    EXPECT_EQ(errno, EAGAIN);
}

TEST(FrontEvent, UnreadEventsGoWithTheirQueue)
{
    ibv_context *context = OpenDevice(0);
    ibv_comp_channel *channel = dt_soft_create_comp_channel(context);
    {
        EndOptions options;
        options.context = context;
        End end(options);
        dt_soft_destroy_qp(end.qp);
        dt_soft_destroy_cq(end.cq);
        end.cq = dt_soft_create_cq(context, 16, nullptr, channel, 0);
        ibv_qp_init_attr init = {};
        init.send_cq = init.recv_cq = end.cq;
        init.qp_type = IBV_QPT_RC;
        init.cap = {8, 8, 1, 1, 0};
        end.qp = dt_soft_create_qp(end.pd, &init);
        ConnectEnds(end, end);
        ibv_req_notify_cq(end.cq, 0);
        end.Post(IBV_WR_RDMA_WRITE, 0, 8, end.Address(), 64, 1);
        end.WaitOk();
        EXPECT_TRUE(is_readable(channel->fd, 1000));
    }
    EXPECT_FALSE(is_readable(channel->fd, 0));
    EXPECT_EQ(dt_soft_destroy_comp_channel(channel), 0);
    EXPECT_EQ(dt_soft_close_device(context), 0);
}

TEST(FrontEvent, DestructionWaitsForAcknowledgement)
{
    EndOptions options;
    options.with_channel = true;
    End end(options);
    ConnectEnds(end, end);
    ibv_cq *cq;
    void *user;
    bool is_destroyed = false;

    ibv_req_notify_cq(end.cq, 0);
    end.Post(IBV_WR_RDMA_WRITE, 0, 8, end.Address(), 64, 1);
    ASSERT_EQ(dt_soft_get_cq_event(end.channel, &cq, &user), 0);
    dt_soft_destroy_qp(end.qp);
    end.qp = nullptr;
    std::thread destroyer([&] {
        EXPECT_EQ(dt_soft_destroy_cq(end.cq), 0);
        __atomic_store_n(&is_destroyed, true, __ATOMIC_SEQ_CST);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(__atomic_load_n(&is_destroyed, __ATOMIC_SEQ_CST));
    dt_soft_ack_cq_events(cq, 1);
    destroyer.join();
    end.cq = nullptr;
}

TEST(FrontEvent, LinkDownAndUp)
{
    EndOptions options;
    End a(options);
    options.device = 1;
    End b(options);
    ibv_port_attr port;
    ConnectOptions quick;
    quick.timeout = 8;
    quick.retry_cnt = 1;
    ConnectEnds(a, b, quick);

    EXPECT_EQ(dt_soft_device_control("soft7", DT_SOFT_CONTROL_DOWN, 0), ENODEV);
    EXPECT_EQ(dt_soft_device_control("soft1", static_cast<dt_soft_control>(99), 0), EINVAL);
    EXPECT_EQ(dt_soft_device_control("soft1", DT_SOFT_CONTROL_DROP_PERCENT, 101), EINVAL);
    ASSERT_EQ(dt_soft_device_control("soft1", DT_SOFT_CONTROL_DOWN, 0), 0);
    ibv_async_event event = next_event(b.context);
    EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
    EXPECT_EQ(event.element.port_num, 1);
    dt_soft_ack_async_event(&event);
    EXPECT_FALSE(is_readable(a.context->async_fd, 0)) << "the other device is well";
    ibv_query_port(b.context, 1, &port);
    EXPECT_EQ(port.state, IBV_PORT_DOWN);
    a.Post(IBV_WR_RDMA_WRITE, 0, 8, b.Address(), 64, 1);
    EXPECT_EQ(a.Wait().status, IBV_WC_RETRY_EXC_ERR);

    ASSERT_EQ(dt_soft_device_control("soft1", DT_SOFT_CONTROL_UP, 0), 0);
    event = next_event(b.context);
    EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ACTIVE);
    dt_soft_ack_async_event(&event);
    ibv_query_port(b.context, 1, &port);
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_RESET;
    ASSERT_EQ(dt_soft_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
    ASSERT_EQ(dt_soft_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
    ConnectEnds(a, b);
    a.Post(IBV_WR_RDMA_WRITE, 0, 8, b.Address(), 64, 2);
    a.WaitOk();
}

TEST(FrontEvent, DeviceFatal)
{
    {
        End end;
        ConnectEnds(end, end);
        ASSERT_EQ(dt_soft_device_control("soft0", DT_SOFT_CONTROL_FATAL, 0), 0);
        ibv_async_event event = next_event(end.context);
        EXPECT_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
        dt_soft_ack_async_event(&event);
        EXPECT_EQ(dt_soft_reg_mr(end.pd, end.buffer, 4096, 0), nullptr);
        EXPECT_EQ(errno, EIO);
        EXPECT_EQ(end.ToError(), EIO);
        ibv_wc wc;
        end.Post(IBV_WR_RDMA_WRITE, 0, 8, end.Address(), 64, 1);
        EXPECT_FALSE(end.Poll(&wc));
    }
    End again; // the last user closed it: a new device comes
    ConnectEnds(again, again);
    again.Post(IBV_WR_RDMA_WRITE, 0, 8, again.Address(), 64, 1);
    again.WaitOk();
}

/* Driver reset, hot plug: contexts of before stay dead, new ones work, and peers reach them. */
TEST(FrontEvent, ADeadDeviceThatIsPluggedInAgainIsANewOne)
{
    EndOptions other;
    other.device = 1;
    End old, peer(other);
    ConnectEnds(old, peer);
    peer.Post(IBV_WR_RDMA_WRITE, 0, 8, old.Address(), 64, 1); // the link to the old one exists
    peer.WaitOk();
    EXPECT_EQ(EEXIST, dt_soft_device_control("soft0", DT_SOFT_CONTROL_PLUG, 0));
    __be64 guid = dt_soft_get_device_guid(old.context->device);
    std::vector<std::unique_ptr<End>> ends; // of all generations
    for (int round = 0; round < 3; round++) {
        int count = 0;
        ASSERT_EQ(0, dt_soft_device_control("soft0", DT_SOFT_CONTROL_FATAL, 0));
        ibv_device **list = dt_soft_get_device_list(&count);
        EXPECT_EQ(1, count);
        EXPECT_STREQ("soft1", dt_soft_get_device_name(list[0]));
        dt_soft_free_device_list(list);
        ASSERT_EQ(0, dt_soft_device_control("soft0", DT_SOFT_CONTROL_PLUG, 0));
        ends.push_back(std::make_unique<End>());
        End &fresh = *ends.back();
        EXPECT_EQ(guid, dt_soft_get_device_guid(fresh.context->device));
        EXPECT_TRUE(dt_soft_is_dead(old.context));
        EXPECT_FALSE(dt_soft_is_dead(fresh.context));
        EXPECT_EQ(EIO, old.ToError());
        peer.Reset();
        ConnectEnds(fresh, peer);
        for (uint64_t i = 1; i <= 3; i++) {
            peer.Fill(i, 0, 100000);
            peer.Post(IBV_WR_RDMA_WRITE, 0, 100000, fresh.Address(), 0, i);
            peer.WaitOk();
            fresh.Check(i, 0, 100000, "written to the new device");
            fresh.Post(IBV_WR_RDMA_READ, 0, 8, peer.Address(), 64, i);
            fresh.WaitOk();
        }
    }
    ends.erase(ends.begin()); // a dead one: the others are as they were
    peer.Post(IBV_WR_RDMA_WRITE, 0, 8, ends.back()->Address(), 64, 1);
    peer.WaitOk();
}

TEST(FrontEvent, DroppedPacketsAreSentAgain)
{
    EndOptions options;
    End a(options);
    options.device = 1;
    End b(options);
    ConnectOptions quick;
    quick.timeout = 8;
    ConnectEnds(a, b, quick);

    a.Fill(4, 0, 50000);
    ASSERT_EQ(dt_soft_device_control("soft0", DT_SOFT_CONTROL_DROP_NEXT, 2), 0);
    ASSERT_EQ(dt_soft_device_control("soft1", DT_SOFT_CONTROL_DROP_NEXT, 1), 0); // an acknowledgement
    a.Post(IBV_WR_RDMA_WRITE, 0, 50000, b.Address(), 0, 1);
    a.WaitOk();
    b.Check(4, 0, 50000, "after losses");
    ASSERT_EQ(dt_soft_device_control("soft0", DT_SOFT_CONTROL_DROP_PERCENT, 100), 0);
    a.Post(IBV_WR_RDMA_WRITE, 0, 8, b.Address(), 0, 2);
    EXPECT_EQ(a.Wait().status, IBV_WC_RETRY_EXC_ERR);
    ASSERT_EQ(dt_soft_device_control("soft0", DT_SOFT_CONTROL_DROP_PERCENT, 0), 0);
}

TEST(FrontEvent, OverrunQueueBreaks)
{
    EndOptions options;
    options.cqe = 4;
    End end(options);
    ConnectEnds(end, end);
    for (uint64_t i = 0; i < 8; i++)
        end.Post(IBV_WR_RDMA_WRITE, 0, 8, end.Address(), 64, i);
    bool saw_cq = false, saw_qp = false;
    while (!saw_cq || !saw_qp) {
        ibv_async_event event = next_event(end.context);
        ASSERT_FALSE(HasFailure());
        saw_cq = saw_cq || (event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == end.cq);
        saw_qp = saw_qp || (event.event_type == IBV_EVENT_QP_FATAL && event.element.qp == end.qp);
        dt_soft_ack_async_event(&event);
    }
}
} // namespace
