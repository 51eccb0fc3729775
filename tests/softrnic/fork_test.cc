// SPDX-License-Identifier: Apache-2.0
// fork() while devices are open: the parent goes on, the child may have devices of its own.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/softrnic/soft_end.h"

using namespace detour_test;

namespace
{
constexpr uint32_t kBytes = 512 << 10;

// Rank 0 writes, rank 1 finds it in its memory.
void Transfer(const Rank &rank, End &end, const EndAddress &peer, uint64_t seed)
{
    if (rank.number() == 0) {
        end.Fill(seed, 0, kBytes);
        Require(end.Post(IBV_WR_RDMA_WRITE, 0, kBytes, peer, 0, seed) == 0, "post");
        end.WaitOk();
        rank.Barrier(1);
    } else {
        rank.Barrier(0);
        end.Check(seed, 0, kBytes, "written by the other");
    }
    rank.Barrier(1 - rank.number());
}

// In the child of rank 0, or in rank 1: another device and another connection.
void TransferWithNewDevice(const Rank &rank, uint64_t seed)
{
    End end;
    EndAddress peer = ConnectTo(rank, 1 - rank.number(), end);

    Transfer(rank, end, peer, seed);
}

int RunChild(const Rank &rank, const EndAddress &of_parent)
{
    try {
        End end;
        EndAddress address = end.Address();
        Require(memcmp(&address.gid, &of_parent.gid, sizeof address.gid) != 0, "the parent's address");
        TransferWithNewDevice(rank, 2);
    } catch (const std::exception &error) {
        fprintf(stderr, "child: %s\n", error.what());
        return 1;
    }
    return 0;
}

void WaitForChild(pid_t child)
{
    int status = -1;

    Require(waitpid(child, &status, 0) == child, "waitpid");
    Require(status == 0, "child: status %#x", (unsigned)status);
}

TEST(Fork, ChildHasItsOwnDevicesAndParentGoesOn)
{
    RunRanks(2, [](const Rank &rank) {
        End end;
        EndAddress peer = ConnectTo(rank, 1 - rank.number(), end);

        Transfer(rank, end, peer, 1);
        if (rank.number() == 0) {
            EndAddress address = end.Address();
            pid_t child = fork();
            if (child == 0)
                _exit(RunChild(rank, address));
            WaitForChild(child);
        } else {
            TransferWithNewDevice(rank, 2);
        }
        Transfer(rank, end, peer, 3);
    });
}

// What the parent sends after a fork is the parent's, though the pages are shared until one process writes.
TEST(Fork, MemoryOfTheParentStaysItsOwn)
{
    RunRanks(2, [](const Rank &rank) {
        End end;
        EndAddress peer = ConnectTo(rank, 1 - rank.number(), end);
        int go[2];

        if (rank.number() == 0) {
            Require(pipe(go) == 0, "pipe");
            pid_t child = fork();
            if (child == 0) {
                char byte;
                close(go[1]);
                memset(end.buffer, 0, kBytes);
                _exit(read(go[0], &byte, 1) == 1 ? 0 : 1);
            }
            for (uint64_t seed = 1; seed <= 20; seed++)
                Transfer(rank, end, peer, seed);
            Require(write(go[1], "x", 1) == 1, "write");
            WaitForChild(child);
        } else {
            for (uint64_t seed = 1; seed <= 20; seed++)
                Transfer(rank, end, peer, seed);
        }
    });
}
} // namespace
