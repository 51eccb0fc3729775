/* SPDX-License-Identifier: Apache-2.0 */
/* The listener by itself: pending peers, HELLO and REJOIN, over a network of the test. */
#include "transport/session/listener.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <string>

#include "transport/session/stream.h"

namespace
{
/* A stream whose peer has sent `in` and then nothing more. */
struct FakeStream {
    dt_stream stream;
    std::string in, out;
    bool *is_closed;
};

FakeStream *Fake(dt_stream *stream)
{
    return reinterpret_cast<FakeStream *>(stream);
}

const dt_stream_ops kStreamOps = {
    /* state */ [](dt_stream *) { return DT_OK; },
    /* send */
    [](dt_stream *stream, const void *from, size_t bytes, size_t *sent) {
        Fake(stream)->out.append(static_cast<const char *>(from), bytes);
        *sent = bytes;
        return DT_OK;
    },
    /* receive */
    [](dt_stream *stream, void *to, size_t bytes, size_t *received) {
        std::string &in = Fake(stream)->in;
        if (in.empty())
            return DT_AGAIN;
        *received = std::min(bytes, in.size());
        memcpy(to, in.data(), *received);
        in.erase(0, *received);
        return DT_OK;
    },
    /* peer */ [](dt_stream *, dt_address *) {},
    /* fd */ [](dt_stream *) { return -1; },
    /* close */
    [](dt_stream *stream) {
        *Fake(stream)->is_closed = true;
        delete Fake(stream);
    },
    /* set_poller */ nullptr,
};

struct FakeNetwork {
    dt_network network;
    dt_stream_port port;
    std::deque<FakeStream *> incoming;
};
FakeNetwork *current;

const dt_network_ops kNetworkOps = {
    /* listen */
    [](dt_network *, dt_address *address, dt_stream_port **port) {
        address->port = 4711;
        *port = &current->port;
        return DT_OK;
    },
    /* accept */
    [](dt_stream_port *, dt_stream **stream) {
        if (current->incoming.empty())
            return DT_AGAIN;
        *stream = &current->incoming.front()->stream;
        current->incoming.pop_front();
        return DT_OK;
    },
    /* port_fd */ [](dt_stream_port *) { return -1; },
    /* close_port */ [](dt_stream_port *) {},
    /* dial */ [](dt_network *, const dt_address *, dt_stream **) { return DT_SYSTEM; },
    /* adopt */ nullptr,
};

const dt_poller_ops kPollerOps = {nullptr, nullptr,
                                  [](dt_poller *poller) { ++*reinterpret_cast<int *>(poller + 1); }, nullptr};

struct CountingPoller {
    dt_poller poller = {&kPollerOps};
    int wakes = 0;
};

class Listener : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        network.network.ops = &kNetworkOps;
        current = &network;
        ASSERT_EQ(DT_OK, dt_listener_create(&network.network, &address, &listener));
        EXPECT_EQ(4711, address.port);
    }
    void TearDown() override
    {
        dt_listener_destroy(listener);
    }
    /* A stream comes in, with these frames on it. */
    bool *Arrive(const std::string &frames)
    {
        bool *is_closed = &closed.emplace_back(false);
        network.incoming.push_back(new FakeStream{{&kStreamOps}, frames, "", is_closed});
        return is_closed;
    }
    dt_listener_stats Progress(uint64_t now_ns)
    {
        dt_listener_stats stats;
        dt_listener_progress(listener, now_ns);
        dt_listener_query_stats(listener, &stats);
        return stats;
    }
    static std::string Hello(uint64_t listen_id, uint64_t nonce)
    {
        uint8_t bytes[DT_FRAME_BYTES_MAX];
        dt_writer w = {bytes, sizeof bytes, 0, false};
        dt_hello hello = {};
        hello.version_min = hello.version_max = DT_PROTOCOL_VERSION_MAX;
        hello.listen_id = listen_id;
        hello.nonce = nonce;
        hello.wanted = {1, 1, 64, 65536};
        strcpy(hello.host, "host");
        strcpy(hello.device, "device");
        hello.devices.count = 1;
        dt_hello_encode(&hello, &w);
        return {reinterpret_cast<char *>(bytes), w.used};
    }
    static std::string Rejoin(const dt_rejoin &rejoin)
    {
        uint8_t bytes[DT_FRAME_BYTES_MAX];
        dt_writer w = {bytes, sizeof bytes, 0, false};
        dt_rejoin_encode(&rejoin, &w);
        return {reinterpret_cast<char *>(bytes), w.used};
    }

    FakeNetwork network = {};
    dt_address address = {};
    dt_listener *listener = nullptr;
    std::deque<bool> closed;
};

