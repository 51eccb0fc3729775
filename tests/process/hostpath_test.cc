/* SPDX-License-Identifier: Apache-2.0 */
/* What is staged when a process ends: delivered if it can be, and no reason to hang if it cannot. */
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "plugin/nccl_net_v8.h"
#include "tests/harness/harness.h"
#include "tests/plugin/pair.h"

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;

namespace
{
const int message_bytes = 100000;

/* A process of hostpath_rank.c. It is killed when it is still there at the end. */
class Rank
{
  public:
    Rank(const char *mode, const char *linger_ms, const char *inject)
    {
        int to[2], from[2];
        EXPECT_EQ(0, pipe2(to, O_CLOEXEC));
        EXPECT_EQ(0, pipe2(from, O_CLOEXEC));
        pid = fork();
        if (pid == 0) {
            dup2(to[0], 0);
            dup2(from[1], 1);
            setenv("DETOUR_HOSTPATH", "on", 1);
            setenv("DETOUR_LINGER_MS", linger_ms, 1);
            setenv("DETOUR_INJECT", inject, 1);
            execl(HOSTPATH_RANK, HOSTPATH_RANK, DETOUR_PLUGIN, mode, nullptr);
            _exit(127);
        }
        close(to[0]);
        close(from[1]);
        in = to[1];
        out = from[0];
    }
    ~Rank()
    {
        if (!is_over) {
            kill(pid, SIGKILL);
            waitpid(pid, nullptr, 0);
        }
        close(in);
        close(out);
    }
    void Give(const char *handle)
    {
        ASSERT_EQ(NCCL_NET_HANDLE_MAXSIZE, write(in, handle, NCCL_NET_HANDLE_MAXSIZE));
    }
    /* Its next bytes; "" at its end. */
    std::string Read(size_t bytes)
    {
        std::string text(bytes, '\0');
        size_t used = 0;
        while (used < bytes) {
            ssize_t n = read(out, &text[used], bytes - used);
            if (n <= 0)
                break;
            used += (size_t)n;
        }
        text.resize(used);
        return text;
    }
    int Wait()
    {
        int status = -1;
        EXPECT_EQ(pid, waitpid(pid, &status, 0));
        is_over = true;
        return status;
    }
    pid_t pid;
    int in, out;
    bool is_over = false;
};

class HostpathExit : public ::testing::TestWithParam<const char *>
{
};

/* The receiver posts its irecv only after the sender has called exit(). */
TEST_P(HostpathExit, TheLastMessageIsDelivered)
{
    Rank sender(GetParam(), "60000", "latency=100ms");
    detour_test::Pair here(&ncclNetPlugin_v8);
    ASSERT_EQ(ncclSuccess, here.net->init(nullptr));
    ASSERT_EQ(ncclSuccess, here.net->listen(0, here.handle, &here.listen));
    sender.Give(here.handle);
    ASSERT_TRUE(detour_test::Until([&] {
        EXPECT_EQ(ncclSuccess, here.net->accept(here.listen, &here.recv, nullptr));
        return here.recv || HasFailure();
    }));
    ASSERT_EQ("sc", sender.Read(2));
    usleep(20000); /* it is inside exit() by now, or will be: both must do */
    detour_test::Buffer &to = here.Register(here.recv, message_bytes, 0xee);
    int received = -1;
    here.Wait(here.Receive(to.data(), message_bytes, 7, to.mhandle), &received);
    EXPECT_EQ(message_bytes, received);
    int wrong = 0;
    for (int i = 0; i < message_bytes; i++)
        wrong += to.data()[i] != (uint8_t)(i * 31 + i / 256);
    EXPECT_EQ(0, wrong);
    EXPECT_EQ(0, sender.Wait());
}

TEST_P(HostpathExit, EndsWithoutAReceiver)
{
    Rank receiver("receive", "0", ""), sender(GetParam(), "300", "");
    sender.Give(receiver.Read(NCCL_NET_HANDLE_MAXSIZE).data());
    ASSERT_EQ("sc", sender.Read(2));
    EXPECT_EQ(0, sender.Wait());
}

TEST_P(HostpathExit, EndsThoughThePeerIsDead)
{
    Rank receiver("receive", "0", ""), sender(GetParam(), "5000", "");
    sender.Give(receiver.Read(NCCL_NET_HANDLE_MAXSIZE).data());
    ASSERT_EQ("sc", sender.Read(2));
    kill(receiver.pid, SIGKILL);
    receiver.Wait();
    EXPECT_EQ(0, sender.Wait());
}

INSTANTIATE_TEST_SUITE_P(Closed, HostpathExit, ::testing::Values("send"));
INSTANTIATE_TEST_SUITE_P(StillOpen, HostpathExit, ::testing::Values("hold"));
} // namespace
