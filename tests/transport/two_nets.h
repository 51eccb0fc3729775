/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two nets in one process, over real TCP on loopback, with time that the test advances, and raw TCP clients
 * of their listeners (RawClient). Nets without threads: between calls only the kernel's sockets progress.
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
#include "transport/session/listener.h"
#include "transport/net.h"
#include "transport/net_state.h"
#include "transport/session/stream_tcp.h"
#include "transport/protocol/frames.h"
#include "verbs/table.h"

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

/* Software RNICs, some of whose functions a test replaces. A base class in front of TwoNets, whose nets it
 * outlives; give `verbs` to their options. */
struct TappedVerbs {
    dt_verbs *verbs = nullptr;

    explicit TappedVerbs(const std::function<void(dt_verbs_table &)> &tap)
    {
        dt_verbs_table table;
        char reason[256];
        EXPECT_EQ(DT_OK, dt_table_soft(2, 0, &table, reason, sizeof reason)) << reason;
        tap(table);
        EXPECT_EQ(DT_OK, dt_verbs_open_table(&table, &verbs));
    }
    TappedVerbs(const TappedVerbs &) = delete;
    ~TappedVerbs()
    {
        dt_verbs_close(verbs);
    }
};

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
        char name[32];
        EXPECT_EQ(DT_OK, dt_interface_find("=lo", DT_ADDRESS_NONE, &options.address, name));
        options.params = &params;
        options.network = dt_network_tcp();
        options.random = Random;
        options.random_arg = &generator;
        if (adjust)
            adjust(params, options);
        verbs_options.kind = DT_VERBS_SOFT;
        verbs_options.soft_device_count = (int)params.soft_devices;
        EXPECT_EQ(DT_OK, dt_verbs_open(&verbs_options, &verbs));
        if (!options.verbs)
            options.verbs = verbs;
        EXPECT_EQ(DT_OK, dt_net_create(&options, &net));
    }
    ~Net()
    {
        dt_net_destroy(net);
        dt_verbs_close(verbs);
    }
};

/* A TCP client that sends what a test wants, valid or not. */
class RawClient
{
  public:
    explicit RawClient(const uint8_t *handle)
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
    ~RawClient()
    {
        close(fd_);
    }
    void Send(const void *bytes, size_t count)
    {
        EXPECT_EQ((ssize_t)count, send(fd_, bytes, count, MSG_NOSIGNAL));
    }
    void SendHello(const dt_hello &hello)
    {
        uint8_t bytes[DT_FRAME_BYTES_MAX];
        dt_writer w = {bytes, sizeof bytes, 0, false};
        dt_hello_encode(&hello, &w);
        Send(bytes, w.used);
    }
    /* The bytes received until the other end closed, or for 5 s at most. */
    std::string Receive()
    {
        std::string all;
        char part[4096];
        pollfd p = {fd_, POLLIN, 0};
        while (poll(&p, 1, 120000) == 1) {
            ssize_t n = recv(fd_, part, sizeof part, 0);
            if (n <= 0)
                return all;
            all.append(part, n);
        }
        return all + " (still open)";
    }
    bool HasData()
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

/* A HELLO that the listener of this handle accepts. */
inline dt_hello HelloTo(const uint8_t *handle)
{
    dt_handle content;
    EXPECT_EQ(DT_OK, dt_handle_decode(handle, &content));
    dt_hello hello = {};
    hello.version_min = DT_PROTOCOL_VERSION_MIN;
    hello.version_max = DT_PROTOCOL_VERSION_MAX;
    hello.listen_id = content.listen_id;
    hello.nonce = content.nonce;
    hello.connection_id = 99;
    hello.wanted = {1, 1, 64, 65536};
    strcpy(hello.host, "client");
    strcpy(hello.device, "none");
    hello.devices.count = 1;
    return hello;
}

/* `here` listens, `there` connects. */
class TwoNets : public ::testing::Test
{
  protected:
    using Adjust = std::function<void(dt_params &, dt_net_options &)>;

    explicit TwoNets(const Adjust &adjust = nullptr) : here(1, adjust), there(2, adjust) {}

