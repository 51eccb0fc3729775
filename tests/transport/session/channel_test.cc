/* SPDX-License-Identifier: Apache-2.0 */
/* Frames over a stream that the test scripts: it takes and gives as many bytes at a time as the test allows.
 */
#include "transport/session/channel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/util.h"

namespace
{
struct Script {
    dt_stream stream;
    std::string sent, coming;
    size_t room = SIZE_MAX;  // bytes that the stream takes before it answers DT_AGAIN
    size_t piece = SIZE_MAX; // bytes that one call gives at most
    dt_status end = DT_AGAIN;
    bool is_closed = false;

    Script()
    {
        static const dt_stream_ops ops = {nullptr, Send, Receive, nullptr, Fd, Close, nullptr};
        stream.ops = &ops;
    }
    static Script *Of(dt_stream *stream)
    {
        return dt_container_of(stream, Script, stream);
    }
    static dt_status Send(dt_stream *stream, const void *from, size_t bytes, size_t *sent)
    {
        Script *s = Of(stream);
        *sent = std::min({bytes, s->room, s->piece});
        if (*sent == 0)
            return s->end;
        s->sent.append(static_cast<const char *>(from), *sent);
        s->room -= *sent;
        return DT_OK;
    }
    static dt_status Receive(dt_stream *stream, void *to, size_t bytes, size_t *received)
    {
        Script *s = Of(stream);
        *received = std::min({bytes, s->coming.size(), s->piece});
        if (*received == 0)
            return s->end;
        memcpy(to, s->coming.data(), *received);
        s->coming.erase(0, *received);
        return DT_OK;
    }
    static int Fd(dt_stream *)
    {
        return -1;
    }
    static void Close(dt_stream *stream)
    {
        Of(stream)->is_closed = true;
    }
};

std::string Frame(uint16_t type, const std::string &body)
{
    std::string text = "DTRC";
    for (uint16_t word : {type, static_cast<uint16_t>(body.size())}) {
        text += static_cast<char>(word & 0xff);
        text += static_cast<char>(word >> 8);
    }
    return text + body;
}

class Channel : public ::testing::Test
{
  protected:
    Channel()
    {
        dt_channel_open(&channel, &script.stream);
    }

    void Append(const std::string &bytes)
    {
        ASSERT_LE(channel.out.used + bytes.size(), sizeof channel.out_bytes);
        memcpy(channel.out_bytes + channel.out.used, bytes.data(), bytes.size());
        channel.out.used += bytes.size();
    }

    Script script;
    dt_channel channel = {};
    dt_frame frame = {};
};

TEST_F(Channel, FramesComeWholeHoweverTheyAreCut)
{
    for (size_t piece : {1, 3, 8, 1000}) {
        script.piece = piece;
        script.coming = Frame(DT_FRAME_HELLO, "0123456789") + Frame(DT_FRAME_CLOSE, "");
        ASSERT_EQ(DT_OK, dt_channel_receive(&channel, &frame)) << piece;
        EXPECT_EQ(DT_FRAME_HELLO, frame.type);
        EXPECT_EQ("0123456789", std::string(reinterpret_cast<const char *>(frame.body), frame.bytes));
        ASSERT_EQ(DT_OK, dt_channel_receive(&channel, &frame)) << piece;
        EXPECT_EQ(DT_FRAME_CLOSE, frame.type);
        EXPECT_EQ(0u, frame.bytes);
        EXPECT_EQ(DT_AGAIN, dt_channel_receive(&channel, &frame));
    }
}

TEST_F(Channel, HalfAFrameWaitsForItsRest)
{
    std::string whole = Frame(DT_FRAME_HELLO, "abc");
    for (size_t i = 0; i + 1 < whole.size(); i++) {
        script.coming = whole[i];
        ASSERT_EQ(DT_AGAIN, dt_channel_receive(&channel, &frame)) << i;
    }
    script.coming = whole.back();
    ASSERT_EQ(DT_OK, dt_channel_receive(&channel, &frame));
    EXPECT_EQ(3u, frame.bytes);
}

TEST_F(Channel, GarbageAndEndsAreReportedAsTheyAre)
{
    script.coming = "GET / HTTP/1.1\r\n";
    EXPECT_EQ(DT_PROTOCOL, dt_channel_receive(&channel, &frame));
    for (dt_status end : {DT_CLOSED, DT_PEER_ERROR, DT_TIMED_OUT, DT_SYSTEM}) {
        Script other;
        dt_channel_close(&channel);
        dt_channel_open(&channel, &other.stream);
        other.coming = Frame(DT_FRAME_HELLO, "abc").substr(0, 9);
        other.end = end;
        EXPECT_EQ(end, dt_channel_receive(&channel, &frame));
        other.room = 0;
        Append("x");
        EXPECT_EQ(end, dt_channel_flush(&channel));
        dt_channel_close(&channel);
    }
}

TEST_F(Channel, BytesThatDoNotFitAreSentLaterAndOnce)
{
    std::string text;
    for (char c = 'a'; c <= 'z'; c++)
        text += c;
    Append(text);
    script.room = 10;
    script.piece = 3;
    EXPECT_EQ(DT_AGAIN, dt_channel_flush(&channel));
    Append("later");
    script.room = SIZE_MAX;
    EXPECT_EQ(DT_OK, dt_channel_flush(&channel));
    EXPECT_EQ(text + "later", script.sent);
    EXPECT_EQ(0u, channel.out.used) << "room for the next frames";
    EXPECT_EQ(DT_OK, dt_channel_flush(&channel));
    EXPECT_EQ(text + "later", script.sent);
}

TEST_F(Channel, ClosingSendsBytesThatFitAndIsHarmlessTwice)
{
    Append("bye");
    dt_channel_close(&channel);
    EXPECT_TRUE(script.is_closed);
    EXPECT_EQ("bye", script.sent);
    dt_channel_close(&channel);
    EXPECT_EQ(DT_CLOSED, dt_channel_receive(&channel, &frame));
    EXPECT_EQ(DT_CLOSED, dt_channel_flush(&channel));
    EXPECT_TRUE(dt_channel_has_fd(&channel)) << "nothing to wait for";
    dt_channel_free(nullptr);
}

TEST_F(Channel, AMovedChannelGoesOnWhereItWas)
{
    dt_channel to = {}; // closed
    script.coming = Frame(DT_FRAME_HELLO, "abc");
    script.piece = 5;
    script.room = 5;
    Append("0123456789");
    EXPECT_EQ(DT_AGAIN, dt_channel_flush(&channel));
    script.end = DT_AGAIN;
    std::string rest = script.coming.substr(5);
    script.coming.resize(5);
    EXPECT_EQ(DT_AGAIN, dt_channel_receive(&channel, &frame));
    dt_channel_move(&to, &channel);
    memset(&channel.out_bytes, 0xee, sizeof channel.out_bytes);
    dt_channel_close(&channel);
    EXPECT_FALSE(script.is_closed);
    EXPECT_FALSE(dt_channel_has_fd(&to));
    script.coming = rest;
    script.room = SIZE_MAX;
    EXPECT_EQ(DT_OK, dt_channel_receive(&to, &frame));
    EXPECT_EQ("abc", std::string(reinterpret_cast<const char *>(frame.body), frame.bytes));
    EXPECT_EQ(DT_OK, dt_channel_flush(&to));
    EXPECT_EQ("0123456789", script.sent);
    dt_channel_close(&to);
    EXPECT_TRUE(script.is_closed);
}
} // namespace
