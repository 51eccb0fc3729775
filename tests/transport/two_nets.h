/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two nets in one process, over real TCP on loopback, with time that the test makes; and strangers. Nets
 * without threads: nothing happens between calls but the strangers' own sockets.
 */
#ifndef DETOUR_TESTS_TRANSPORT_TWO_NETS_H
#define DETOUR_TESTS_TRANSPORT_TWO_NETS_H

#ifdef __cplusplus
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "base/clock.h"
#include "tests/harness/harness.h"
#include "transport/listener.h"
#include "transport/net.h"
#include "transport/nic.h"
#include "transport/stream_tcp.h"
#include "transport/wire_messages.h"

namespace detour_test
{
inline const char *NoEnvironment(void *, const char *)
{
    return nullptr;
}

inline void Random(void *arg, void *to, size_t bytes)
{
    auto *generator = static_cast<std::mt19937_64 *>(arg);
    for (size_t i = 0; i < bytes; i++)
        static_cast<uint8_t *>(to)[i] = (uint8_t)(*generator)();
}

/* One process's worth of transport. */
struct Net {
    std::mt19937_64 generator{7};
    dt_params params;
    dt_verbs *verbs = nullptr;
    dt_net *net = nullptr;

    explicit Net(unsigned seed, std::function<void(dt_params &, dt_net_options &)> adjust = nullptr)
        : generator(seed)
    {
        char error[256];
        dt_verbs_options verbs_options = {};
        dt_net_options options = {};
        EXPECT_EQ(DT_OK, dt_params_load(&params, NoEnvironment, nullptr, error, sizeof error));
        verbs_options.kind = DT_VERBS_SOFT;
        verbs_options.soft_device_count = 2;
        EXPECT_EQ(DT_OK, dt_verbs_open(&verbs_options, &verbs));
        char name[32];
        EXPECT_EQ(DT_OK, dt_interface_find("=lo", &options.address, name));
        options.params = &params;
        options.verbs = verbs;
        options.network = dt_network_tcp();
        options.random = Random;
        options.random_arg = &generator;
        if (adjust)
            adjust(params, options);
        EXPECT_EQ(DT_OK, dt_net_create(&options, &net));
    }
    ~Net()
    {
        dt_net_destroy(net);
        dt_verbs_close(verbs);
    }
};

/* A TCP client without manners. */
class Stranger
{
  public:
    explicit Stranger(const uint8_t *handle)
    {
        dt_handle content;
        EXPECT_EQ(DT_OK, dt_handle_decode(handle, &content));
        sockaddr_in to = {};
        to.sin_family = AF_INET;
        to.sin_port = htons(content.address.port);
        memcpy(&to.sin_addr, content.address.ip, 4);
        fd_ = socket(AF_INET, SOCK_STREAM, 0);
        EXPECT_EQ(0, connect(fd_, reinterpret_cast<sockaddr *>(&to), sizeof to));
    }
    ~Stranger()
    {
        close(fd_);
    }
    void Say(const void *bytes, size_t count)
    {
        EXPECT_EQ((ssize_t)count, send(fd_, bytes, count, MSG_NOSIGNAL));
    }
    void SayHello(const dt_hello &hello)
    {
        uint8_t bytes[DT_FRAME_BYTES_MAX];
        dt_writer w = {bytes, sizeof bytes, 0, false};
        dt_hello_encode(&hello, &w);
        Say(bytes, w.used);
    }
    /* What came back, until the other end closed or for some time at most. */
    std::string Hear()
    {
        std::string all;
        char part[4096];
        pollfd p = {fd_, POLLIN, 0};
        while (poll(&p, 1, 5000) == 1) {
            ssize_t n = recv(fd_, part, sizeof part, 0);
            if (n <= 0)
                return all;
            all.append(part, n);
        }
        return all + " (still open)";
    }
    bool HasSomething()
    {
        pollfd p = {fd_, POLLIN, 0};
        return poll(&p, 1, 0) == 1;
    }
    bool IsDropped()
    {
        pollfd p = {fd_, POLLIN, 0};
        char c;
        return poll(&p, 1, 0) == 1 && recv(fd_, &c, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
    }

  private:
    int fd_;
};

/* `here` listens, `there` connects. */
class TwoNets : public ::testing::Test
{
  protected:
    Net here{1}, there{2};
    uint8_t handle[DT_HANDLE_BYTES] = {};
    dt_listen *listen = nullptr;
    dt_connection *receiver = nullptr, *sender = nullptr;
    uint64_t now_ns = DT_NS_PER_S;

    void Listen()
    {
        ASSERT_EQ(DT_OK, dt_net_listen(here.net, 0, handle, now_ns, &listen));
    }
    dt_status Accept()
    {
        return receiver ? DT_OK : dt_net_accept(listen, now_ns, &receiver);
    }
    dt_status Connect()
    {
        return sender ? DT_OK : dt_net_connect(there.net, 0, handle, now_ns, &sender);
    }
    void Step()
    {
        now_ns += 100 * DT_NS_PER_US;
        dt_net_progress(here.net, now_ns);
        dt_net_progress(there.net, now_ns);
        struct timespec pause = {0, 100000}; // loopback TCP has a life of its own
        nanosleep(&pause, nullptr);
    }
    /* Both ends in turn until both are there. */
    void Establish()
    {
        for (int i = 0; i < 20000 && !(receiver && sender); i++) {
            ASSERT_EQ(DT_OK, Connect());
            ASSERT_EQ(DT_OK, Accept());
            Step();
        }
        ASSERT_TRUE(receiver && sender);
    }
    dt_listener_stats Stats()
    {
        dt_listener_stats stats;
        dt_listener_query_stats(here.net->listener, &stats);
        return stats;
    }
    void TearDown() override
    {
        if (sender)
            dt_net_close(sender);
        if (receiver)
            dt_net_close(receiver);
        if (listen)
            dt_net_close_listen(listen);
        dt_net_progress(here.net, now_ns);
        dt_net_progress(there.net, now_ns);
    }
};
} // namespace detour_test
#endif

#endif
