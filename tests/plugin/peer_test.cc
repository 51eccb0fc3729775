/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other end of a connection ends: in order, by leaving the process, by SIGKILL. Two processes: this
 * program starts itself again as the peer, with the listener's handle and what to do in its environment.
 */
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "plugin/plugin.h"
#include "tests/harness/harness.h"
#include "tests/plugin/pair.h"
#include "transport/message/connection.h"
#include "transport/session/pair.h"
#include "transport/session/pair_record.h"
#include "transport/session/session.h"
#include "transport/net_state.h"

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;
extern char **environ;

namespace
{
using detour_test::Buffer;
using detour_test::Pair;
using detour_test::Until;

const ncclNet_v8_t *const net = &ncclNetPlugin_v8;
const int kMessages = 20, kMore = 8, kBytes = 2000;

std::string Hex(const char *bytes, size_t count)
{
    std::string text;
    char two[3];
    for (size_t i = 0; i < count; i++) {
        snprintf(two, sizeof two, "%02x", (uint8_t)bytes[i]);
        text += two;
    }
    return text;
}

/* Shows a connection's control line while Detour's thread is kept away from it. */
void WithLine(void *comm, const std::function<void(dt_session *line)> &use)
{
    auto *c = static_cast<dt_connection *>(comm);
    pthread_mutex_lock(&c->nic->mutex);
    use(c->session);
    pthread_mutex_unlock(&c->nic->mutex);
}

/* ---- the peer: connects, sends kMessages messages, then follows its instructions */
TEST(Child, DISABLED_Sender)
{
    const char *handle = getenv("TEST_HANDLE"), *act = getenv("TEST_ACT");
    ASSERT_TRUE(handle && act);
    ASSERT_EQ(ncclSuccess, net->init(nullptr));
    Pair pair(net);
    for (int i = 0; i < NCCL_NET_HANDLE_MAXSIZE; i++)
        pair.handle[i] = (char)std::stoi(std::string(handle + 2 * i, 2), nullptr, 16);
    Until([&] {
        EXPECT_EQ(ncclSuccess, net->connect(0, pair.handle, &pair.send, nullptr));
        return pair.send != nullptr;
    });
    Buffer &from = pair.Register(pair.send, kBytes, 0);
    for (int i = 0; i < kMessages; i++) {
        detour_test::Fill(from.data(), kBytes, i);
        pair.Wait(pair.Send(from.data(), kBytes, 0, from.mhandle));
    }
    if (std::string(act) == "exit")
        _exit(0);
    if (const char *fd = getenv("TEST_FD")) { // not before it is told
        char word;
        ASSERT_EQ(1, read(std::stoi(fd), &word, 1));
    }
    if (std::string(act) == "kill")
        raise(SIGKILL);
    if (std::string(act) == "close")
        return; // the Pair closes
    if (std::string(act) == "more") {
        for (int i = kMessages; i < kMessages + kMore; i++) {
            detour_test::Fill(from.data(), kBytes, i);
            pair.Wait(pair.Send(from.data(), kBytes, 0, from.mhandle));
        }
        Until([&] {
            bool is_back = false;
            WithLine(pair.send, [&](dt_session *line) {
                is_back = line->state == DT_SESSION_UP && dt_load_relaxed(&line->endpoint.round) > 0;
            });
            return is_back;
        });
        return;
    }
    if (std::string(act) == "hang")
        pause();
}

/* ---- the other peer: listens, sends its handle, receives kMessages messages, then follows its instructions
 */
TEST(Child, DISABLED_Receiver)
{
    const char *fd = getenv("TEST_FD"), *act = getenv("TEST_ACT");
    ASSERT_TRUE(fd && act);
    ASSERT_EQ(ncclSuccess, net->init(nullptr));
    Pair pair(net);
    ASSERT_EQ(ncclSuccess, net->listen(0, pair.handle, &pair.listen));
    ASSERT_EQ((ssize_t)sizeof pair.handle, write(std::stoi(fd), pair.handle, sizeof pair.handle));
    Until([&] {
        EXPECT_EQ(ncclSuccess, net->accept(pair.listen, &pair.recv, nullptr));
        return pair.recv != nullptr;
    });
    Buffer &to = pair.Register(pair.recv, kBytes, 0);
    std::vector<void *> requests;
    for (int i = 0; i < kMessages; i++)
        requests.push_back(pair.Receive(to.data(), kBytes, 0, to.mhandle));
    for (void *request : requests)
        pair.Wait(request);
    pair.Receive(to.data(), kBytes, 1, to.mhandle); // and one more, for which it does not stay
    if (std::string(act) == "kill")
        raise(SIGKILL);
}

pid_t StartAgain(const char *filter)
{
    const char *argv[] = {"peer", filter, "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr};
    pid_t pid = -1;
    EXPECT_EQ(0, posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, const_cast<char **>(argv), environ));
    return pid;
}

/* ---- this end */
class Peer : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(ncclSuccess, net->init(nullptr));
    }

    void Start(const char *act)
    {
        ASSERT_EQ(ncclSuccess, net->listen(0, pair.handle, &pair.listen));
        setenv("TEST_HANDLE", Hex(pair.handle, sizeof pair.handle).c_str(), 1);
        setenv("TEST_ACT", act, 1);
        pid = StartAgain("--gtest_filter=*DISABLED_Sender");
        Until([&] {
            EXPECT_EQ(ncclSuccess, net->accept(pair.listen, &pair.recv, nullptr));
            return pair.recv != nullptr || HasFailure();
        });
        net->closeListen(pair.listen);
        pair.listen = nullptr;
        to = &pair.Register(pair.recv, (kMessages + 8) * kBytes, 0);
        for (int i = 0; i < kMessages; i++)
            requests.push_back(Post(i));
    }
    /* The same; what it is to do it does when Tell is called. */
    void StartToBeTold(const char *act)
    {
        int fds[2];
        ASSERT_EQ(0, pipe(fds));
        setenv("TEST_FD", std::to_string(fds[0]).c_str(), 1);
        Start(act);
        unsetenv("TEST_FD");
        close(fds[0]);
        tell_fd = fds[1];
    }
    void Tell()
    {
        ASSERT_EQ(1, write(tell_fd, "!", 1));
    }
    void StartReceiver(const char *act)
    {
        int fds[2];
        ASSERT_EQ(0, pipe(fds));
        setenv("TEST_FD", std::to_string(fds[1]).c_str(), 1);
        setenv("TEST_ACT", act, 1);
        pid = StartAgain("--gtest_filter=*DISABLED_Receiver");
        unsetenv("TEST_FD");
        close(fds[1]);
        ASSERT_EQ((ssize_t)sizeof pair.handle, read(fds[0], pair.handle, sizeof pair.handle));
        close(fds[0]);
        Until([&] {
            EXPECT_EQ(ncclSuccess, net->connect(0, pair.handle, &pair.send, nullptr));
            return pair.send != nullptr || HasFailure();
        });
        from = &pair.Register(pair.send, kBytes, 0);
        for (int i = 0; i < kMessages; i++)
            requests.push_back(pair.Send(from->data(), kBytes, 0, from->mhandle));
    }
    /* One more isend: accepted, and its test is the error. */
    ncclResult_t SendError()
    {
        return Error(pair.Send(from->data(), kBytes, 0, from->mhandle));
    }
    void *Post(int i)
    {
        return pair.Receive(to->data() + i * kBytes, kBytes, 0, to->mhandle);
    }
    void TearDown() override
    {
        pair.Close(); // first: it would hear of the peer's death otherwise
        if (tell_fd >= 0)
            close(tell_fd);
        if (pid > 0) {
            kill(pid, SIGKILL);
            waitpid(pid, nullptr, 0);
        }
    }
    void WithChannel(std::function<void(int fd)> use)
    {
        WithLine(pair.recv, [&](dt_session *line) {
            dt_stream *stream = line->channel.stream;
            EXPECT_NE(nullptr, stream);
            auto call = [](int fd, void *arg) { (*static_cast<decltype(use) *>(arg))(fd); };
            bool is_used = stream && dt_pairs_use_carrier(stream, call, &use);
            EXPECT_TRUE(is_used);
        });
    }
    void ReceiveAll()
    {
        for (int i = 0; i < kMessages; i++) {
            int bytes = 0;
            pair.Wait(requests[i], &bytes);
            EXPECT_EQ(kBytes, bytes);
            EXPECT_EQ(0u, detour_test::CountWrong(to->data() + i * kBytes, kBytes, i));
        }
    }
    void FlushAll()
    {
        void *data = to->data(), *flush = nullptr;
        int bytes = kMessages * kBytes;

        ASSERT_EQ(ncclSuccess, net->iflush(pair.recv, 1, &data, &bytes, &to->mhandle, &flush));
        ASSERT_TRUE(flush);
        pair.Wait(flush);
    }
    /* Until the request ends in an error; how long that took is bounded by the test's budget alone. */
    ncclResult_t Error(void *request)
    {
        ncclResult_t result = ncclSuccess;
        Until([&] {
            int done = -1;
            result = net->test(request, &done, nullptr);
            EXPECT_EQ(0, done);
            return result != ncclSuccess || HasFailure();
        });
        return result;
    }

    Pair pair{net};
    pid_t pid = -1;
    int tell_fd = -1;
    Buffer *to = nullptr, *from = nullptr;
    std::vector<void *> requests;
};

