/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that owns the carriers, over real TCP on loopback, with threads that send and receive. */
#include <atomic>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/harness/harness.h"
#include "transport/session/listener.h"
#include "transport/session/pair.h"
#include "transport/session/pair_state.h"
#include "transport/session/poller.h"
#include "transport/session/stream_tcp.h"

namespace
{
struct Served {
    dt_pairs *pairs;
    dt_address address = {};
    dt_listener *listener = nullptr;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    dt_listen listen = {};

    explicit Served(uint64_t identity) : pairs(dt_pairs_create(dt_network_tcp(), identity))
    {
        const uint8_t loopback[] = {127, 0, 0, 1};
        address.family = DT_ADDRESS_IPV4;
        memcpy(address.ip, loopback, sizeof loopback);
        EXPECT_EQ(DT_OK, dt_listener_create(dt_pairs_network(pairs), &address, &listener));
        dt_pairs_listener served = {dt_listener_fd(listener), Serve, this};
        EXPECT_EQ(DT_OK, dt_pairs_start(pairs, &served));
    }
    Served(const Served &) = delete;
    ~Served()
    {
        dt_pairs_stop(pairs);
        dt_pairs_stop(pairs); // harmless
        dt_listener_destroy(listener);
        dt_pairs_destroy(pairs);
    }
    static bool Serve(void *arg, uint64_t now_ns)
    {
        auto *self = static_cast<Served *>(arg);
        pthread_mutex_lock(&self->mutex);
        bool has_more = dt_listener_progress(self->listener, now_ns);
        pthread_mutex_unlock(&self->mutex);
        return has_more;
    }
    dt_pairs_stats Stats()
    {
        dt_pairs_stats stats;
        dt_pairs_query_stats(pairs, &stats);
        return stats;
    }
};

/* What wakes a thread that sleeps until its stream has news. */
struct Sleeper {
    dt_poller poller;
    std::atomic<int> news{0};

    Sleeper()
    {
        static const dt_poller_ops ops = {nullptr, nullptr, Wake, nullptr};
        poller.ops = &ops;
    }
    static void Wake(dt_poller *poller)
    {
        reinterpret_cast<Sleeper *>(poller)->news++;
    }
};

class PairThread : public ::testing::Test
{
  protected:
    static void Wait(dt_stream *stream)
    {
        while (stream->ops->state(stream) == DT_AGAIN)
            std::this_thread::yield();
        ASSERT_EQ(DT_OK, stream->ops->state(stream));
    }
    dt_stream *Dial()
    {
        dt_stream *stream = nullptr;
        dt_network *network = dt_pairs_network(here.pairs);
        EXPECT_EQ(DT_OK, network->ops->dial(network, &there.address, &stream));
        return stream;
    }
    /* A stream of `here`, and the channel that the listener of `there` has made of it. */
    void Open(dt_channel *near_end, dt_channel **far_end, uint64_t id)
    {
        dt_listen listen = {};
        dt_hello hello = {};
        listen.id = hello.listen_id = id;
        listen.nonce = hello.nonce = id + 1;
        hello.version_min = hello.version_max = DT_PROTOCOL_VERSION_MAX;
        hello.wanted = {1, 1, 64, 65536};
        hello.devices.count = 1;
        pthread_mutex_lock(&there.mutex);
        dt_listener_add(there.listener, &listen);
        pthread_mutex_unlock(&there.mutex);
        dt_channel_open(near_end, Dial());
        Wait(near_end->stream);
        dt_hello_encode(&hello, &near_end->out);
        ASSERT_EQ(DT_OK, dt_channel_flush(near_end));
        for (*far_end = nullptr; !*far_end; std::this_thread::yield()) {
            pthread_mutex_lock(&there.mutex);
            *far_end = listen.incoming;
            pthread_mutex_unlock(&there.mutex);
        }
        pthread_mutex_lock(&there.mutex);
        dt_listener_remove(there.listener, &listen);
        pthread_mutex_unlock(&there.mutex);
    }