TEST_F(Listener, HandsAHelloWithTheRightNonceToItsListenOnce)
{
    dt_listen listen = {};
    listen.id = 5;
    listen.nonce = 6;
    dt_listener_add(listener, &listen);
    Arrive(Hello(5, 6));
    EXPECT_EQ(0u, Progress(1).pending_peers);
    ASSERT_NE(nullptr, listen.incoming);
    EXPECT_EQ(5u, listen.hello.listen_id);
    bool *second = Arrive(Hello(5, 6));
    EXPECT_EQ(1u, Progress(2).rejected) << "the listen has its peer";
    EXPECT_TRUE(*second);
    dt_channel_free(listen.incoming);
    dt_listener_remove(listener, &listen);
}

TEST_F(Listener, RejectsAWrongNonce)
{
    dt_listen listen = {};
    listen.id = 5;
    listen.nonce = 6;
    dt_listener_add(listener, &listen);
    bool *is_closed = Arrive(Hello(5, 7));
    EXPECT_EQ(1u, Progress(1).rejected);
    EXPECT_TRUE(*is_closed);
    EXPECT_EQ(nullptr, listen.incoming);
    dt_listener_remove(listener, &listen);
}

TEST_F(Listener, DropsTheOldestPendingPeerForANewOne)
{
    bool *oldest = Arrive("");
    Progress(1);
    for (int i = 1; i < DT_PENDING_PEERS_MAX; i++)
        Arrive("");
    EXPECT_EQ((uint32_t)DT_PENDING_PEERS_MAX, Progress(2).pending_peers);
    EXPECT_FALSE(*oldest);
    bool *newest = Arrive("");
    dt_listener_stats stats = Progress(3);
    EXPECT_EQ((uint32_t)DT_PENDING_PEERS_MAX, stats.pending_peers);
    EXPECT_EQ(1u, stats.dropped_crowd);
    EXPECT_TRUE(*oldest);
    EXPECT_FALSE(*newest);
}

TEST_F(Listener, DropsSilenceAfterItsTimeAndGarbageAtOnce)
{
    bool *silent = Arrive("");
    bool *garbage = Arrive("GET / HTTP/1.1\r\n\r\n");
    dt_listener_stats stats = Progress(1);
    EXPECT_EQ(1u, stats.dropped_garbage);
    EXPECT_TRUE(*garbage);
    Progress(DT_PENDING_PEER_NS);
    EXPECT_FALSE(*silent);
    stats = Progress(1 + DT_PENDING_PEER_NS);
    EXPECT_TRUE(*silent);
    EXPECT_EQ(1u, stats.dropped_silent);
    EXPECT_EQ(0u, stats.pending_peers);
}

TEST_F(Listener, GivesARejoinToTheReceiversEndpointIfItsNumberIsNewer)
{
    CountingPoller poller;
    dt_endpoint endpoint = {};
    dt_list_init(&endpoint.node);
    endpoint.poller = &poller.poller;
    endpoint.connection_id = 8;
    endpoint.nonce = 9;
    endpoint.round = 1;
    dt_listener_add_endpoint(listener, &endpoint);
    Arrive(Rejoin({8, 9, 1, true}));
    EXPECT_EQ(1u, Progress(1).rejected) << "channel 1 is in use";
    Arrive(Rejoin({8, 9, 2, true}));
    EXPECT_EQ(1u, Progress(2).rejoined);
    EXPECT_EQ(2u, endpoint.round);
    EXPECT_NE(nullptr, endpoint.incoming);
    EXPECT_EQ(1, poller.wakes);
    dt_listener_remove_endpoint(listener, &endpoint);
    dt_channel_free(endpoint.incoming);
}

TEST_F(Listener, AnswersALivenessProbeAndMarksTheSendersChannelLost)
{
    CountingPoller poller;
    dt_endpoint endpoint = {};
    dt_list_init(&endpoint.node);
    endpoint.poller = &poller.poller;
    endpoint.connection_id = 8;
    endpoint.nonce = 9;
    endpoint.is_sender = true;
    endpoint.round = 3;
    dt_listener_add_endpoint(listener, &endpoint);
    Arrive(Rejoin({8, 9, 2, false}));
    EXPECT_EQ(1u, Progress(1).liveness_dials);
    EXPECT_FALSE(endpoint.is_lost) << "the probe is about an older channel";
    bool *is_closed = Arrive(Rejoin({8, 9, 3, false}));
    EXPECT_EQ(2u, Progress(2).liveness_dials);
    EXPECT_TRUE(endpoint.is_lost);
    EXPECT_EQ(1, poller.wakes);
    EXPECT_TRUE(*is_closed);
    dt_listener_remove_endpoint(listener, &endpoint);
}
} // namespace