TEST_F(Peer, ThatClosesInOrderLeavesEverythingItSent)
{
    Start("close");
    ASSERT_EQ(pid, waitpid(pid, nullptr, 0)); // it is gone before we look at a single message
    pid = -1;
    ReceiveAll();
}

/* Looked at when Detour knows of its death: every receive has its message, so that is no error. */
TEST_F(Peer, ThatLeavesWithoutClosingLeavesEverythingItSent)
{
    Start("exit");
    ASSERT_EQ(pid, waitpid(pid, nullptr, 0));
    pid = -1;
    auto *c = static_cast<dt_connection *>(pair.recv);
    ASSERT_TRUE(Until([&] { return (dt_load_acquire(&c->notices) & DT_NOTICE_PEER_LOST) != 0; }));
    ReceiveAll();
    FlushAll();
}

TEST_F(Peer, ThatClosesWithReceivesOpenIsAnErrorForThose)
{
    detour_test::ExpectWarning("the sender closed with 2 messages outstanding");
    StartToBeTold("close");
    void *first = Post(kMessages), *second = Post(kMessages + 1);
    Tell();
    ReceiveAll();
    EXPECT_EQ(ncclRemoteError, Error(first));
    EXPECT_EQ(ncclRemoteError, Error(second));
    EXPECT_EQ(ncclRemoteError, Error(Post(kMessages + 2)));
}

