/* SPDX-License-Identifier: Apache-2.0 */
/* Frames in a mailbox: order, loss, torn slots, and a peer that writes anything. */
#include "transport/protocol/mailbox.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "transport/protocol/frames.h"

namespace
{
class Mailbox : public ::testing::Test
{
  protected:
    /* The peer's writes, in their order: the slot, then the bell. */
    void Write(uint64_t sequence)
    {
        WriteSlot(sequence);
        __atomic_store_n(&here.bell, sequence, __ATOMIC_RELEASE);
    }
    void WriteSlot(uint64_t sequence)
    {
        uint8_t bytes[DT_MAILBOX_FRAME_BYTES];
        dt_writer w = {bytes, sizeof bytes, 0, false};
        dt_close close = {1000 + sequence};
        dt_close_encode(&close, &w);
        size_t count = dt_mailbox_fill(&there, sequence, bytes, w.used);
        memcpy(&here.in[sequence % DT_MAILBOX_SLOTS], &there.out[sequence % DT_MAILBOX_SLOTS], count);
    }
    /* The number of the frame that is taken; 0: none. */
    uint64_t Take()
    {
        dt_mail mail;
        dt_close close;
        if (!dt_mailbox_take(&here, &taken, &mail))
            return 0;
        EXPECT_EQ(DT_FRAME_CLOSE, mail.type);
        EXPECT_EQ(DT_OK, dt_close_decode(mail.frame + DT_FRAME_HEADER_BYTES, mail.body_bytes, &close));
        EXPECT_EQ(taken, close.sequence - 1000) << "a torn slot";
        return close.sequence - 1000;
    }

    dt_mailbox here = {}, there = {};
    uint64_t taken = 0;
};

TEST_F(Mailbox, FramesComeOutOnceAndInOrder)
{
    EXPECT_FALSE(dt_mailbox_has_news(&here, taken));
    EXPECT_EQ(0u, Take());
    for (uint64_t n = 1; n <= 3; n++)
        Write(n);
    for (uint64_t n = 1; n <= 3; n++)
        EXPECT_EQ(n, Take());
    EXPECT_FALSE(dt_mailbox_has_news(&here, taken));
    EXPECT_EQ(0u, Take());
    for (uint64_t n = 4; n < 20; n++) {
        Write(n);
        EXPECT_EQ(n, Take());
    }
}

TEST_F(Mailbox, WhatWasOverwrittenIsLostAndTheRestIsNot)
{
    for (uint64_t n = 1; n <= DT_MAILBOX_SLOTS + 2; n++)
        Write(n);
    for (uint64_t n = 3; n <= DT_MAILBOX_SLOTS + 2; n++)
        EXPECT_EQ(n, Take());
    EXPECT_EQ(0u, Take());
}

TEST_F(Mailbox, ATornSlotIsSkipped)
{
    Write(1);
    Write(2);
    here.in[1].frame[1]++; /* the body */
    EXPECT_EQ(2u, Take());
    Write(3);
    here.in[3].sequence += DT_MAILBOX_SLOTS; /* the head of another frame */
    EXPECT_EQ(0u, Take());
    EXPECT_FALSE(dt_mailbox_has_news(&here, taken)) << "no second look at what is lost";
    Write(4);
    EXPECT_EQ(4u, Take());
}

TEST_F(Mailbox, ALateWriteOfAnEarlierEpochRepeatsNothing)
{
    for (uint64_t n = 1; n <= 6; n++) {
        Write(n);
        EXPECT_EQ(n, Take());
    }
    Write(2); /* with its bell */
    EXPECT_EQ(0u, Take());
    Write(7);
    EXPECT_EQ(7u, Take());
}

TEST_F(Mailbox, APeerMayWriteAnything)
{
    std::mt19937_64 random(3);
    dt_mail mail;
    for (int i = 0; i < 20000; i++) {
        for (uint8_t *at = (uint8_t *)&here; at < (uint8_t *)&here.out; at++)
            *at = (uint8_t)random();
        if (i % 2) /* up to the check value: a header of ours, of any length */
            for (dt_mailbox_slot &slot : here.in) {
                uint32_t magic = DT_FRAME_MAGIC;
                memcpy(slot.frame, &magic, sizeof magic);
                slot.sequence -= (slot.sequence - (uint64_t)(&slot - here.in)) % DT_MAILBOX_SLOTS;
            }
        taken = 0;
        EXPECT_FALSE(dt_mailbox_take(&here, &taken, &mail));
    }
}

/* The stores of a device, which no lock orders: a frame is one of those that were written, or none. */
TEST_F(Mailbox, AFrameThatIsWrittenMeanwhileIsWholeOrNone)
{
    std::atomic<bool> is_over{false};
    std::thread device([&] {
        for (uint64_t n = 1; n <= 50000; n++)
            Write(n);
        is_over = true;
    });
    uint64_t last = 0;
    for (bool is_last = false; !is_last;) {
        is_last = is_over;
        for (uint64_t sequence; (sequence = Take()) != 0; last = sequence)
            EXPECT_LT(last, sequence);
    }
    device.join();
    EXPECT_EQ(50000u, last);
}

TEST_F(Mailbox, TheLargestFrameAboutAPathFits)
{
    uint8_t bytes[DT_MAILBOX_FRAME_BYTES];
    dt_writer w = {bytes, sizeof bytes, 0, false};
    dt_path_frame frame = {};
    frame.message = DT_PATH_MSG_OPEN;
    frame.offer.is_usable = true;
    memset(frame.offer.device, 'd', DT_NAME_BYTES - 1);
    dt_path_frame_encode(&frame, DT_QPS_IN_BAND_MAX, &w);
    EXPECT_FALSE(w.is_full);
    EXPECT_GT(w.used, DT_NAME_BYTES);
    size_t longest = w.used;
    for (size_t shorter : {0, 7, 8}) { /* characters of the name, for which the options have room or not */
        w.used = 0;
        frame.offer.device[DT_NAME_BYTES - 1 - shorter] = '\0';
        frame.offer.ece = {0x15b3, 1};
        dt_path_frame_encode(&frame, DT_QPS_IN_BAND_MAX, &w);
        EXPECT_FALSE(w.is_full);
        EXPECT_EQ(shorter < 8 ? longest - shorter : longest, w.used) << shorter;
    }
    w.used = 0;
    frame.message = DT_PATH_MSG_RESUME;
    dt_path_frame_encode(&frame, DT_QPS_MAX, &w);
    EXPECT_FALSE(w.is_full);
}
} // namespace
