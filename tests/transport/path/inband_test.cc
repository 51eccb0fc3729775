/* SPDX-License-Identifier: Apache-2.0 */
/* Frames over the probe queue pairs of a connection on software RNICs. */
#include "transport/path/inband.h"

#include "tests/transport/two_nets.h"
#include "transport/message/connection.h"

namespace
{
class InBand : public detour_test::TwoNets
{
  protected:
    void SetUp() override
    {
        Listen();
        Establish();
        ASSERT_FALSE(HasFailure());
        dt_close close = {77}; /* of a type that no end takes for another */
        dt_close_encode(&close, &w);
    }
    /* Waits for the wire, without a round of either net. */
    bool Arrives(dt_path *path, dt_mail *mail)
    {
        for (int i = 0; i < 1000000 && !dt_inband_receive(path, mail); i++) {
            struct timespec pause = {0, 100000};
            nanosleep(&pause, nullptr);
        }
        return mail->body_bytes > 0;
    }

    uint8_t bytes[DT_MAILBOX_FRAME_BYTES + 1] = {};
    dt_writer w = {bytes, DT_MAILBOX_FRAME_BYTES, 0, false};
};

TEST_F(InBand, AFrameArrivesOverItsPathInEitherDirection)
{
    for (uint32_t p = 0; p < sender->path_count; p++) {
        for (bool is_up : {true, false}) {
            dt_path *from = is_up ? &sender->path[p] : &receiver->path[p];
            dt_path *to = is_up ? &receiver->path[p] : &sender->path[p];
            dt_mail mail = {};
            EXPECT_FALSE(dt_inband_has_news(to));
            ASSERT_EQ(DT_OK, dt_inband_send(from, bytes, w.used, false));
            ASSERT_TRUE(Arrives(to, &mail));
            EXPECT_EQ(DT_FRAME_CLOSE, mail.type);
            EXPECT_EQ(0, memcmp(bytes, mail.frame, w.used));
            EXPECT_FALSE(dt_inband_has_news(to));
        }
    }
}

/* Its control memory is registered by another thread before its queue pairs are in use. */
TEST_F(InBand, APathWithoutQueuePairsHasNoNews)
{
    dt_path *to = &receiver->path[0];
    dt_mail mail = {};
    ASSERT_EQ(DT_OK, dt_inband_send(&sender->path[0], bytes, w.used, false));
    for (int i = 0; i < 1000000 && !dt_inband_has_news(to); i++) {
        struct timespec pause = {0, 100000};
        nanosleep(&pause, nullptr);
    }
    dt_qp *probe = to->probe;
    to->probe = nullptr;
    EXPECT_FALSE(dt_inband_has_news(to));
    EXPECT_FALSE(dt_inband_receive(to, &mail));
    to->probe = probe;
    EXPECT_TRUE(dt_inband_receive(to, &mail));
}

TEST_F(InBand, WhatIsTooLongOrTooMuchIsRefusedAndLeavesRoomForTheLastFrameAndAProbe)
{
    int sent = 0;
    EXPECT_EQ(DT_FULL, dt_inband_send(&sender->path[0], bytes, sizeof bytes, true));
    while (sent < 100 && dt_inband_send(&sender->path[0], bytes, w.used, false) == DT_OK)
        sent++; /* no completion is taken */
    EXPECT_EQ((int)DT_MAILBOX_SLOTS - 1, sent);
    EXPECT_EQ(DT_OK, dt_inband_send(&sender->path[0], bytes, w.used, true));
    EXPECT_EQ(DT_FULL, dt_inband_send(&sender->path[0], bytes, w.used, true));
    EXPECT_EQ(DT_OK, dt_path_send_probe(&sender->path[0], false));
}
} // namespace
