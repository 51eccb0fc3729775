/* SPDX-License-Identifier: Apache-2.0 */
/* What else dials a listener, and how long it is kept: silence, garbage, a wrong nonce, a crowd. */
#include <memory>

#include "tests/harness/harness.h"
#include "tests/transport/link_local.h"
#include "tests/transport/two_nets.h"

namespace
{
using detour_test::HelloTo;
using detour_test::Random;
using detour_test::RawClient;

class Listener : public detour_test::TwoNets
{
};

TEST_F(Listener, ConnectionsThatAreNoPeersDoNotDisturbThePeer)
{
    Listen();
    std::vector<std::unique_ptr<RawClient>> clients;
    auto add = [&] {
        clients.emplace_back(new RawClient(handle));
        return clients.back().get();
    };
    for (int i = 0; i < 20; i++)
        add(); // silent
    add()->Send("GET / HTTP/1.1\r\n\r\n", 18);
    uint8_t noise[300];
    Random(&here.generator, noise, sizeof noise);
    add()->Send(noise, sizeof noise);
    add()->Send("DTRC", 4); // half a header, then silence
    uint8_t big[] = {'D', 'T', 'R', 'C', 1, 0, 0xf8, 0x07, 1, 2, 3};
    add()->Send(big, sizeof big); // the longest frame, never finished
    uint8_t wrong_type[] = {'D', 'T', 'R', 'C', 4, 0, 0, 0};
    add()->Send(wrong_type, sizeof wrong_type);
    dt_hello hello = HelloTo(handle);
    hello.nonce ^= 1;
    RawClient *guesser = add();
    guesser->SendHello(hello);
    hello = HelloTo(handle);
    hello.wanted.slots = 63;
    add()->SendHello(hello);    // the right nonce, and nonsense
    clients.push_back(nullptr); // one that came and went
    {
        RawClient gone(handle);
    }
    Establish();
    EXPECT_GE(Stats().dropped_garbage, 4u);
    EXPECT_EQ(1u, Stats().rejected);
    EXPECT_NE(std::string::npos, guesser->Receive().find("no listen waits for this connection"));
}

TEST_F(Listener, SilentConnectionsAreBounded)
{
    Listen();
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 300; i++)
        clients.emplace_back(new RawClient(handle));
    for (int i = 0; i < 5; i++) {
        ASSERT_EQ(DT_OK, Accept());
        EXPECT_LE(Stats().pending_peers, (uint32_t)DT_PENDING_PEERS_MAX);
    }
    EXPECT_EQ(300u - DT_PENDING_PEERS_MAX, Stats().dropped_crowd);
    Establish();
}

TEST_F(Listener, ASilentConnectionIsClosedAfterFiveSeconds)
{
    Listen();
    RawClient silent(handle);
    for (int i = 0; i < 100 && Stats().pending_peers == 0; i++) {
        ASSERT_EQ(DT_OK, Accept());
        Step();
    }
    ASSERT_EQ(1u, Stats().pending_peers);
    EXPECT_FALSE(silent.IsDropped());
    now_ns += DT_PENDING_PEER_NS;
    ASSERT_EQ(DT_OK, Accept());
    EXPECT_EQ(0u, Stats().pending_peers);
    EXPECT_EQ(1u, Stats().dropped_silent);
    EXPECT_EQ("", silent.Receive());
}

/* The other connections push the peer out before it sends HELLO: it dials again. */
TEST_F(Listener, APeerThatWasPushedOutDialsAgain)
{
    Listen();
    for (int i = 0; i < 3; i++) { // connects, and sends HELLO after the listener has polled
        ASSERT_EQ(DT_OK, Connect());
        ASSERT_EQ(DT_OK, Accept());
    }
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < DT_PENDING_PEERS_MAX + 10; i++)
        clients.emplace_back(new RawClient(handle));
    Establish();
}

/* NCCL is aborted between two calls, and then closes no listener either. */
TEST_F(Listener, AnAbandonedAcceptIsFreedAndItsPeerIsTold)
{
    Listen();
    EXPECT_TRUE(StepUntil([&] {
        EXPECT_EQ(DT_OK, Connect());
        if (dt_list_is_empty(&here.net->setups)) {
            EXPECT_EQ(DT_OK, Accept());
        }
        return !dt_list_is_empty(&here.net->setups);
    }));
    ASSERT_NE(nullptr, listen->setup);
    now_ns += 61 * DT_NS_PER_S;
    dt_net_progress(here.net, now_ns);
    EXPECT_NE(nullptr, listen->setup) << "a late call must still report the timeout";
    now_ns += 10 * DT_NS_PER_S;
    dt_listen *other;
    uint8_t other_handle[DT_HANDLE_BYTES];
    ASSERT_EQ(DT_OK, dt_net_listen(here.net, 0, other_handle, now_ns, &other));
    EXPECT_EQ(nullptr, listen->setup);
    EXPECT_TRUE(dt_list_is_empty(&here.net->setups));
    detour_test::ExpectWarning("accept on soft0: gave up");
    EXPECT_EQ(DT_TIMED_OUT, Accept()) << "after all of that the listener is still there";
    dt_net_close_listen(other);
    detour_test::AllowWarning("connect from soft0");
    detour_test::AllowWarning("the peer refused: the listening rank abandoned its accept");
}

/* The two ends of a link name its interface by numbers of their own, so none is sent. */
class LinkLocal : public detour_test::TwoNets
{
  protected:
    LinkLocal()
        : TwoNets([](dt_params &, dt_net_options &options) {
              dt_address link;
              if (detour_test::FindLinkLocal(&link))
                  options.address = link;
          })
    {
    }
};

TEST_F(LinkLocal, BothEndsDialAcrossTheLink)
{
    dt_address link;
    if (!detour_test::FindLinkLocal(&link))
        GTEST_SKIP() << "this host has no IPv6 link-local address";
    Listen();
    Establish();
    ASSERT_FALSE(HasFailure());
    dt_handle content;
    ASSERT_EQ(DT_OK, dt_handle_decode(handle, &content));
    EXPECT_EQ(0xfe, content.address.ip[0]);
    EXPECT_EQ(0u, content.address.scope);
    EXPECT_EQ(link.scope, sender->session->peer_address.scope);
    EXPECT_EQ(link.scope, receiver->session->peer_address.scope) << "to dial, should the channel be lost";
}
} // namespace
