// SPDX-License-Identifier: Apache-2.0
// Four processes under one launcher, each connected to each, and one device of a process with the other.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <memory>

#include "tests/softrnic/soft_end.h"

using namespace detour_test;

namespace
{
const uint64_t kSlot = 2 << 20;

void talk_to_all(const Rank &rank, bool no_process_vm)
{
    dt_soft_options soft = {};
    soft.device_count = 2;
    soft.no_process_vm = no_process_vm;
    soft.always_fetch = !no_process_vm;
    Require(dt_soft_configure(&soft) == 0, "configure");
    std::vector<std::unique_ptr<End>> ends(static_cast<size_t>(rank.count()));
    std::vector<EndAddress> peers(ends.size());
    ConnectOptions patient; // four processes share the cores
    patient.timeout = 17;

    for (int peer = 0; peer < rank.count(); peer++) {
        if (peer == rank.number())
            continue;
        EndOptions options;
        options.device = (rank.number() + peer) % 2;
        options.buffer_bytes = 2 * kSlot;
        ends[static_cast<size_t>(peer)] = std::make_unique<End>(options);
        End &end = *ends[static_cast<size_t>(peer)];
        peers[static_cast<size_t>(peer)] = ConnectTo(rank, peer, end, patient);
        end.PostRecv(1);
    }
    for (int round = 1; round <= 4; round++) {
        for (int peer = 0; peer < rank.count(); peer++)
            if (peer != rank.number())
                rank.Barrier(peer); // its receive is posted
        for (int peer = 0; peer < rank.count(); peer++) {
            if (peer == rank.number())
                continue;
            End &end = *ends[static_cast<size_t>(peer)];
            end.Fill(static_cast<uint64_t>(100 * round + 10 * rank.number() + peer), 0, kSlot - 3);
            Require(end.Post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, kSlot - 3, peers[static_cast<size_t>(peer)],
                             kSlot, 2) == 0,
                    "post");
        }
        for (int peer = 0; peer < rank.count(); peer++) {
            if (peer == rank.number())
                continue;
            End &end = *ends[static_cast<size_t>(peer)];
            end.WaitOk(30);
            end.WaitOk(30);
            end.Check(static_cast<uint64_t>(100 * round + 10 * peer + rank.number()), kSlot, kSlot - 3,
                      "from a peer");
            end.PostRecv(1);
        }
    }
    for (int peer = 0; peer < rank.count(); peer++)
        if (peer != rank.number())
            rank.Barrier(peer);
}

TEST(LocalRanks, FourTalkToEachOther)
{
    RunRanks(4, [](const Rank &rank) { talk_to_all(rank, false); });
}

// One of them is not allowed to read the others, or be read: each pair finds its way.
TEST(LocalRanks, WaysDifferByPair)
{
    RunRanks(4, [](const Rank &rank) { talk_to_all(rank, rank.number() == 1); });
}

// A reader that polls the last word of each 128-byte line, as NCCL's LL128 kernels do, never sees it before
// the rest of its line. The writer fills whole lines with the number of the round.
void poll_lines(const Rank &rank, uint64_t bytes, bool no_process_vm)
{
    const int kRounds = 300;
    dt_soft_options soft = {};
    soft.device_count = 1;
    soft.no_process_vm = no_process_vm;
    soft.always_fetch = !no_process_vm;
    Require(dt_soft_configure(&soft) == 0, "configure");
    EndOptions options;
    options.buffer_bytes = bytes;
    End end(options);
    EndAddress peer = ConnectTo(rank, 1 - rank.number(), end);
    auto *words = reinterpret_cast<uint64_t *>(end.buffer);

    for (uint64_t round = 1; round <= kRounds; round++) {
        if (rank.number() == 0) {
            for (uint64_t i = 0; i < bytes / 8; i++)
                words[i] = round;
            Require(end.Post(IBV_WR_RDMA_WRITE, 0, static_cast<uint32_t>(bytes), peer, 0, round) == 0,
                    "post");
            end.WaitOk();
        } else {
            // The helper thread lands it while this one watches.
            double limit = Seconds() + 20;
            for (uint64_t line = 0; line < bytes / 128; line++) {
                const uint64_t *at = words + 16 * line;
                while (__atomic_load_n(at + 15, __ATOMIC_ACQUIRE) != round)
                    Require(Seconds() < limit, "line %d does not come", static_cast<int>(line));
                for (int i = 0; i < 15; i++)
                    Require(__atomic_load_n(at + i, __ATOMIC_RELAXED) == round,
                            "word %d of line %d comes late", i, static_cast<int>(line));
            }
        }
        rank.Barrier(1 - rank.number());
    }
}

TEST(LocalRanks, LinesAreReadWhole)
{
    for (uint64_t bytes : {256ull, 4096ull, 16384ull, 65536ull, 1048576ull})
        RunRanks(2, [bytes](const Rank &rank) { poll_lines(rank, bytes, false); });
    RunRanks(2, [](const Rank &rank) { poll_lines(rank, 1 << 20, true); });
}
} // namespace
