/* SPDX-License-Identifier: Apache-2.0 */
/* The control line: what happens when its channel breaks, over real TCP, and who may replace it. */
#include <linux/filter.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include <thread>

#include "transport/service.h"
#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"
#include "transport/message/connection.h"
#include "transport/session/session.h"

namespace
{
using detour_test::RawClient;

class Line : public detour_test::TwoNets
{
  protected:
    void SetUp() override
    {
        Listen();
        ForgetProcess(); // so that the session has a descriptor to break
        Establish();
    }
    static int Fd(const dt_connection *c)
    {
        dt_stream *stream = c->session->channel.stream;
        return stream->ops->fd(stream);
    }
    bool IsUp()
    {
        return sender->session->state == DT_SESSION_UP && receiver->session->state == DT_SESSION_UP;
    }
    bool IsRound(uint32_t round)
    {
        return IsUp() && sender->session->endpoint.round == round &&
               receiver->session->endpoint.round == round;
    }
    static void Shut(dt_connection *c)
    {
        EXPECT_EQ(0, shutdown(Fd(c), SHUT_RDWR));
    }
    /* As a firewall does it: the other end receives a reset, too. */
    static void Reset(dt_connection *c)
    {
        sockaddr none = {};
        none.sa_family = AF_UNSPEC;
        EXPECT_EQ(0, connect(Fd(c), &none, sizeof none));
    }
    dt_rejoin Rejoin(bool is_sender, uint32_t round) const
    {
        return {sender->id, receiver->session->endpoint.nonce, round, is_sender};
    }
    /* What the listener that the connection's handle names answers. */
    std::string Answer(const uint8_t *to, const dt_rejoin &rejoin)
    {
        RawClient client(to);
        uint8_t bytes[DT_FRAME_BYTES_MAX];
        dt_writer w = {bytes, sizeof bytes, 0, false};
        dt_rejoin_encode(&rejoin, &w);
        client.Send(bytes, w.used);
        for (int i = 0; i < 50; i++)
            Step();
        return client.HasData() ? client.Receive() : "";
    }
    /* As a handle, so that a client finds it. */
    std::vector<uint8_t> ListenerOf(const dt_net *net)
    {
        dt_handle content = {};
        std::vector<uint8_t> bytes(DT_HANDLE_BYTES);
        content.version_max = 1;
        content.address = net->address;
        dt_handle_encode(&content, bytes.data());
        return bytes;
    }
};

TEST_F(Line, IsDialedAgainAfterAnyBreakOfTheChannel)
{
    uint32_t round = 0;
    for (void (*how)(dt_connection *) : {Shut, Reset}) {
        for (dt_connection *c : {sender, receiver}) {
            how(c);
            round++;
            StepUntil([&] { return IsRound(round); });
        }
    }
    EXPECT_EQ(round, Stats().rejoined);
    EXPECT_FALSE(sender->service->is_peer_lost);
    EXPECT_FALSE(receiver->service->is_peer_lost);
}

/* By a firewall that has forgotten it, for one: nothing comes back, no reset either. */
TEST_F(Line, IsDialedAgainWhenFramesAreSwallowed)
{
    sock_filter nothing = {BPF_RET | BPF_K, 0, 0, 0};
    sock_fprog filter = {1, &nothing};
    ASSERT_EQ(0, setsockopt(Fd(receiver), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter));
    unsigned limit_ms = 0;
    socklen_t bytes = sizeof limit_ms;
    ASSERT_EQ(0, getsockopt(Fd(sender), IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, &bytes));
    EXPECT_GE(limit_ms, 1000u) << "0: the system's own, a quarter of an hour";
    EXPECT_LE(limit_ms, 30000u);
    limit_ms = 300; // so that this does not take long
    ASSERT_EQ(0, setsockopt(Fd(sender), IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms));
    dt_path *path = &sender->path[0];
    dt_store_release(&path->nic->is_drained, 1u);
    dt_connection_suspect(sender, path, DT_FAULT_ADMIN);
    StepUntil([&] { return path->machine.state == DT_SENDER_WAITING; });
    StepUntil([&] { return path->machine.state == DT_SENDER_SETTLED; }); /* in band, over the other path */
    StepUntil([&] { return IsRound(1); });
    dt_store_release(&path->nic->is_drained, 0u);
}

TEST_F(Line, BrokenAgainWhileItIsDialledIsDialledOnceMore)
{
    Shut(sender);
    StepUntil([&] { return sender->session->state == DT_SESSION_JOINING || IsRound(1); });
    Reset(sender);
    StepUntil([&] {
        return IsUp() && sender->session->endpoint.round == receiver->session->endpoint.round &&
               sender->session->endpoint.round > 1;
    });
}

TEST_F(Line, ACloseThatWasLostWithTheChannelIsSentAgain)
{
    for (dt_connection **closing : {&receiver, &sender}) {
        dt_connection *other = closing == &receiver ? sender : receiver;
        dt_nic *nic = (*closing)->nic;
        Reset(*closing);
        dt_net_close(*closing); // into the broken channel
        *closing = nullptr;
        StepUntil([&] { return (dt_load_acquire(&other->notices) & DT_NOTICE_PEER_CLOSED) != 0; });
        StepUntil([&] { return dt_list_is_empty(&nic->service->sessions); });
        EXPECT_FALSE(other->service->is_peer_lost);
        dt_net_close(other);
        sender = receiver = nullptr;
        if (closing == &receiver) {
            dt_handle_set_cookie(handle, 0);
            Establish();
        }
    }
}

TEST_F(Line, AClosedEndWithoutAnAnswerStopsDialing)
{
    dt_nic *nic = receiver->nic;
    int port = socket(AF_INET, SOCK_STREAM, 0); // accepts every connection and sends nothing
    sockaddr_in at = {};
    socklen_t bytes = sizeof at;
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(0, bind(port, reinterpret_cast<sockaddr *>(&at), bytes));
    ASSERT_EQ(0, ::listen(port, 1000));
    ASSERT_EQ(0, getsockname(port, reinterpret_cast<sockaddr *>(&at), &bytes));
    for (dt_connection *c : {sender, receiver})
        c->session->peer_address.port = ntohs(at.sin_port);
    Reset(receiver);
    dt_net_close(receiver);
    receiver = nullptr;
    uint64_t began_ns = now_ns;
    while (!dt_list_is_empty(&nic->service->sessions)) {
        now_ns += 50 * DT_NS_PER_MS;
        Step();
        ASSERT_LT(now_ns - began_ns, 60 * DT_NS_PER_S);
    }
    EXPECT_GE(now_ns - began_ns, here.params.linger_ms * DT_NS_PER_MS);
    EXPECT_FALSE(sender->service->is_peer_lost);       // unreachable is not dead
    EXPECT_LE(sender->session->endpoint.round, 4u);    // and is not called all the time
    sender->session->peer_address = here.net->address; // the network is back
    StepUntil([&] {
        return sender->session->is_peer_dead || now_ns - began_ns > 60 * DT_NS_PER_S ||
               (now_ns += DT_NS_PER_MS, false);
    });
    EXPECT_TRUE(sender->session->is_peer_dead); // that process no longer knows the connection
    close(port);
}

TEST_F(Line, UnauthenticatedClientsCannotTakeItOver)
{
    dt_rejoin rejoin = Rejoin(true, 1);
    rejoin.nonce ^= 1;
    EXPECT_NE(std::string::npos, Answer(handle, rejoin).find("no such connection"));
    rejoin = Rejoin(true, 1);
    rejoin.connection_id ^= 1;
    EXPECT_NE(std::string::npos, Answer(handle, rejoin).find("no such connection"));
    EXPECT_NE(std::string::npos, Answer(handle, Rejoin(false, 0)).find("no such connection"));
    std::vector<uint8_t> other = ListenerOf(there.net);
    EXPECT_NE(std::string::npos, Answer(other.data(), Rejoin(true, 1)).find("no such connection"));
    EXPECT_NE(std::string::npos, Answer(handle, Rejoin(true, 0)).find("a newer channel"));
    EXPECT_EQ(0u, Stats().rejoined);
    EXPECT_TRUE(IsRound(0));
}

TEST_F(Line, ALivenessProbeNotifiesTheSenderOnce)
{
    std::vector<uint8_t> other = ListenerOf(there.net);
    EXPECT_EQ(8u, Answer(other.data(), Rejoin(false, 0)).size()); // WELCOME
    StepUntil([&] { return IsRound(1); });
    EXPECT_EQ(8u, Answer(other.data(), Rejoin(false, 0)).size()); // about a channel that is history
    EXPECT_TRUE(IsRound(1));
}

TEST_F(Line, NonsenseOnItEndsTheConnection)
{
    detour_test::ExpectWarning("the peer sent something else than was agreed on the control channel");
    EXPECT_EQ(8, send(Fd(sender), "nonsense", 8, MSG_NOSIGNAL));
    StepUntil([&] { return receiver->session->state == DT_SESSION_ENDED; });
    StepUntil([&] { return dt_connection_check(receiver) != DT_OK; });
}
/* Both frames are valid in any number, but other peers must be served, too. */
TEST_F(Line, FramesOfAPeerAreProcessedInBatches)
{
    uint8_t close[DT_FRAME_BYTES_MAX];
    dt_writer w = {close, sizeof close, 0, false};
    const dt_close content = {0};
    dt_close_encode(&content, &w);
    for (const std::string &word : {std::string("DTRC\x08\0\0\0", 8), std::string((char *)close, w.used)}) {
        std::string words;
        int left = 0;
        for (int i = 0; i < 2048; i++)
            words += word;
        ASSERT_EQ((ssize_t)words.size(), send(Fd(sender), words.data(), words.size(), MSG_NOSIGNAL));
        while (ioctl(Fd(receiver), FIONREAD, &left) == 0 && left < (int)words.size() / 2)
            std::this_thread::yield();
        Step();
        ASSERT_EQ(0, ioctl(Fd(receiver), FIONREAD, &left));
        EXPECT_GT(left, 0) << "all frames were processed in one round";
        StepUntil([&] { return ioctl(Fd(receiver), FIONREAD, &left) == 0 && left == 0; });
        EXPECT_TRUE(IsUp());
    }
}
TEST_F(Line, AClosedEndThatCannotDialSleeps)
{
    dt_nic *nic = receiver->nic;
    receiver->session->peer_address.family = DT_ADDRESS_NONE;
    Reset(receiver);
    dt_net_close(receiver);
    receiver = nullptr;
    uint64_t next_ns = 0;
    for (int i = 0; i < 100; i++) {
        now_ns += DT_NS_PER_MS;
        next_ns = dt_net_progress(here.net, now_ns);
    }
    EXPECT_FALSE(dt_list_is_empty(&nic->service->sessions)) << "it waits for the sender to dial";
    EXPECT_GT(next_ns, now_ns);
    StepUntil([&] { return dt_list_is_empty(&nic->service->sessions); });
}
} // namespace
