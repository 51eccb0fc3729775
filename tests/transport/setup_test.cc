/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen, connect and accept over real TCP on loopback, with hostile strangers and with time that the test
 * makes. Nets without threads: nothing happens between calls but the strangers' own sockets.
 */
#include <dlfcn.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <regex>

#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"

namespace
{
using detour_test::Net;
using detour_test::NoEnvironment;
using detour_test::Random;
using detour_test::Stranger;

dt_hello HelloTo(const uint8_t *handle)
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
    strcpy(hello.host, "stranger");
    strcpy(hello.device, "none");
    hello.devices.count = 1;
    return hello;
}

class Setup : public detour_test::TwoNets
{
};

TEST_F(Setup, ConnectsAndSaysWhatWasAgreedInOneLineAtEachEnd)
{
    Listen();
    Establish();
    EXPECT_TRUE(dt_connection_is_sender(sender));
    EXPECT_FALSE(dt_connection_is_sender(receiver));
    int lines = 0;
    for (const std::string &line : detour_test::LoggedLines())
        lines += std::regex_search(
            line,
            std::regex(
                "paths soft0-soft0, soft1-soft1 \\(same rail\\); 1 queue pairs each, 64 slots, writes up to "
                "65536 KiB; set up in [0-9]+ us, with [0-9]+ \\+ [0-9]+ us of control verbs, "
                "[1-9][0-9]+ \\+ [1-9][0-9]+ KiB of queues$"));
    EXPECT_EQ(2, lines);
}

/* The kernel's policy for the memory at `address`, with its first node, or "" where there are no policies. */
std::string PolicyAt(const void *address)
{
    int mode = 0;
    unsigned long nodes[16] = {};

    if (syscall(SYS_get_mempolicy, &mode, nodes, 1024ul, address, (unsigned long)MPOL_F_ADDR) != 0)
        return "";
    return mode == MPOL_PREFERRED && nodes[0] ? "prefers node " + std::to_string(__builtin_ctzl(nodes[0]))
                                              : "mode " + std::to_string(mode);
}

/* A connection from this device of `there` to the first one of `here`, and its end. */
void ConnectAndClose(Net &there, size_t device, Net &here)
{
    uint8_t handle[DT_HANDLE_BYTES] = {};
    uint64_t now_ns = DT_NS_PER_S;
    dt_listen *listen = nullptr;
    dt_connection *receiver = nullptr, *sender = nullptr;

    EXPECT_EQ(DT_OK, dt_net_listen(here.net, 0, handle, now_ns, &listen));
    for (int i = 0; i < 20000 && !(receiver && sender); i++) {
        if (!sender) {
            EXPECT_EQ(DT_OK, dt_net_connect(there.net, device, handle, now_ns, &sender));
        }
        if (!receiver) {
            EXPECT_EQ(DT_OK, dt_net_accept(listen, now_ns, &receiver));
        }
        now_ns += 100 * DT_NS_PER_US;
        dt_net_progress(here.net, now_ns);
        dt_net_progress(there.net, now_ns);
        struct timespec pause = {0, 100000};
        nanosleep(&pause, nullptr);
    }
    EXPECT_TRUE(receiver && sender);
    for (dt_connection *end : {sender, receiver})
        if (end)
            dt_net_close(end);
    dt_net_close_listen(listen);
    dt_net_progress(here.net, now_ns);
    dt_net_progress(there.net, now_ns);
}

/*
 * The policy of the pool of a process, whose second device is on node 0, that has connected from these
 * devices. Node 0 is the only one that every machine has: a device without a node stands for one on another.
 */
std::string PoolAfterConnectsFrom(std::initializer_list<size_t> devices)
{
    Net here(1), there(2, [](dt_params &params, dt_net_options &) { strcpy(params.hostpath, "on"); });

    there.net->nic[1].info.numa_node = 0;
    EXPECT_EQ("mode 0", PolicyAt(there.net->hostpath.pool.base));
    for (size_t device : devices)
        ConnectAndClose(there, device, here);
    return PolicyAt(there.net->hostpath.pool.base);
}

