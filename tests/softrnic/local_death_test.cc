// SPDX-License-Identifier: Apache-2.0
// What becomes of the living when a process dies or lies: errors in time, nothing left behind, no crash.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "softrnic/gid.h"
#include "softrnic/rendezvous.h"
#include "tests/softrnic/soft_end.h"

using namespace detour_test;

namespace
{
// The machine's entries for these processes' RNICs; sockets of others come and go meanwhile.
std::set<std::string> traces(const uint64_t (&instances)[2])
{
    std::set<std::string> found;
    std::ifstream sockets("/proc/net/unix");
    std::string line;

    while (std::getline(sockets, line)) {
        for (uint64_t instance : instances) {
            char name[40];
            snprintf(name, sizeof name, "@detour-rnic-%016" PRIx64, instance);
            if (line.find(name) != std::string::npos)
                found.insert(line.substr(line.find('@')));
        }
    }
    for (const char *folder : {"/dev/shm", "/tmp"})
        for (const auto &entry : std::filesystem::directory_iterator(folder))
            if (entry.path().string().find("detour-rnic") != std::string::npos)
                found.insert(entry.path().string());
    return found;
}

// 4.096 us x 2^10 per try, 3 tries: the timer of the attributes, doubled by no more than the engine's
// rounding.
const ConnectOptions kQuickTimer = [] {
    ConnectOptions options;
    options.timeout = 10;
    options.retry_cnt = 2;
    return options;
}();

TEST(LocalDeath, KilledPeerIsRetryExceeded)
{
    Ranks ranks(2);
    int ready[2];

    ASSERT_EQ(pipe(ready), 0);
    ranks.Start([&](const Rank &rank) {
        EndOptions options;
        options.buffer_bytes = 64 << 20;
        End end(options);
        EndAddress peer = ConnectTo(rank, 1 - rank.number(), end, kQuickTimer);

        if (rank.number() == 1) {
            for (;;)
                pause();
        }
        // In the middle of large writes.
        for (uint64_t i = 0; i < 8; i++)
            Require(end.Post(IBV_WR_RDMA_WRITE, 0, 32 << 20, peer, 0, i) == 0, "post");
        Require(write(ready[1], "x", 1) == 1, "report");
        char gone;
        try {
            rank.Receive(1, &gone, 1);
        } catch (const std::exception &) {
        }
        // The killer may have been delayed until all of them had arrived.
        Require(end.Post(IBV_WR_RDMA_WRITE, 0, 100, peer, 0, 8) == 0, "post");
        double start = Seconds();
        ibv_wc wc;
        do
            wc = end.Wait(20);
        while (wc.status == IBV_WC_SUCCESS);
        Require(wc.status == IBV_WC_RETRY_EXC_ERR, "%s", dt_soft_wc_status_str(wc.status));
        // Three timers of 4.2 ms; seconds would mean that it hung until something else happened.
        Require(Seconds() - start < 3, "it took %.1f s", Seconds() - start);
        uint64_t next = wc.wr_id + 1;
        for (; next < 9; next++) {
            wc = end.Wait();
            Require(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == next, "flush of %d",
                    static_cast<int>(next));
        }
        // The RNIC lives: another connection, to itself, works.
        End other(EndOptions{});
        ConnectEnds(other, other);
        Require(other.Post(IBV_WR_RDMA_WRITE, 0, 100, other.Address(), 200, 1) == 0, "post");
        other.WaitOk();
    });
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    ranks.Kill(1);
    ranks.Join();
    close(ready[0]);
    close(ready[1]);
}

TEST(LocalDeath, NothingIsLeftBehind)
{
    uint64_t instances[2];
    {
        Ranks ranks(2);
        int ready[2];

        ASSERT_EQ(pipe(ready), 0);
        ranks.Start([&](const Rank &rank) {
            End end;
            EndAddress peer = ConnectTo(rank, 1 - rank.number(), end);
            Require(end.Post(IBV_WR_RDMA_WRITE, 0, 100000, peer, 0, 1) == 0, "post");
            end.WaitOk();
            uint64_t instance = 0;
            uint32_t device;
            Require(dt_gid_parse(peer.gid.raw, &instance, &device), "the peer's GID");
            Require(write(ready[1], &instance, sizeof instance) == sizeof instance, "report");
            for (;;)
                pause();
        });
        for (uint64_t &instance : instances)
            ASSERT_EQ(read(ready[0], &instance, sizeof instance), static_cast<ssize_t>(sizeof instance));
        EXPECT_EQ(traces(instances).size(), 2u) << "the test would not see a socket";
        ranks.Kill(0);
        ranks.Kill(1);
        ranks.Join();
        close(ready[0]);
        close(ready[1]);
    }
    EXPECT_EQ(traces(instances), std::set<std::string>());
}

// A peer that is stopped, not dead: the same error, and when it goes on, nothing of the failed QP completes
// here.
TEST(LocalDeath, StoppedPeerIsRetryExceeded)
{
    Ranks ranks(2);
    int ready[2];

    ASSERT_EQ(pipe(ready), 0);
    ranks.Start([&](const Rank &rank) {
        End end;
        EndAddress peer = ConnectTo(rank, 1 - rank.number(), end, kQuickTimer);

        if (rank.number() == 1) {
            char done;
            rank.Receive(0, &done, 1);
            return;
        }
        Require(write(ready[1], "x", 1) == 1, "report");
        double limit = Seconds() + 20;
        ibv_wc wc;
        do {
            Require(Seconds() < limit, "no error");
            Require(end.Post(IBV_WR_RDMA_WRITE, 0, 100, peer, 0, 7) == 0, "post");
            wc = end.Wait();
        } while (wc.status == IBV_WC_SUCCESS);
        Require(wc.status == IBV_WC_RETRY_EXC_ERR, "%s", dt_soft_wc_status_str(wc.status));
        Require(write(ready[1], "y", 1) == 1, "report");
        rank.Send(1, "z", 1);
    });
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    kill(ranks.pid(1), SIGSTOP);
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    kill(ranks.pid(1), SIGCONT);
    ranks.Join();
    close(ready[0]);
    close(ready[1]);
}

// The sender gives up on a peer that is stopped, and uses its buffer for something else. When the peer goes
// on, what it finds in the ring must not become a message with the new contents: the packets on a real
// network hold the old ones. A second QP between the same RNICs, whose message comes behind, tells when the
// first one's is dealt with.
TEST(LocalDeath, LateMessageIsOldOrLost)
{
    Ranks ranks(2);
    int ready[2], told[2];

    ASSERT_EQ(pipe(ready), 0);
    ASSERT_EQ(pipe(told), 0);
    ranks.Start([&](const Rank &rank) {
        dt_soft_options soft = {};
        soft.device_count = 1;
        soft.always_fetch = true;
        Require(dt_soft_configure(&soft) == 0, "configure");
        End first, second;
        EndAddress peer = ConnectTo(rank, 1 - rank.number(), first, kQuickTimer);
        ConnectOptions patient;
        patient.timeout = 18;
        EndAddress second_peer = ConnectTo(rank, 1 - rank.number(), second, patient);
        const uint32_t kBytes = 400000;

        first.PostRecv(1);
        second.PostRecv(2);
        rank.Barrier(1 - rank.number());
        if (rank.number() == 1) {
            char go_on;
            rank.Receive(0, &go_on, 1); // stopped about here
            second.WaitOk();
            ibv_wc wc;
            // If it does arrive (it may have been copied into the ring, before this end could say that it
            // need not be), it is the old one, whole.
            if (first.Poll(&wc))
                for (uint32_t i = 0; i < kBytes; i++)
                    Require(first.buffer[i] == 'a', "byte %u is %02x: the new contents as the old message", i,
                            first.buffer[i]);
            return;
        }
        Require(write(ready[1], "x", 1) == 1, "report");
        char is_stopped;
        Require(read(told[0], &is_stopped, 1) == 1, "told");
        memset(first.buffer, 'a', kBytes);
        Require(first.Post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, kBytes, peer, 0, 7) == 0, "post");
        Require(first.Wait().status == IBV_WC_RETRY_EXC_ERR, "it was to fail");
        memset(first.buffer, 'b', kBytes);
        Require(second.Post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 8, second_peer, 0, 8) == 0, "post");
        Require(write(ready[1], "y", 1) == 1, "report");
        rank.Send(1, "z", 1);
        second.WaitOk();
    });
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    kill(ranks.pid(1), SIGSTOP);
    int status;
    ASSERT_EQ(waitpid(ranks.pid(1), &status, WUNTRACED), ranks.pid(1));
    ASSERT_TRUE(WIFSTOPPED(status));
    ASSERT_EQ(write(told[1], "s", 1), 1);
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    kill(ranks.pid(1), SIGCONT);
    ranks.Join();
    for (int fd : {ready[0], ready[1], told[0], told[1]})
        close(fd);
}

