// SPDX-License-Identifier: Apache-2.0
// Completion channels between two processes.
#include <gtest/gtest.h>
#include <poll.h>

#include "tests/softrnic/soft_end.h"

using namespace detour_test;

namespace
{
bool is_readable(int fd, int wait_ms)
{
    pollfd polled = {fd, POLLIN, 0};

    return poll(&polled, 1, wait_ms) == 1;
}

// A ping-pong without polling: both sides sleep, and the helper threads do the work.
TEST(LocalChannel, SleepersOfTwoProcesses)
{
    RunRanks(2, [](const Rank &rank) {
        EndOptions options;
        options.with_channel = true;
        End end(options);
        EndAddress peer = ConnectTo(rank, 1 - rank.number(), end);

        for (int i = 0; i < 8; i++)
            end.PostRecv(0);
        rank.Barrier(1 - rank.number());
        for (uint32_t i = 0; i < 200; i++) {
            bool is_mine = i % 2 == static_cast<uint32_t>(rank.number());
            ibv_cq *cq;
            void *user;
            ibv_wc wc;
            int wanted = 1;
            if (is_mine)
                Require(end.Post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 64, peer, 0, i, IBV_SEND_SIGNALED, i) == 0,
                        "post");
            while (wanted > 0) {
                ibv_req_notify_cq(end.cq, 0);
                while (wanted > 0 && end.Poll(&wc)) {
                    Require(wc.status == IBV_WC_SUCCESS, "%s", dt_soft_wc_status_str(wc.status));
                    wanted--;
                    if (!is_mine)
                        end.PostRecv(0);
                }
                if (wanted == 0)
                    break;
                Require(is_readable(end.channel->fd, 10000), "no wake-up for message %u", i);
                Require(dt_soft_get_cq_event(end.channel, &cq, &user) == 0, "get event");
                dt_soft_ack_cq_events(cq, 1);
            }
        }
    });
}
} // namespace
