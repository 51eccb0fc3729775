/* SPDX-License-Identifier: Apache-2.0 */
/* Frames to the peer: over which channels they go. */
#include "failover/switchover/post.h"

#include "tests/failover/switchover/pair.h"
#include "transport/path/inband.h"
#include "transport/session/session.h"

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
        dt_post_frame(sender, &post);
    }
    bool HasCome(uint32_t path)
    {
        for (int i = 0; i < 1000 && !dt_inband_has_news(&receiver->path[path]); i++) {
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

TEST_F(Post, CloseInBandReachesAPeerWithoutAControlChannel)
{
    dt_post_close(sender, 5);
    Until([&] { return dt_load_relaxed(&receiver->notices) & DT_NOTICE_PEER_CLOSED; });
    EXPECT_EQ(5u, receiver->peer_close_sequence);
}
} // namespace
