/* SPDX-License-Identifier: Apache-2.0 */
/* Streams over TCP on loopback: what each end learns about the other. */
#include "transport/session/stream_tcp.h"

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/harness/harness.h"
#include "tests/transport/link_local.h"

namespace
{
class Tcp : public ::testing::Test
{
  protected:
    Tcp()
    {
        address.family = DT_ADDRESS_IPV4;
        const uint8_t loopback[] = {127, 0, 0, 1};
        memcpy(address.ip, loopback, sizeof loopback);
    }
    ~Tcp() override
    {
        Close(&here);
        Close(&there);
        if (port)
            network->ops->close_port(port);
    }

    static void Close(dt_stream **stream)
    {
        if (*stream)
            (*stream)->ops->close(*stream);
        *stream = nullptr;
    }

    void Listen()
    {
        ASSERT_EQ(DT_OK, network->ops->listen(network, &address, &port));
        ASSERT_NE(0, address.port);
    }

    /* `there` dials, `here` accepts. */
    void Connect()
    {
        Listen();
        EXPECT_EQ(DT_AGAIN, network->ops->accept(port, &here));
        ASSERT_EQ(DT_OK, network->ops->dial(network, &address, &there));
        Wait(network->ops->port_fd(port));
        ASSERT_EQ(DT_OK, network->ops->accept(port, &here));
        ASSERT_EQ(DT_OK, State(there));
        ASSERT_EQ(DT_OK, State(here));
    }

    static void Wait(int fd)
    {
        pollfd p = {fd, POLLIN, 0};
        ASSERT_EQ(1, poll(&p, 1, 10000));
    }

    static dt_status State(dt_stream *stream)
    {
        dt_status status;
        while ((status = stream->ops->state(stream)) == DT_AGAIN)
            usleep(100);
        return status;
    }

    /* All that comes, and how the stream ended. */
    static std::string ReadAll(dt_stream *stream, dt_status *end)
    {
        std::string all;
        char part[1000];
        for (;;) {
            size_t received = 0;
            *end = stream->ops->receive(stream, part, sizeof part, &received);
            if (*end == DT_AGAIN)
                Wait(stream->ops->fd(stream));
            else if (*end != DT_OK)
                return all;
            all.append(part, received);
        }
    }