int call(uint64_t instance)
{
    sockaddr_un address = {};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    address.sun_family = AF_UNIX;
    int length =
        snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "detour-rnic-%016" PRIx64, instance);
    socklen_t bytes =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
    Require(connect(fd, reinterpret_cast<sockaddr *>(&address), bytes) == 0, "connect: %s", strerror(errno));
    return fd;
}

// True when the other end has hung up within a few seconds.
bool is_dropped(int fd)
{
    pollfd polled = {fd, POLLIN, 0};
    char byte;

    while (poll(&polled, 1, 10000) == 1) {
        ssize_t got = recv(fd, &byte, 1, 0);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return true;
    }
    return false;
}

// Peers that send an invalid HELLO, no HELLO, unsealed memory or an invalid record are
// dropped, without effect on a valid connection.
TEST(LocalDeath, InvalidPeersAreDropped)
{
    RunRanks(2, [](const Rank &rank) {
        if (rank.number() == 1) /* before the other one has its address */
            ExpectRankWarning("sent an invalid record");
        End end;
        EndAddress peer = ConnectTo(rank, 1 - rank.number(), end);
        uint64_t instance = 0;
        uint32_t device = 0;

        Require(dt_gid_parse(peer.gid.raw, &instance, &device), "the peer's GID");
        if (rank.number() == 0) {
            int silent = call(instance), garbage = call(instance), liar = call(instance);
            char noise[200];
            memset(noise, 0x5a, sizeof noise);
            Require(send(garbage, noise, sizeof noise, 0) == sizeof noise, "send");
            dt_hello hello = {};
            Require(send(liar, &hello, sizeof hello, 0) == sizeof hello, "send");
            Require(is_dropped(garbage) && is_dropped(liar), "an invalid HELLO is accepted");
            // A valid HELLO, with memory full of invalid records.
            dt_local_shared *shared;
            pid_t pid;
            int memory = dt_rendezvous_memory(&shared);
            memcpy(hello.dst_gid, peer.gid.raw, 16);
            memset(shared->units, 0x5a, sizeof shared->units);
            shared->head = 77;
            int caller = dt_rendezvous_call(instance, &hello, memory, &pid);
            Require(caller >= 0, "call");
            Require(is_dropped(caller), "a broken ring stays connected");
            Require(is_dropped(silent), "a silent caller is waited for");
            for (int fd : {silent, garbage, liar, caller, memory})
                close(fd);
        }
        if (rank.number() == 0) {
            Require(end.Post(IBV_WR_RDMA_WRITE, 0, 100000, peer, 0, 1) == 0, "post");
            end.WaitOk();
        }
        rank.Barrier(1 - rank.number());
    });
}
} // namespace