TEST(Staging, MemoryIsNearTheDeviceOfTheFirstConnection)
{
    void *library = dlopen("libnuma.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!library || PolicyAt(&library).empty())
        GTEST_SKIP() << "no libnuma, or a kernel without NUMA policies";
    dlclose(library);
    EXPECT_EQ("prefers node 0", PoolAfterConnectsFrom({1, 0}));
    EXPECT_EQ("mode 0", PoolAfterConnectsFrom({0, 1}));
}

/* What both ends say of their paths, for a connection of these devices at the connecting end, named by
 * DETOUR_HCA and DETOUR_BACKUP, to the first of these at the listening end. */
std::string Paths(const char *from, const char *from_backup, const char *to, const char *to_backup,
                  uint64_t paths)
{
    auto with = [&](const char *hca, const char *backup) {
        return [=](dt_params &params, dt_net_options &) {
            strcpy(params.hca, hca);
            strcpy(params.backup, backup);
            params.paths = paths;
        };
    };
    Net here(1, with(to, to_backup)), there(2, with(from, from_backup));
    std::vector<std::string> said;

    ConnectAndClose(there, 0, here);
    for (const std::string &line : detour_test::LoggedLines()) {
        size_t at = line.find(": paths ");
        if (at != std::string::npos)
            said.insert(line.find(" to ") < at ? said.begin() : said.end(),
                        line.substr(at + 8, line.find("; ") - at - 8));
    }
    return said.size() == 2 ? said[0] + " | " + said[1] : "not two lines";
}

TEST(SetupPaths, OfHostsThatDifferAreTheSameAtBothEnds)
{
    EXPECT_EQ("soft0-soft0, soft0-soft1 (same node) | soft0-soft0, soft1-soft0 (same node)",
              Paths("=soft0", "", "=soft0,soft1", "", 4));
}

TEST(SetupPaths, FewerAreWantedThanCouldBe)
{
    EXPECT_EQ("soft0-soft0 | soft0-soft0", Paths("", "", "", "", 1));
}

TEST(SetupPaths, FollowDetourBackupOfTheListeningEnd)
{
    EXPECT_EQ("soft0-soft0, soft0-soft1 (DETOUR_BACKUP) | soft0-soft0, soft1-soft0 (DETOUR_BACKUP)",
              Paths("=soft0", "", "=soft0,soft1", "soft1", 2));
}

TEST(SetupPaths, FollowDetourBackupOfTheConnectingEnd)
{
    EXPECT_EQ("soft0-soft0, soft1-soft1 (DETOUR_BACKUP) | soft0-soft0, soft1-soft1 (DETOUR_BACKUP)",
              Paths("", "soft0=soft1", "", "", 2));
}

TEST(SetupPaths, ABackupThatIsNotThereIsAnErrorThatNamesThoseThatAre)
{
    dt_params params;
    dt_verbs *verbs = nullptr;
    dt_net *net = nullptr;
    char error[256];
    std::mt19937_64 generator;
    dt_verbs_options verbs_options = {};
    dt_net_options options = {};
    detour_test::ExpectWarning("DETOUR_BACKUP=soft0=soft9: 'soft9' is no device here; there are soft0 soft1");
    ASSERT_EQ(DT_OK, dt_params_load(&params, NoEnvironment, nullptr, error, sizeof error));
    strcpy(params.backup, "soft0=soft9");
    verbs_options.kind = DT_VERBS_SOFT;
    verbs_options.soft_device_count = 2;
    ASSERT_EQ(DT_OK, dt_verbs_open(&verbs_options, &verbs));
    options.params = &params;
    options.verbs = verbs;
    options.network = dt_network_tcp();
    options.random = Random;
    options.random_arg = &generator;
    EXPECT_EQ(DT_INVALID, dt_net_create(&options, &net));
    dt_verbs_close(verbs);
}

TEST_F(Setup, NobodyWaitsForTheOther)
{
    Listen();
    for (int i = 0; i < 50; i++) { // accept first, for long
        ASSERT_EQ(DT_OK, Accept());
        ASSERT_EQ(nullptr, receiver);
    }
    for (int i = 0; i < 50; i++) { // then connect, for long: the listener does not answer without a call
        ASSERT_EQ(DT_OK, Connect());
        ASSERT_EQ(nullptr, sender);
    }
    Establish();
}

TEST(SetupTerms, AreTheSmallerOfBothEnds)
{
    Net few(3, [](dt_params &params, dt_net_options &options) {
        params.paths = 1;
        params.qps_per_path = 5;
        options.chunk_bytes = 1 << 20;
    });
    Net many(4, [](dt_params &params, dt_net_options &options) {
        params.qps_per_path = 2;
        options.chunk_bytes = 8192;
    });
    for (auto [from, to] : {std::pair<Net *, Net *>(&few, &many), std::pair<Net *, Net *>(&many, &few)}) {
        uint8_t handle[DT_HANDLE_BYTES];
        dt_listen *listen;
        dt_connection *sender = nullptr, *receiver = nullptr;
        ASSERT_EQ(DT_OK, dt_net_listen(to->net, 1, handle, 0, &listen));
        for (uint64_t now = 1; !(sender && receiver) && now < 20000; now++) {
            if (!sender) {
                ASSERT_EQ(DT_OK, dt_net_connect(from->net, 0, handle, now, &sender));
            }
            if (!receiver) {
                ASSERT_EQ(DT_OK, dt_net_accept(listen, now, &receiver));
            }
            dt_net_progress(few.net, now);
            dt_net_progress(many.net, now);
            usleep(50);
        }
        ASSERT_TRUE(sender && receiver);
        dt_net_close(sender);
        dt_net_close(receiver);
        dt_net_close_listen(listen);
    }
    int lines = 0;
    for (const std::string &line : detour_test::LoggedLines()) {
        lines += line.find("paths soft0-soft1; 2 queue pairs each, 64 slots, writes up to 8 KiB") !=
                 std::string::npos;
        lines += line.find("paths soft1-soft0; 2 queue pairs each, 64 slots, writes up to 8 KiB") !=
                 std::string::npos;
    }
    EXPECT_EQ(4, lines);
}

/* ---- who can talk */

/* soft0 and soft1 with their cables pulled, and plugged in again. */
class Cable : public Setup
{
  protected:
    /* A device that nobody has open has no cable. */
    void SetUp() override
    {
        for (size_t i = 0; i < 2; i++)
            ASSERT_EQ(DT_OK, dt_device_open(here.verbs, dt_net_device_info(here.net, i), &open_device[i]));
    }
    void Do(const char *device, const char *action)
    {
        char answer[200];
        ASSERT_EQ(DT_OK, dt_verbs_device_control(here.verbs, device, action, answer, sizeof answer))
            << answer;
    }
    void TearDown() override
    {
        Setup::TearDown();
        Do("soft0", "up");
        Do("soft1", "up");
        for (dt_device *opened : open_device)
            dt_device_close(opened);
    }
    dt_device *open_device[2];
    /* Set-up with a clock that runs so fast that the hardware's own verdict is seconds away. */
    void Hurry(dt_status *connect, dt_status *accept)
    {
        *connect = *accept = DT_OK;
        for (int i = 0; i < 20000 && !(receiver && sender) && *connect == DT_OK && *accept == DT_OK; i++) {
            *connect = Connect();
            *accept = Accept();
            Step();
            now_ns += 10 * DT_NS_PER_MS;
        }
    }
    /* On a busy machine the real queue pairs may run out of retries before the time of these tests passes. */
    static int Unanswered()
    {
        return Lines(": no answer within ") + Lines(": transport retry count exceeded");
    }
    static int Lines(const std::string &part)
    {
        int count = 0;
        for (const std::string &line : detour_test::LoggedLines())
            count += line.find(part) != std::string::npos;
        return count;
    }
};

TEST_F(Cable, APathWithoutAnAnswerIsNamedWithBothAddressesAndTheConnectionGoesOnWithoutIt)
{
    dt_status connect, accept;
    detour_test::ExpectWarning("path 1 is not used until it answers: soft1 (GID ");
    Do("soft1", "down");
    Listen();
    Hurry(&connect, &accept);
    ASSERT_TRUE(sender && receiver);
    EXPECT_EQ(2, Lines("paths soft0-soft0, soft1-soft1 (same rail, down); ")) << "at both ends";
    EXPECT_EQ(2, Lines(") to soft1 (GID "));
    EXPECT_EQ(2, Unanswered());
}

TEST_F(Cable, ADefaultDeviceWithoutAnAnswerIsNoReasonNotToConnect)
{
    dt_status connect, accept;
    detour_test::ExpectWarning("path 0 is not used until it answers: soft0 (GID ");
    Do("soft0", "down");
    Listen();
    Hurry(&connect, &accept);
    ASSERT_TRUE(sender && receiver);
    EXPECT_EQ(2, Lines("paths soft0-soft0 (down), soft1-soft1 (same rail); "));
}

TEST_F(Cable, TheSecondConnectionOverTheSameTwoDevicesDoesNotWarnAgain)
{
    dt_status connect, accept;
    detour_test::ExpectWarning("path 1 is not used until it answers: soft1 (GID ");
    Do("soft1", "down");
    for (int round = 0; round < 2; round++) {
        Listen();
        Hurry(&connect, &accept);
        ASSERT_TRUE(sender && receiver);
        dt_net_close(sender);
        dt_net_close(receiver);
        dt_net_close_listen(listen);
        sender = receiver = nullptr;
        listen = nullptr;
        memset(handle, 0, sizeof handle);
    }
    EXPECT_EQ(4, Lines("path 1 is not used until it answers"));
    EXPECT_EQ(2u, detour_test::WarningCount());
}

TEST_F(Cable, WhenNoPathAnswersBothAddressesOfEachAreInTheError)
{
    dt_status connect, accept;
    detour_test::ExpectWarning("connect from soft0 to 127.0.0.1:");
    detour_test::ExpectWarning("accept on soft0 from ");
    Do("soft0", "down");
    Do("soft1", "down");
    Listen();
    Hurry(&connect, &accept);
    for (int i = 0; i < 1000 && connect == DT_OK; i++, Step())
        connect = Connect();
    for (int i = 0; i < 1000 && accept == DT_OK; i++, Step())
        accept = Accept();
    EXPECT_EQ(DT_PEER_ERROR, connect);
    EXPECT_EQ(DT_PEER_ERROR, accept);
    EXPECT_LE(1, Lines("no path reaches the peer: soft0 (GID "));
    EXPECT_LE(1, Lines("; soft1 (GID "));
    EXPECT_LE(1, Unanswered());
}

/* ---- strangers */

TEST_F(Setup, StrangersOfAllKindsDoNotDisturbThePeer)
{
    Listen();
    std::vector<std::unique_ptr<Stranger>> strangers;
    auto add = [&] {
        strangers.emplace_back(new Stranger(handle));
        return strangers.back().get();
    };
    for (int i = 0; i < 20; i++)
        add(); // silent
    add()->Say("GET / HTTP/1.1\r\n\r\n", 18);
    uint8_t noise[300];
    Random(&here.generator, noise, sizeof noise);
    add()->Say(noise, sizeof noise);
    add()->Say("DTRC", 4); // half a header, then silence
    uint8_t big[] = {'D', 'T', 'R', 'C', 1, 0, 0xf8, 0x07, 1, 2, 3};
    add()->Say(big, sizeof big); // the longest frame, never finished
    uint8_t wrong_type[] = {'D', 'T', 'R', 'C', 4, 0, 0, 0};
    add()->Say(wrong_type, sizeof wrong_type);
    dt_hello hello = HelloTo(handle);
    hello.nonce ^= 1;
    Stranger *guesser = add();
    guesser->SayHello(hello);
    hello = HelloTo(handle);
    hello.wanted.slots = 63;
    add()->SayHello(hello);       // the right nonce, and nonsense
    strangers.push_back(nullptr); // one that came and went
    {
        Stranger gone(handle);
    }
    Establish();
    EXPECT_GE(Stats().dropped_garbage, 4u);
    EXPECT_EQ(1u, Stats().rejected);
    EXPECT_NE(std::string::npos, guesser->Hear().find("nobody listens for this connection"));
}

TEST_F(Setup, ACrowdOfSilentStrangersIsBounded)
{
    Listen();
    std::vector<std::unique_ptr<Stranger>> strangers;
    for (int i = 0; i < 300; i++)
        strangers.emplace_back(new Stranger(handle));
    for (int i = 0; i < 5; i++) {
        ASSERT_EQ(DT_OK, Accept());
        EXPECT_LE(Stats().strangers, (uint32_t)DT_STRANGERS_MAX);
    }
    EXPECT_EQ(300u - DT_STRANGERS_MAX, Stats().dropped_crowd);
    Establish();
}

TEST_F(Setup, ASilentStrangerHasFiveSeconds)
{
    Listen();
    Stranger silent(handle);
    for (int i = 0; i < 100 && Stats().strangers == 0; i++) {
        ASSERT_EQ(DT_OK, Accept());
        Step();
    }
    ASSERT_EQ(1u, Stats().strangers);
    EXPECT_FALSE(silent.IsDropped());
    now_ns += DT_STRANGER_NS;
    ASSERT_EQ(DT_OK, Accept());
    EXPECT_EQ(0u, Stats().strangers);
    EXPECT_EQ(1u, Stats().dropped_silent);
    EXPECT_EQ("", silent.Hear());
}

/* The crowd pushes the peer out before it could speak: it comes back. */
TEST_F(Setup, APeerThatWasPushedOutDialsAgain)
{
    Listen();
    for (int i = 0; i < 3; i++) { // connects, and says hello after the listener has looked
        ASSERT_EQ(DT_OK, Connect());
        ASSERT_EQ(DT_OK, Accept());
    }
    std::vector<std::unique_ptr<Stranger>> strangers;
    for (int i = 0; i < DT_STRANGERS_MAX + 10; i++)
        strangers.emplace_back(new Stranger(handle));
    Establish();
}

/* ---- what goes wrong */

TEST_F(Setup, AHandleThatIsNotOursIsAnError)
{
    detour_test::ExpectWarning("not one of Detour's");
    EXPECT_EQ(DT_PROTOCOL, Connect());
    EXPECT_EQ(nullptr, sender);
}

TEST_F(Setup, AHandleOfAnEndedAttemptIsAnError)
{
    detour_test::ExpectWarning("an attempt that has ended");
    Listen();
    dt_handle_set_cookie(handle, 12345);
    EXPECT_EQ(DT_INVALID, Connect());
}

TEST_F(Setup, ConnectSaysWhoItWaitedFor)
{
    detour_test::ExpectWarning("waiting for the listener's answer: has the other rank called accept?");
    Listen();
    for (int i = 0; i < 20; i++) {
        ASSERT_EQ(DT_OK, Connect());
        Step();
    }
    now_ns += 60 * DT_NS_PER_S;
    EXPECT_EQ(DT_TIMED_OUT, Connect());
    EXPECT_EQ(nullptr, sender);
}

TEST_F(Setup, AcceptSaysThatNobodyCame)
{
    detour_test::ExpectWarning("gave up after 60000 ms, waiting for the other rank to call connect");
    Listen();
    ASSERT_EQ(DT_OK, Accept());
    now_ns += 61 * DT_NS_PER_S;
    EXPECT_EQ(DT_TIMED_OUT, Accept());
}

TEST_F(Setup, ARefusedConnectionIsADeadPeerAtOnce)
{
    detour_test::ExpectWarning("connection refused: the process that listened there is gone");
    Listen();
    dt_handle content;
    ASSERT_EQ(DT_OK, dt_handle_decode(handle, &content));
    content.address.port = 1; // nobody
    dt_handle_encode(&content, handle);
    dt_status status = DT_OK;
    for (int i = 0; i < 100 && status == DT_OK; i++) {
        status = Connect();
        Step();
    }
    EXPECT_EQ(DT_PEER_ERROR, status);
}

TEST_F(Setup, AClosedListenerTellsItsPeer)
{
    detour_test::ExpectWarning("the peer says: nobody listens for this connection any more");
    Listen();
    dt_listen *other;
    uint8_t other_handle[DT_HANDLE_BYTES];
    ASSERT_EQ(DT_OK, dt_net_listen(here.net, 0, other_handle, now_ns, &other));
    dt_net_close_listen(listen);
    listen = nullptr;
    dt_status status = DT_OK;
    for (int i = 0; i < 1000 && status == DT_OK; i++) {
        status = Connect();
        dt_connection *nobody = nullptr;
        ASSERT_EQ(DT_OK, dt_net_accept(other, now_ns, &nobody)); // somebody has to look
        Step();
    }
    EXPECT_EQ(DT_PEER_ERROR, status);
    dt_net_close_listen(other);
}

TEST_F(Setup, VersionsWithoutOverlapAreNamedAtBothEnds)
{
    detour_test::ExpectWarning("no common protocol version: 7 to 9 at the connecting end, 3 to 5");
    Listen();
    dt_hello hello = HelloTo(handle);
    hello.version_min = 7;
    hello.version_max = 9;
    Stranger future(handle);
    future.SayHello(hello);
    dt_status status = DT_OK;
    for (int i = 0; i < 1000 && status == DT_OK; i++) {
        status = Accept();
        Step();
    }
    EXPECT_EQ(DT_PROTOCOL, status);
    EXPECT_NE(std::string::npos, future.Hear().find("no common protocol version"));
}

/* An end that has learned nothing since is spoken to in its own words. */
TEST_F(Setup, AnOlderPeerIsAnsweredInItsVersion)
{
    Listen();
    dt_hello hello = HelloTo(handle);
    hello.version_min = hello.version_max = DT_PROTOCOL_VERSION_MIN;
    Stranger past(handle);
    past.SayHello(hello);
    for (int i = 0; i < 20000 && !past.HasSomething(); i++) {
        ASSERT_EQ(DT_OK, Accept());
        Step();
    }
    dt_net_close_listen(listen);
    listen = nullptr;
    std::string said = past.Hear();
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(said.data());
    dt_frame_header header;
    dt_answer answer;
    ASSERT_LE((size_t)DT_FRAME_HEADER_BYTES, said.size());
    ASSERT_EQ(DT_OK, dt_frame_header_decode(bytes, &header));
    ASSERT_EQ(DT_FRAME_ANSWER, header.type);
    ASSERT_LE((size_t)DT_FRAME_HEADER_BYTES + header.body_bytes, said.size());
    ASSERT_EQ(DT_OK, dt_answer_decode(bytes + DT_FRAME_HEADER_BYTES, header.body_bytes, &answer));
    EXPECT_EQ(DT_PROTOCOL_VERSION_MIN, answer.version);
}

TEST_F(Setup, APeerThatDiesInTheMiddleIsAnError)
{
    detour_test::ExpectWarning("from stranger:0: the peer ended the control channel");
    Listen();
    {
        Stranger peer(handle);
        peer.SayHello(HelloTo(handle));
        for (int i = 0; i < 20; i++) {
            ASSERT_EQ(DT_OK, Accept());
            Step();
        }
    }
    dt_status status = DT_OK;
    for (int i = 0; i < 1000 && status == DT_OK; i++) {
        status = Accept();
        Step();
    }
    EXPECT_TRUE(status == DT_CLOSED || status == DT_PEER_ERROR) << status;
}

TEST_F(Setup, APeerThatTalksNonsenseInTheMiddleIsAnError)
{
    detour_test::ExpectWarning("from stranger:0: the peer");
    Listen();
    Stranger peer(handle);
    peer.SayHello(HelloTo(handle));
    uint8_t paths[DT_FRAME_BYTES_MAX] = {'D', 'T', 'R', 'C', DT_FRAME_PATHS, 0, 16, 0};
    peer.Say(paths, 24);
    dt_status status = DT_OK;
    for (int i = 0; i < 1000 && status == DT_OK; i++) {
        status = Accept();
        Step();
    }
    EXPECT_EQ(DT_PROTOCOL, status) << "16 zeros: no path, and too many bytes";
}

TEST_F(Setup, AnAbandonedConnectIsFreed)
{
    Listen();
    for (int i = 0; i < 10; i++) {
        ASSERT_EQ(DT_OK, Connect());
        Step();
    }
    ASSERT_FALSE(dt_list_is_empty(&there.net->setups));
    now_ns += 61 * DT_NS_PER_S;
    Step();
    EXPECT_FALSE(dt_list_is_empty(&there.net->setups)) << "a late call would still hear of the time-out";
    now_ns += 10 * DT_NS_PER_S;
    dt_listen *other;
    uint8_t other_handle[DT_HANDLE_BYTES];
    ASSERT_EQ(DT_OK, dt_net_listen(there.net, 0, other_handle, now_ns, &other));
    EXPECT_TRUE(dt_list_is_empty(&there.net->setups));
    dt_net_close_listen(other);
}

TEST_F(Setup, ClosingAListenerInTheMiddleTellsThePeer)
{
    detour_test::ExpectWarning("the listening rank closed its listener");
    Listen();
    for (int i = 0; i < 5; i++) {
        ASSERT_EQ(DT_OK, Connect());
        ASSERT_EQ(DT_OK, Accept());
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, nullptr);
    }
    ASSERT_EQ(nullptr, receiver) << "nobody ran the control jobs";
    dt_net_close_listen(listen);
    listen = nullptr;
    dt_status status = DT_OK;
    for (int i = 0; i < 1000 && status == DT_OK && !sender; i++) {
        status = Connect();
        Step();
    }
    EXPECT_EQ(DT_PEER_ERROR, status);
}

/* Every allocation of the set-up fails once: an error or another try, never a crash, a hang or a leak. */
TEST_F(Setup, SurvivesEveryFailedAllocation)
{
    detour_test::ExpectWarning(""); // whatever it says
    bool was_delivered = true;
    for (int index = 0; was_delivered; index++) {
        ASSERT_LT(index, 1000);
        if (listen)
            dt_net_close_listen(listen);
        listen = nullptr;
        detour_test_fail_alloc(index);
        dt_status status = dt_net_listen(here.net, 0, handle, now_ns, &listen);
        for (int i = 0; i < 300 && status == DT_OK && !(sender && receiver); i++) {
            status = Connect();
            if (status == DT_OK)
                status = Accept();
            Step();
        }
        was_delivered = detour_test_alloc_failed();
        detour_test_fail_alloc(-1);
        ASSERT_TRUE(was_delivered || (sender && receiver));
        if (sender)
            dt_net_close(sender);
        if (receiver)
            dt_net_close(receiver);
        sender = receiver = nullptr;
        now_ns += 100 * DT_NS_PER_S; // abandoned attempts end
        Step();
    }
}
} // namespace