    Net here, there;
    uint8_t handle[DT_HANDLE_BYTES] = {};
    dt_listen *listen = nullptr;
    dt_connection *receiver = nullptr, *sender = nullptr;
    dt_memory *from_memory = nullptr, *to_memory = nullptr;
    uint64_t now_ns = DT_NS_PER_S;

    void Listen()
    {
        ASSERT_EQ(DT_OK, dt_net_listen(here.net, 0, handle, now_ns, &listen));
    }
    /* As of a process without carriers (session/pair.h): the connection gets a TCP connection of its own. */
    void ForgetProcess()
    {
        dt_handle content;
        ASSERT_EQ(DT_OK, dt_handle_decode(handle, &content));
        content.address.process = 0;
        dt_handle_encode(&content, handle);
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
        for (int i = 0; i < 1000000 && !(receiver && sender); i++) {
            ASSERT_EQ(DT_OK, Connect());
            ASSERT_EQ(DT_OK, Accept());
            Step();
        }
        ASSERT_TRUE(receiver && sender);
    }
    /* Both ends of an attempt to connect for which no path is ready, until both have failed. */
    void ExpectNoPath()
    {
        AllowWarning("no device could set up its queue pairs");
        AllowWarning("the peer refused");
        AllowWarning("no path works at both ends");
        AllowWarning("the peer ended the control channel");
        Listen();
        dt_status at_sender = DT_OK, at_receiver = DT_OK;
        EXPECT_TRUE(StepUntil([&] {
            at_sender = at_sender == DT_OK ? Connect() : at_sender;
            at_receiver = at_receiver == DT_OK ? Accept() : at_receiver;
            return at_sender != DT_OK && at_receiver != DT_OK;
        }));
    }
    /* As with many connections: those that are quiet rest, and rounds glance at the busy ones. */
    void RestWithFewConnections()
    {
        for (Net *net : {&here, &there})
            net->net->nic[0].service->turns.rest_min = 0;
    }
    dt_listener_stats Stats()
    {
        dt_listener_stats stats;
        dt_listener_query_stats(here.net->session_host.listener, &stats);
        return stats;
    }
    /* Steps, each longer by `extra_ns`, until the condition holds or the test has failed: true if it holds.
     */
    bool StepUntil(const std::function<bool()> &condition, uint64_t extra_ns = 0)
    {
        for (int i = 0; i < 1000000; i++) {
            if (condition())
                return true;
            if (HasFailure())
                return false;
            now_ns += extra_ns;
            Step();
        }
        ADD_FAILURE() << "the condition was not reached";
        return false;
    }
    /* Buffers for Isend (`from`) and Irecv (`to`); deregistered at the end of the test. */
    void Register(void *from, void *to, size_t bytes)
    {
        ASSERT_EQ(DT_OK, dt_net_register(sender, from, bytes, true, &from_memory));
        ASSERT_EQ(DT_OK, dt_net_register(receiver, to, bytes, true, &to_memory));
    }
    /* One call; NULL: not now. */
    dt_request *Isend(void *data, uint32_t bytes, int tag = 0)
    {
        dt_request *request = nullptr;
        EXPECT_EQ(DT_OK, dt_isend(sender, data, bytes, tag, from_memory, &request));
        return request;
    }
    dt_request *Irecv(void *data, uint32_t bytes, int tag = 0)
    {
        dt_request *request = nullptr;
        EXPECT_EQ(DT_OK, dt_irecv(receiver, 1, &data, &bytes, &tag, &to_memory, &request));
        return request;
    }
    /* Tests the request and clears it once it is done; without a request nothing is left to do. */
    bool IsDone(dt_request **request, int *bytes = nullptr)
    {
        int done = 0;
        if (!*request)
            return true;
        EXPECT_EQ(DT_OK, dt_test(*request, &done, bytes));
        if (done)
            *request = nullptr;
        return done != 0;
    }
    void TearDown() override
    {
        if (sender)
            dt_net_deregister(sender, from_memory);
        if (receiver)
            dt_net_deregister(receiver, to_memory);
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