    dt_network *network = dt_network_tcp();
    dt_address address = {};
    dt_stream_port *port = nullptr;
    dt_stream *here = nullptr, *there = nullptr;
};

TEST_F(Tcp, BytesArriveInOrderAndAnEndInOrderComesAfterTheLast)
{
    size_t count = 0;
    char byte;
    Connect();
    EXPECT_EQ(DT_AGAIN, here->ops->receive(here, &byte, 1, &count));
    ASSERT_EQ(DT_OK, there->ops->send(there, "hello", 5, &count));
    ASSERT_EQ(5u, count);
    Close(&there);
    dt_status end;
    EXPECT_EQ("hello", ReadAll(here, &end));
    EXPECT_EQ(DT_CLOSED, end);
    EXPECT_EQ(DT_CLOSED, here->ops->receive(here, &byte, 1, &count)) << "for ever";
    EXPECT_EQ(DT_CLOSED, here->ops->send(here, "x", 1, &count));
}

TEST_F(Tcp, ALinkLocalAddressIsReachedOverItsInterface)
{
    dt_address link, peer;
    if (!detour_test::FindLinkLocal(&link))
        GTEST_SKIP() << "this host has no IPv6 link-local address";
    address = link;
    Connect();
    EXPECT_EQ(link.scope, address.scope) << "after listen";
    here->ops->peer(here, &peer);
    EXPECT_EQ(0, memcmp(link.ip, peer.ip, sizeof link.ip));
    EXPECT_EQ(link.scope, peer.scope);
}

TEST_F(Tcp, AFullStreamTakesNoMoreUntilItIsRead)
{
    std::vector<char> block(1 << 20, 'x');
    size_t count, total = 0;
    dt_status status;
    Connect();
    while ((status = there->ops->send(there, block.data(), block.size(), &count)) == DT_OK)
        total += count;
    ASSERT_EQ(DT_AGAIN, status);
    size_t received_total = 0;
    while (received_total < total) {
        if (here->ops->receive(here, block.data(), block.size(), &count) == DT_OK)
            received_total += count;
        else
            Wait(here->ops->fd(here));
    }
    EXPECT_EQ(total, received_total);
    while ((status = there->ops->send(there, "y", 1, &count)) == DT_AGAIN)
        usleep(100);
    EXPECT_EQ(DT_OK, status);
}

TEST_F(Tcp, APortWithoutAListenerIsAPeerError)
{
    Listen();
    network->ops->close_port(port);
    port = nullptr;
    ASSERT_EQ(DT_OK, network->ops->dial(network, &address, &there));
    EXPECT_EQ(DT_PEER_ERROR, State(there));
    size_t count;
    EXPECT_EQ(DT_PEER_ERROR, there->ops->send(there, "x", 1, &count)) << "for ever";
}

TEST_F(Tcp, AResetIsAPeerError)
{
    Connect();
    linger abrupt = {1, 0};
    ASSERT_EQ(0, setsockopt(there->ops->fd(there), SOL_SOCKET, SO_LINGER, &abrupt, sizeof abrupt));
    size_t count;
    ASSERT_EQ(DT_OK, here->ops->send(here, "unread", 6, &count));
    // A close with this option resets. The stream's own close would end it in order first, so its descriptor
    // is replaced.
    dt_status end = DT_OK;
    int fd = there->ops->fd(there);
    ASSERT_EQ(fd, dup2(network->ops->port_fd(port), fd));
    EXPECT_EQ("", ReadAll(here, &end));
    EXPECT_EQ(DT_PEER_ERROR, end);
}

TEST_F(Tcp, UnreadBytesDoNotTurnACloseIntoAReset)
{
    size_t count;
    Connect();
    ASSERT_EQ(DT_OK, here->ops->send(here, "never read", 10, &count));
    Wait(there->ops->fd(there));
    ASSERT_EQ(DT_OK, there->ops->send(there, "last words", 10, &count));
    Close(&there);
    dt_status end;
    EXPECT_EQ("last words", ReadAll(here, &end));
    EXPECT_EQ(DT_CLOSED, end);
}

TEST_F(Tcp, EachEndKnowsTheOther)
{
    dt_address peer;
    Connect();
    there->ops->peer(there, &peer);
    EXPECT_EQ(address.port, peer.port);
    EXPECT_EQ(0, memcmp(address.ip, peer.ip, sizeof peer.ip));
    here->ops->peer(here, &peer);
    EXPECT_EQ(DT_ADDRESS_IPV4, peer.family);
    EXPECT_NE(address.port, peer.port);
}

TEST_F(Tcp, APortThatIsTakenIsOneWarning)
{
    dt_stream_port *second = nullptr;
    Listen();
    detour_test::ExpectWarning("cannot listen on 127.0.0.1:" + std::to_string(address.port) +
                               ": Address already in use");
    EXPECT_EQ(DT_SYSTEM, network->ops->listen(network, &address, &second));
}

TEST_F(Tcp, SurvivesEveryFailedAllocation)
{
    Listen();
    for (int i = 0; i < 2; i++) {
        dt_address other = address;
        dt_stream_port *none = nullptr;
        other.port = 0;
        detour_test_fail_alloc(0);
        EXPECT_EQ(DT_NO_MEMORY, network->ops->listen(network, &other, &none));
        detour_test_fail_alloc(0);
        EXPECT_EQ(DT_NO_MEMORY, network->ops->dial(network, &address, &there));
        EXPECT_TRUE(detour_test_alloc_failed());
    }
    there = nullptr;
    ASSERT_EQ(DT_OK, network->ops->dial(network, &address, &there));
    Wait(network->ops->port_fd(port));
    detour_test_fail_alloc(0);
    EXPECT_EQ(DT_SYSTEM, network->ops->accept(port, &here));
    EXPECT_TRUE(detour_test_alloc_failed());
}
} // namespace
