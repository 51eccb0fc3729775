/* SPDX-License-Identifier: Apache-2.0 */
/* Frames to the peer: over which channels they go. */
#include "failover/switchover/post.h"

#include "failover/switchover/stall_watch.h"
#include "tests/failover/switchover/pair.h"
#include "transport/path/inband.h"
#include "transport/session/session.h"
#include "verbs/fault.h"

namespace
{
class Post : public detour_test::Pair
{
  protected:
    void Send(uint64_t sequence)
    {
        dt_post post;
        dt_fact fact = {sequence, 0, 0};
        dt_post_begin(&post);
        dt_fact_encode(DT_FRAME_QUERY, &fact, &post.writer);
        dt_post_frame(sender, &post, now_ns);
    }
    /* Takes what the path's probe queue pair has completed, until nothing of it is outstanding. */
    void AwaitAnswers(uint32_t path)
    {
        for (int i = 0; i < 1000000 && dt_qp_sends_outstanding(sender->path[path].probe) > 0; i++) {
            struct timespec pause = {0, 100000};
            nanosleep(&pause, nullptr);
            dt_stall_watch_poll(&sender->path[path], now_ns);
        }
        EXPECT_EQ(0u, dt_qp_sends_outstanding(sender->path[path].probe));
    }
    /* Nothing comes on it any more, and no other takes its place. */
    static void LoseControlChannel(dt_connection *c)
    {
        c->session->state = DT_SESSION_PAUSE;
        c->session->peer_address.family = DT_ADDRESS_NONE;
    }
    bool HasCome(uint32_t path)
    {
        for (int i = 0; i < 1000000 && !dt_inband_has_news(&receiver->path[path]); i++) {
            struct timespec pause = {0, 100000};
            nanosleep(&pause, nullptr);
        }
        return dt_inband_has_news(&receiver->path[path]);
    }
};

TEST_F(Post, AFrameGoesOverEveryPathThatIsUp)
{
    Send(1 << 20);
    EXPECT_TRUE(HasCome(0));
    EXPECT_TRUE(HasCome(1));
}

TEST_F(Post, APathThatIsNotUpCarriesNone)
{
    sender->path[0].state = DT_PATH_NONE;
    Send(1 << 20);
    EXPECT_TRUE(HasCome(1));
    EXPECT_EQ(0u, sender->path[0].mail_sent);
    sender->path[0].state = DT_PATH_UP;
}

/* Without a probe under way nothing is known about the progress of the path's work. */
TEST_F(Post, AFrameThatFailsIsTheReason)
{
    uint64_t fired = 0;
    dt_device_fault fault = {};
    fault.kind = DT_DEVICE_FAULT_STATUS;
    fault.status = DT_WC_RETRY_EXCEEDED;
    fault.fired = &fired;
    dt_device_set_faults(sender->path[0].nic->device, &fault, 1);
    Send(1 << 20);
    AwaitAnswers(0);
    EXPECT_TRUE(State(sender, 0)->stall.is_refused);
    EXPECT_EQ(0, strncmp(State(sender, 0)->why, "a frame in band over it, queue pair ", 36))
        << State(sender, 0)->why;
    State(sender, 0)->stall.is_refused = false;
    dt_device_set_faults(sender->path[0].nic->device, nullptr, 0);
}

/* Frames may follow each other so closely that one is always outstanding. */
TEST_F(Post, TheAgeOfAFrameBeginsWithTheAnswerToTheOneBefore)
{
    Send(1 << 20);
    uint64_t begun_ns = State(sender, 0)->stall.sent_ns;
    EXPECT_NE(0u, begun_ns);
    now_ns += DT_NS_PER_S;
    AwaitAnswers(0);
    EXPECT_EQ(now_ns, State(sender, 0)->stall.sent_ns);
}

TEST_F(Post, MessagesGoOnWhileAPathAndTheControlChannelAreAway)
{
    LoseControlChannel(sender);
    LoseControlChannel(receiver);
    for (int i = 0; i < kRequests; i++)
        PostReceive(i);
    for (int i = 0; i < kRequests; i++)
        PostSend(i);
    dt_completion bad = {};
    bad.status = DT_WC_RETRY_EXCEEDED;
    bad.qpn = dt_qp_number(sender->path[0].qp[0]);
    dt_connection_path_failed(sender, &sender->path[0], &bad);
    Finish();
    for (int i = 0; i < 20; i++)
        Move();
    /* The software RNICs have threads of their own: the moves may end before the fence. */
    Until([&] { return CountLines("path 0, soft0 to soft0, epoch 0 is settled") == 1; });
    Until([&] { return sender->path[0].state == DT_PATH_UP && receiver->path[0].state == DT_PATH_UP; });
    EXPECT_LE(1u, sender->path[0].epoch); // virtual time may pass before the software RNICs answer
    Move();
}

TEST_F(Post, CloseInBandReachesAPeerWithoutAControlChannel)
{
    dt_post_close(sender, 5, now_ns);
    Until([&] { return dt_load_relaxed(&receiver->notices) & DT_NOTICE_PEER_CLOSED; });
    EXPECT_EQ(5u, receiver->peer_close_sequence);
}
} // namespace