TEST_F(Peer, ThatIsKilledIsAnErrorThatNamesIt)
{
    detour_test::ExpectWarning("the peer is dead: its control channel closed without CLOSE");
    StartToBeTold("kill");
    void *open = Post(kMessages); // before it is known that the peer is dead
    Tell();
    ReceiveAll();
    EXPECT_EQ(ncclRemoteError, Error(open));
}

/* It has not read all that we said, so its system resets the channel. */
TEST_F(Peer, ThatIsKilledWithUnreadDataIsAnErrorThatNamesIt)
{
    detour_test::ExpectWarning("the peer is dead: its control channel closed without CLOSE");
    Start("hang");
    ReceiveAll();
    void *open = Post(kMessages);
    ASSERT_EQ(0, kill(pid, SIGSTOP));
    ASSERT_EQ(pid, waitpid(pid, nullptr, WUNTRACED));
    const uint8_t bye[] = {0xff, 0xff, 0, 0, DT_RECORD_END, 0, 0, 0}; // of a stream that does not exist
    WithChannel([&](int fd) { EXPECT_EQ(8, send(fd, bye, 8, MSG_NOSIGNAL)); });
    ASSERT_EQ(0, kill(pid, SIGKILL));
    EXPECT_EQ(ncclRemoteError, Error(open));
}

TEST_F(Peer, WhoseControlChannelIsSeveredIsNotDead)
{
    Start("more");
    auto *c = static_cast<dt_connection *>(pair.recv);
    WithChannel([&](int fd) { EXPECT_EQ(0, shutdown(fd, SHUT_RDWR)); });
    for (int i = kMessages; i < kMessages + kMore; i++)
        requests.push_back(Post(i));
    ReceiveAll();
    for (int i = kMessages; i < kMessages + kMore; i++)
        pair.Wait(requests[i]);
    ASSERT_EQ(pid, waitpid(pid, nullptr, 0));
    pid = -1;
    Until([&] { return (dt_load_acquire(&c->notices) & DT_NOTICE_PEER_CLOSED) != 0 || HasFailure(); });
}