    Served here{1000}, there{2000};
};

/* Each thread has its own stream and sends numbers, which come back. */
TEST_F(PairThread, ManyThreadsShareOneCarrier)
{
    const int kThreads = 8, kNumbers = 500;
    std::vector<dt_channel> near_end(kThreads);
    std::vector<dt_channel *> far_end(kThreads);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; i++) {
        memset(&near_end[i], 0, sizeof near_end[i]);
        Open(&near_end[i], &far_end[i], 10 * i + 10);
    }
    auto send_all = [&](dt_channel *channel) {
        for (uint64_t n = 0; n < kNumbers;) {
            dt_fact fact = {n, 0, 0};
            size_t used = channel->out.used;
            dt_fact_encode(DT_FRAME_QUERY, &fact, &channel->out);
            n += channel->out.used > used ? 1 : 0;
            channel->out.is_full = false;
            dt_channel_flush(channel);
        }
        while (dt_channel_flush(channel) == DT_AGAIN)
            std::this_thread::yield();
    };
    for (int i = 0; i < kThreads; i++) {
        threads.emplace_back([&, i] { send_all(&near_end[i]); });
        threads.emplace_back([&, i] {
            for (uint64_t n = 0; n < kNumbers;) {
                dt_frame frame;
                dt_fact fact;
                if (dt_channel_receive(far_end[i], &frame) != DT_OK) {
                    std::this_thread::yield();
                    continue;
                }
                ASSERT_EQ(DT_OK, dt_fact_decode(frame.body, frame.bytes, 1, &fact));
                ASSERT_EQ(n, fact.sequence);
                n++;
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(1u, here.Stats().carriers);
    EXPECT_EQ(1u, here.Stats().dials);
    EXPECT_GE(here.Stats().records, (uint64_t)kThreads);
    EXPECT_LE(here.Stats().writes, here.Stats().records);
    for (int i = 0; i < kThreads; i++) {
        dt_channel_close(&near_end[i]);
        dt_channel_free(far_end[i]);
    }
}

/* The listener takes a number of streams at a time; the thread must not sleep while there are more. */
TEST_F(PairThread, StreamsThatComeAtOnceAreAllAccepted)
{
    const uint64_t kStreams = 4 * DT_STREAMS_PER_ROUND;
    std::vector<dt_listen> listens(kStreams);
    std::vector<dt_stream *> streams;
    pthread_mutex_lock(&there.mutex);
    for (uint64_t i = 0; i < kStreams; i++) {
        memset(&listens[i], 0, sizeof listens[i]);
        listens[i].id = i + 1;
        listens[i].nonce = i + 2;
        dt_listener_add(there.listener, &listens[i]);
    }
    pthread_mutex_unlock(&there.mutex);
    streams.push_back(Dial());
    Wait(streams[0]);
    dt_pairs_stop(here.pairs);
    here.pairs->is_progressing = true; // so that all go out at once
    for (uint64_t i = 0; i < kStreams; i++) {
        uint8_t bytes[DT_FRAME_BYTES_MAX];
        dt_writer w = {bytes, sizeof bytes, 0, false};
        dt_hello hello = {};
        size_t sent = 0;
        hello.listen_id = listens[i].id;
        hello.nonce = listens[i].nonce;
        hello.version_min = hello.version_max = DT_PROTOCOL_VERSION_MAX;
        hello.wanted = {1, 1, 64, 65536};
        hello.devices.count = 1;
        dt_hello_encode(&hello, &w);
        if (i > 0)
            streams.push_back(Dial());
        ASSERT_EQ(DT_OK, streams[i]->ops->send(streams[i], bytes, w.used, &sent));
    }
    here.pairs->is_progressing = false;
    uint64_t accepted = 0, until_ns = dt_clock_now_ns() + 30 * DT_NS_PER_S;
    while (accepted < kStreams && dt_clock_now_ns() < until_ns) {
        dt_pairs_progress(here.pairs);
        usleep(1000);
        pthread_mutex_lock(&there.mutex);
        accepted = 0;
        for (const dt_listen &listen : listens)
            accepted += listen.incoming != nullptr;
        pthread_mutex_unlock(&there.mutex);
    }
    EXPECT_EQ(kStreams, accepted);
    pthread_mutex_lock(&there.mutex);
    for (dt_listen &listen : listens) {
        dt_listener_remove(there.listener, &listen);
        dt_channel_free(listen.incoming);
    }
    pthread_mutex_unlock(&there.mutex);
    for (dt_stream *stream : streams)
        stream->ops->close(stream);
}

TEST_F(PairThread, WakesWhoWaitsForACarrierAndForItsLoss)
{
    Sleeper sleeper;
    dt_stream *stream = Dial();
    stream->ops->set_poller(stream, &sleeper.poller);
    Wait(stream);
    int news = sleeper.news;
    ASSERT_TRUE(dt_pairs_use_carrier(
        stream, [](int fd, void *) { EXPECT_EQ(0, shutdown(fd, SHUT_RDWR)); }, nullptr));
    while (sleeper.news == news)
        std::this_thread::yield();
    char byte;
    size_t received;
    EXPECT_NE(DT_AGAIN, stream->ops->receive(stream, &byte, 1, &received));
    stream->ops->close(stream);
    stream = Dial(); // another carrier
    Wait(stream);
    stream->ops->close(stream);
}

TEST_F(PairThread, DialsThatCrossEndInOneCarrier)
{
    dt_network *network = dt_pairs_network(there.pairs);
    dt_stream *a = Dial(), *b = nullptr;
    ASSERT_EQ(DT_OK, network->ops->dial(network, &here.address, &b));
    Wait(a);
    Wait(b);
    EXPECT_EQ(1u, here.Stats().carriers);
    EXPECT_EQ(1u, there.Stats().carriers);
    EXPECT_EQ(0u, here.Stats().lost + there.Stats().lost);
    a->ops->close(a);
    b->ops->close(b);
}

TEST_F(PairThread, AProcessThatHasEndedIsRefused)
{
    auto gone = std::make_unique<Served>(3000);
    dt_network *network = dt_pairs_network(here.pairs);
    dt_address address = gone->address;
    dt_stream *stream = nullptr;
    gone.reset();
    ASSERT_EQ(DT_OK, network->ops->dial(network, &address, &stream));
    while (stream->ops->state(stream) == DT_AGAIN)
        std::this_thread::yield();
    EXPECT_EQ(DT_PEER_ERROR, stream->ops->state(stream));
    stream->ops->close(stream);
}

TEST_F(PairThread, AfterItsEndTheCallsOfStreamsDoItsWork)
{
    dt_channel near_end = {};
    dt_channel *far_end = nullptr;
    dt_frame frame;
    Open(&near_end, &far_end, 10);
    dt_pairs_stop(here.pairs);
    dt_empty_frame_encode(DT_FRAME_CLOSE_ACK, &near_end.out);
    EXPECT_EQ(DT_OK, dt_channel_flush(&near_end));
    while (dt_channel_receive(far_end, &frame) != DT_OK)
        std::this_thread::yield();
    EXPECT_EQ(DT_FRAME_CLOSE_ACK, frame.type);
    dt_channel_close(&near_end);
    dt_channel_free(far_end);
}
} // namespace
