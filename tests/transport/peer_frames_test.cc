/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of an established connection: which end takes which, and what an invalid one does. */
#include "transport/peer_frames.h"

#include "failover/switchover/state.h"
#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"
#include "transport/message/connection.h"
#include "transport/service_state.h"
#include "transport/session/session.h"

namespace
{
class PeerFrames : public detour_test::TwoNets
{
  protected:
    void SetUp() override
    {
        Listen();
        Establish();
    }
    /* Reads at `to` until `condition`; no rounds are served meanwhile. */
    void ReadUntil(dt_connection *to, const std::function<bool()> &condition)
    {
        for (int i = 0; i < 1000000 && !condition(); i++) {
            dt_peer_frames_read(to, now_ns);
            struct timespec pause = {0, 100000};
            nanosleep(&pause, nullptr);
        }
        EXPECT_TRUE(condition());
    }
    static dt_writer *Out(dt_connection *c)
    {
        return dt_session_out(c->session);
    }
    static bool IsBroken(const dt_connection *c)
    {
        return dt_load_relaxed(&c->notices) & DT_NOTICE_PEER_BROKEN;
    }
};

TEST_F(PeerFrames, AQueryWaitsForTheSwitchoverBeforeTheNextFrameIsRead)
{
    const dt_fact first = {7, 0, 0}, second = {8, 0, 0};
    dt_fact_encode(DT_FRAME_QUERY, &first, Out(sender));
    dt_fact_encode(DT_FRAME_COMPLETE, &second, Out(sender));
    dt_session_flush(sender->session);
    ReadUntil(receiver, [&] { return receiver->switchover->is_frame_pending; });
    EXPECT_EQ((uint32_t)DT_FRAME_QUERY, receiver->switchover->frame_type);
    EXPECT_EQ(7u, receiver->switchover->fact.sequence);
    dt_peer_frames_read(receiver, now_ns);
    EXPECT_EQ(7u, receiver->switchover->fact.sequence);
    receiver->switchover->is_frame_pending = false;
    ReadUntil(receiver, [&] { return receiver->switchover->is_frame_pending; });
    EXPECT_EQ((uint32_t)DT_FRAME_COMPLETE, receiver->switchover->frame_type);
    EXPECT_EQ(8u, receiver->switchover->fact.sequence);
    receiver->switchover->is_frame_pending = false;
}

TEST_F(PeerFrames, TheFirstCloseCounts)
{
    const dt_close first = {3}, second = {5};
    dt_close_encode(&first, Out(sender));
    dt_close_encode(&second, Out(sender));
    dt_session_flush(sender->session);
    ReadUntil(receiver, [&] { return dt_load_relaxed(&receiver->notices) & DT_NOTICE_PEER_CLOSED; });
    for (int i = 0; i < 20; i++)
        dt_peer_frames_read(receiver, now_ns);
    EXPECT_EQ(3u, receiver->peer_close_sequence);
    EXPECT_FALSE(IsBroken(receiver));
}

TEST_F(PeerFrames, AGrantIsForASenderAlone)
{
    dt_grant grant = {};
    grant.addr = 4096;
    grant.bytes = 512;
    grant.path_mask = 1;
    dt_grant_encode(&grant, sender->path_count, Out(sender));
    dt_session_flush(sender->session);
    ReadUntil(receiver, [&] { return IsBroken(receiver); });
    EXPECT_EQ((uint32_t)DT_SESSION_ENDED, receiver->session->state);
    EXPECT_FALSE(IsBroken(sender));
    detour_test::ExpectWarning("the peer sent something else than was agreed on the control channel");
    StepUntil([&] { return dt_connection_check(receiver) != DT_OK; });
}

TEST_F(PeerFrames, ASetUpFrameIsInvalidHere)
{
    const dt_ready ready = {1};
    dt_ready_encode(&ready, Out(receiver));
    dt_session_flush(receiver->session);
    ReadUntil(sender, [&] { return IsBroken(sender); });
    detour_test::ExpectWarning("the peer sent something else than was agreed on the control channel");
    StepUntil([&] { return dt_connection_check(sender) != DT_OK; });
}

TEST_F(PeerFrames, DiscardDropsFramesAndAcknowledgesClose)
{
    const dt_ready invalid = {1};
    dt_ready_encode(&invalid, Out(sender));
    dt_session_send_close(sender->session, 0, now_ns);
    for (int i = 0; i < 1000000 && !receiver->session->has_peer_closed; i++) {
        dt_peer_frames_discard(receiver, now_ns);
        struct timespec pause = {0, 100000};
        nanosleep(&pause, nullptr);
    }
    EXPECT_TRUE(receiver->session->has_peer_closed);
    EXPECT_FALSE(IsBroken(receiver));
    EXPECT_FALSE(dt_load_relaxed(&receiver->notices) & DT_NOTICE_PEER_CLOSED);
    ReadUntil(sender, [&] { return sender->session->is_close_acknowledged; });
}

TEST_F(PeerFrames, TheSessionReportsAReplacedChannelOnce)
{
    receiver->session->is_restored = true;
    receiver->session->is_peer_dead = true;
    dt_peer_frames_session(receiver, now_ns);
    EXPECT_FALSE(receiver->session->is_restored);
    EXPECT_TRUE(receiver->service->is_peer_lost);
    receiver->session->is_peer_dead = false;
    dt_peer_frames_session(receiver, now_ns);
    EXPECT_FALSE(receiver->service->is_peer_lost);
}
} // namespace