TEST_F(Peer, ThatIsKilledWhileWeAreIdleIsAnErrorAtTheNextReceive)
{
    detour_test::ExpectWarning("requests open, nothing completed for"); // refused, or posted and failed
    Start("kill");
    ReceiveAll();
    ASSERT_EQ(pid, waitpid(pid, nullptr, 0));
    pid = -1;
    EXPECT_EQ(ncclRemoteError, Error(Post(kMessages))); // posted before the news came, or after it
}

TEST_F(Peer, ReceiverThatClosesHasAllThatWasReportedSent)
{
    detour_test::ExpectWarning("but the receiver has closed");
    StartReceiver("close");
    for (void *request : requests)
        pair.Wait(request);
    EXPECT_EQ(ncclRemoteError, SendError());
}

TEST_F(Peer, ReceiverThatIsKilledIsAnErrorThatNamesIt)
{
    detour_test::ExpectWarning("the peer is dead: its control channel closed without CLOSE");
    StartReceiver("kill");
    for (void *request : requests)
        pair.Wait(request);
    EXPECT_EQ(ncclRemoteError, SendError());
}

/* A communicator that is torn down at both ends: the receiver deregisters and closes under open receives, and
 * the sender, which does not know, hands over the rest, deregisters and closes. Only test may be an error. */
TEST(Teardown, OfAReceiverWithOpenReceivesLetsTheSenderHandOverDeregisterAndClose)
{
    const int kOpen = 32;

    ASSERT_EQ(ncclSuccess, net->init(nullptr));
    for (int sent_before = 0; sent_before <= kOpen; sent_before += 8) {
        Pair pair(net);
        ASSERT_NO_FATAL_FAILURE(pair.Connect());
        std::vector<Buffer *> from, to;
        for (int i = 0; i < kOpen; i++) {
            to.push_back(&pair.Register(pair.recv, 1 << 16, 0));
            from.push_back(&pair.Register(pair.send, 1 << 16, (uint8_t)i));
            pair.Receive(to[i]->data(), 1 << 16, 1, to[i]->mhandle);
        }
        for (int i = 0; i < kOpen; i++) {
            if (i == sent_before) {
                for (Buffer *buffer : to)
                    pair.Deregister(*buffer);
                ASSERT_EQ(ncclSuccess, net->closeRecv(pair.recv));
                pair.recv = nullptr;
                detour_test::AllowWarning("requests open, nothing completed for");
                auto *c = static_cast<dt_connection *>(pair.send);
                ASSERT_TRUE(
                    Until([&] { return (dt_load_acquire(&c->notices) & DT_NOTICE_PEER_CLOSED) != 0; }));
            }
            pair.Send(from[i]->data(), 1 << 16, 1, from[i]->mhandle);
        }
        for (Buffer *buffer : from)
            pair.Deregister(*buffer);
        ASSERT_EQ(ncclSuccess, net->closeSend(pair.send));
        pair.send = nullptr;
    }
}

TEST_F(Peer, ThatOnlySleepsIsNoError)
{
    Start("hang");
    void *open = Post(kMessages);
    ReceiveAll();
    for (int i = 0; i < 200; i++) {
        EXPECT_FALSE(pair.TestOnce(open));
        usleep(1000);
    }
}

/* Descriptors that the epoll set of a device's thread knows. */
int CountWatched(const dt_nic *nic)
{
    char path[64], text[256];
    int count = 0;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", nic->service->epoll_fd);
    FILE *file = fopen(path, "r");
    EXPECT_NE(nullptr, file);
    while (file && fgets(text, sizeof text, file))
        count += strncmp(text, "tfd:", 4) == 0;
    if (file)
        fclose(file);
    return count;
}

/* A data loader's worker, for one: the system forgets a descriptor when all of its copies are closed. */
TEST_F(Peer, CopiesOfChannelsInAForkedChildChangeNothing)
{
    Pair first(net), second(net);
    first.Connect();
    second.Connect();
    dt_nic *nic = static_cast<dt_connection *>(first.send)->nic;
    const int kOthers = 2; // to wake the thread, the device
    Until([&] { return CountWatched(nic) == kOthers + 4 || HasFailure(); });
    pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    ASSERT_GT(pid, 0);
    first.Close();
    Until([&] {
        pthread_mutex_lock(&nic->mutex);
        bool is_over = dt_list_is_empty(&nic->service->sessions);
        pthread_mutex_unlock(&nic->mutex);
        return is_over;
    });
    Until([&] { return CountWatched(nic) == kOthers + 2 || HasFailure(); }, 20);
}
} // namespace
