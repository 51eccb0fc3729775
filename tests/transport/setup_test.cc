/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen, connect and accept over real TCP on loopback, with hostile clients and with time that the test
 * makes. Nets without threads: nothing happens between calls but the clients' own sockets.
 */
#include <dlfcn.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <regex>

#include "softrnic/softrnic.h"
#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"
#include "transport/message/connection.h"

namespace
{
using detour_test::HelloTo;
using detour_test::Net;
using detour_test::NoEnvironment;
using detour_test::Random;
using detour_test::RawClient;

class Setup : public detour_test::TwoNets
{
  protected:
    dt_status AcceptUntilItFails()
    {
        dt_status status = DT_OK;
        for (int i = 0; i < 1000000 && status == DT_OK; i++) {
            status = Accept();
            Step();
        }
        return status;
    }
};

TEST_F(Setup, ConnectsAndLogsTheAgreementInOneLineAtEachEnd)
{
    Listen();
    Establish();
    EXPECT_TRUE(sender->is_sender);
    EXPECT_FALSE(receiver->is_sender);
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
    for (int i = 0; i < 1000000 && !(receiver && sender); i++) {
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

/* The paths that both ends log, for a connection of these devices at the connecting end, named by
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
    std::vector<std::string> logged;

    ConnectAndClose(there, 0, here);
    for (const std::string &line : detour_test::LoggedLines()) {
        size_t at = line.find(": paths ");
        if (at != std::string::npos)
            logged.insert(line.find(" to ") < at ? logged.begin() : logged.end(),
                          line.substr(at + 8, line.find("; ") - at - 8));
    }
    return logged.size() == 2 ? logged[0] + " | " + logged[1] : "not two lines";
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

TEST_F(Setup, NeitherEndWaitsForTheOther)
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
        lines += line.find("paths soft0-soft1; 2 queue pairs each in turn, 64 slots, writes up to 8 KiB") !=
                 std::string::npos;
        lines += line.find("paths soft1-soft0; 2 queue pairs each in turn, 64 slots, writes up to 8 KiB") !=
                 std::string::npos;
    }
    EXPECT_EQ(4, lines);
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

TEST_F(Setup, ConnectReportsTheEventItWaitedFor)
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

TEST_F(Setup, AcceptReportsThatNoPeerConnected)
{
    detour_test::ExpectWarning("gave up after 60000 ms, waiting for the other rank to call connect");
    Listen();
    ASSERT_EQ(DT_OK, Accept());
    now_ns += 61 * DT_NS_PER_S;
    EXPECT_EQ(DT_TIMED_OUT, Accept());
}

TEST_F(Setup, ARefusedConnectionIsADeadPeerAtOnce)
{
    detour_test::ExpectWarning("connection refused: the process that listened there has ended");
    Listen();
    dt_handle content;
    ASSERT_EQ(DT_OK, dt_handle_decode(handle, &content));
    content.address.port = 1; // no listener
    dt_handle_encode(&content, handle);
    dt_status status = DT_OK;
    for (int i = 0; i < 1000000 && status == DT_OK; i++) {
        status = Connect();
        Step();
    }
    EXPECT_EQ(DT_PEER_ERROR, status);
}

TEST_F(Setup, AClosedListenerTellsItsPeer)
{
    detour_test::ExpectWarning("the peer refused: no listen waits for this connection any more");
    Listen();
    dt_listen *other;
    uint8_t other_handle[DT_HANDLE_BYTES];
    ASSERT_EQ(DT_OK, dt_net_listen(here.net, 0, other_handle, now_ns, &other));
    dt_net_close_listen(listen);
    listen = nullptr;
    dt_status status = DT_OK;
    for (int i = 0; i < 1000000 && status == DT_OK; i++) {
        status = Connect();
        dt_connection *none = nullptr;
        ASSERT_EQ(DT_OK, dt_net_accept(other, now_ns, &none)); // accept polls the listener
        Step();
    }
    EXPECT_EQ(DT_PEER_ERROR, status);
    dt_net_close_listen(other);
}

TEST_F(Setup, VersionsWithoutOverlapAreNamedAtBothEnds)
{
    detour_test::ExpectWarning("no common protocol version: 7 to 9 at the connecting end, 4 to 6");
    Listen();
    dt_hello hello = HelloTo(handle);
    hello.version_min = 7;
    hello.version_max = 9;
    RawClient future(handle);
    future.SendHello(hello);
    EXPECT_EQ(DT_PROTOCOL, AcceptUntilItFails());
    EXPECT_NE(std::string::npos, future.Receive().find("no common protocol version"));
}

/* Version 3 ends its HELLO with the devices. */
TEST_F(Setup, AnOlderVersionIsNamedAtBothEnds)
{
    detour_test::ExpectWarning("accept on soft0 from client:0: no common protocol version: 3 to 3");
    Listen();
    dt_hello hello = HelloTo(handle);
    uint8_t bytes[DT_FRAME_BYTES_MAX];
    dt_writer w = {bytes, sizeof bytes, 0, false};
    hello.version_min = hello.version_max = 3;
    dt_hello_encode(&hello, &w);
    ASSERT_GT(bytes[6], 0);
    bytes[6]--; // the length of the body
    RawClient past(handle);
    past.Send(bytes, w.used - 1);
    EXPECT_EQ(DT_PROTOCOL, AcceptUntilItFails());
    EXPECT_NE(std::string::npos, past.Receive().find("no common protocol version: 3 to 3"));
}

TEST_F(Setup, APeerWithANewerRangeIsAnsweredInTheNewestCommonVersion)
{
    Listen();
    dt_hello hello = HelloTo(handle);
    hello.version_min = DT_PROTOCOL_VERSION_MAX;
    hello.version_max = DT_PROTOCOL_VERSION_MAX + 3;
    RawClient future(handle);
    future.SendHello(hello);
    for (int i = 0; i < 1000000 && !future.HasData(); i++) {
        ASSERT_EQ(DT_OK, Accept());
        Step();
    }
    dt_net_close_listen(listen);
    listen = nullptr;
    std::string reply = future.Receive();
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(reply.data());
    dt_frame_header header;
    dt_answer answer;
    ASSERT_LE((size_t)DT_FRAME_HEADER_BYTES, reply.size());
    ASSERT_EQ(DT_OK, dt_frame_header_decode(bytes, &header));
    ASSERT_EQ(DT_FRAME_ANSWER, header.type);
    ASSERT_LE((size_t)DT_FRAME_HEADER_BYTES + header.body_bytes, reply.size());
    ASSERT_EQ(DT_OK, dt_answer_decode(bytes + DT_FRAME_HEADER_BYTES, header.body_bytes, &answer));
    EXPECT_EQ(DT_PROTOCOL_VERSION_MAX, answer.version);
}

TEST_F(Setup, APeerThatDiesInTheMiddleIsAnError)
{
    detour_test::ExpectWarning("from client:0: the peer ended the control channel");
    Listen();
    {
        RawClient peer(handle);
        peer.SendHello(HelloTo(handle));
        for (int i = 0; i < 20; i++) {
            ASSERT_EQ(DT_OK, Accept());
            Step();
        }
    }
    dt_status status = DT_OK;
    for (int i = 0; i < 1000000 && status == DT_OK; i++) {
        status = Accept();
        Step();
    }
    EXPECT_TRUE(status == DT_CLOSED || status == DT_PEER_ERROR) << status;
}

TEST_F(Setup, APeerThatTalksNonsenseInTheMiddleIsAnError)
{
    detour_test::ExpectWarning("from client:0: the peer");
    Listen();
    RawClient peer(handle);
    peer.SendHello(HelloTo(handle));
    uint8_t paths[DT_FRAME_BYTES_MAX] = {'D', 'T', 'R', 'C', DT_FRAME_PATHS, 0, 16, 0};
    peer.Send(paths, 24);
    EXPECT_EQ(DT_PROTOCOL, AcceptUntilItFails()) << "16 zeros: no path, and too many bytes";
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
    EXPECT_FALSE(dt_list_is_empty(&there.net->setups)) << "a late call must still report the timeout";
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
    ASSERT_EQ(nullptr, receiver) << "no thread ran the control jobs";
    dt_net_close_listen(listen);
    listen = nullptr;
    dt_status status = DT_OK;
    for (int i = 0; i < 1000000 && status == DT_OK && !sender; i++) {
        status = Connect();
        Step();
    }
    EXPECT_EQ(DT_PEER_ERROR, status);
}

/* Every allocation of the set-up fails once: an error or another try, never a crash, a hang or a leak. */
TEST_F(Setup, SurvivesEveryFailedAllocation)
{
    detour_test::ExpectWarning(""); // any text
    bool was_delivered = true;
    for (int index = 0; was_delivered; index++) {
        ASSERT_LT(index, 1000);
        if (listen)
            dt_net_close_listen(listen);
        listen = nullptr;
        detour_test_fail_alloc(index);
        dt_status status = dt_net_listen(here.net, 0, handle, now_ns, &listen);
        // Without a failure, until both ends are there; after one, an end may wait for its time limit.
        for (int i = 0; i < (detour_test_alloc_failed() ? 300 : 1000000) && status == DT_OK; i++) {
            if (sender && receiver)
                break;
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
