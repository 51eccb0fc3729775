// SPDX-License-Identifier: Apache-2.0
// Two processes over the `local` wire: every operation moves the right bytes, whatever their number and
// place.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "tests/softrnic/soft_end.h"

using namespace detour_test;

namespace
{
const uint64_t kBuffer = 80ull << 20;

struct Shape {
    uint32_t bytes;
    uint64_t from, to;
};

// Around every border that the wire has: inline, bounce, segment, several segments; odd places.
const Shape kShapes[] = {
    {0, 0, 0},
    {1, 0, 0},
    {7, 3, 5},
    {8, 0, 8},
    {255, 1, 0},
    {256, 0, 0},
    {257, 5, 3},
    {4096, 0, 0},
    {4097, 1, 2},
    {16384, 0, 0},
    {65536, 7, 9},
    {65537, 64, 1},
    {100000, 64, 1},
    {524288, 0, 0},
    {524289, 3, 0},
    {1 << 20, 0, 0},
    {3000001, 11, 6},
    {64 << 20, 128, 0},
    {(64 << 20) - 5, 1, 2},
};

void configure(bool no_process_vm)
{
    dt_soft_options options = {};

    options.device_count = 2;
    options.no_process_vm = no_process_vm;
    options.always_fetch = !no_process_vm;
    Require(dt_soft_configure(&options) == 0, "configure");
}

class LocalMove : public ::testing::TestWithParam<bool>
{
};

TEST_P(LocalMove, WriteWithImmediate)
{
    RunRanks(2, [](const Rank &rank) {
        configure(GetParam());
        EndOptions options;
        options.buffer_bytes = kBuffer;
        End end(options);
        EndAddress peer = ConnectTo(rank, 1 - rank.number(), end);
        uint64_t seed = 1;

        for (const Shape &shape : kShapes) {
            if (rank.number() == 0) {
                end.Fill(seed, shape.from, shape.bytes);
                rank.Barrier(1);
                Require(end.Post(IBV_WR_RDMA_WRITE_WITH_IMM, shape.from, shape.bytes, peer, shape.to, seed,
                                 IBV_SEND_SIGNALED, static_cast<uint32_t>(seed)) == 0,
                        "post");
                ibv_wc wc = end.WaitOk();
                Require(wc.wr_id == seed && wc.opcode == IBV_WC_RDMA_WRITE, "send completion");
            } else {
                memset(end.buffer, 0xee, shape.to + shape.bytes + 64);
                Require(end.PostRecv(100 + seed) == 0, "post receive");
                rank.Barrier(0);
                ibv_wc wc = end.WaitOk();
                Require(wc.wr_id == 100 + seed && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM,
                        "receive completion");
                Require(wc.byte_len == shape.bytes && wc.wc_flags == IBV_WC_WITH_IMM &&
                            ntohl(wc.imm_data) == seed,
                        "length %u, flags %x, immediate %u", wc.byte_len, wc.wc_flags, ntohl(wc.imm_data));
                end.Check(seed, shape.to, shape.bytes, "write with immediate");
                for (uint64_t i = 0; i < 64; i++)
                    Require(end.buffer[shape.to + shape.bytes + i] == 0xee, "a byte behind the end changed");
            }
            rank.Barrier(1 - rank.number());
            seed++;
        }
    });
}

// What rank 0 does to rank 1: every operation that a work request can ask for, and the flags.
struct Operation {
    const char *name;
    ibv_wr_opcode opcode;
    unsigned flags;
    bool needs_recv;
};

const Operation kOperations[] = {
    {"send", IBV_WR_SEND, IBV_SEND_SIGNALED, true},
    {"send with immediate", IBV_WR_SEND_WITH_IMM, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED, true},
    {"write", IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, false},
    {"write with immediate", IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED, true},
    {"read", IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, false},
    {"fenced write", IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED | IBV_SEND_FENCE, false},
    {"inline write", IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED | IBV_SEND_INLINE, false},
    {"inline send", IBV_WR_SEND_WITH_IMM, IBV_SEND_SIGNALED | IBV_SEND_INLINE, true},
};

void one_operation(const Rank &rank, End &end, const EndAddress &peer, const Operation &op, uint32_t bytes,
                   uint64_t seed)
{
    bool is_read = op.opcode == IBV_WR_RDMA_READ;
    bool is_source = is_read == (rank.number() == 1);

    memset(end.buffer, 0, bytes + 4096);
    if (is_source)
        end.Fill(seed, 1024, bytes);
    if (rank.number() == 1 && op.needs_recv)
        Require(end.PostRecv(seed, 1024, bytes) == 0, "%s: post receive", op.name);
    rank.Barrier(1 - rank.number());
    if (rank.number() == 0) {
        Require(end.Post(op.opcode, 1024, bytes, peer, 1024, seed, op.flags, 77) == 0, "%s: post", op.name);
        Require(end.WaitOk().wr_id == seed, "%s: wr_id", op.name);
    } else if (op.needs_recv) {
        ibv_wc wc = end.WaitOk();
        bool has_imm = op.opcode == IBV_WR_SEND_WITH_IMM || op.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
        Require(wc.wr_id == seed && wc.byte_len == bytes, "%s: receive completion", op.name);
        Require(has_imm == (wc.wc_flags == IBV_WC_WITH_IMM) && (!has_imm || ntohl(wc.imm_data) == 77),
                "%s: immediate", op.name);
    }
    rank.Barrier(1 - rank.number());
    if (!is_source)
        end.Check(seed, 1024, bytes, op.name);
}

TEST_P(LocalMove, EveryOperation)
{
    RunRanks(2, [](const Rank &rank) {
        configure(GetParam());
        EndOptions options;
        options.buffer_bytes = 2 << 20;
        End end(options);
        EndAddress peer = ConnectTo(rank, 1 - rank.number(), end);
        uint64_t seed = 1;

        for (const Operation &op : kOperations)
            for (uint32_t bytes : {1u, 64u, 1000u, 70000u, 1048576u})
                if (!(op.flags & IBV_SEND_INLINE) || bytes <= 64)
                    one_operation(rank, end, peer, op, bytes, seed++);
    });
}

// 300 bytes gathered from four places, unsignaled, then a chain whose last one is signaled.
TEST_P(LocalMove, GatherChainUnsignaled)
{
    RunRanks(2, [](const Rank &rank) {
        configure(GetParam());
        End end;
        EndAddress peer = ConnectTo(rank, 1 - rank.number(), end);

        if (rank.number() == 0) {
            ibv_sge sges[4];
            ibv_send_wr wrs[3] = {}, *bad = nullptr;
            end.Fill(5, 0, 300);
            memmove(end.buffer + 5000, end.buffer + 100, 200); // pieces at 0, 5000, 5050, 5149
            memset(end.buffer + 100, 0, 200);
            uint64_t base = reinterpret_cast<uintptr_t>(end.buffer);
            sges[0] = {base, 100, end.mr->lkey};
            sges[1] = {base + 5000, 50, end.mr->lkey};
            sges[2] = {base + 5050, 99, end.mr->lkey};
            sges[3] = {base + 5149, 51, end.mr->lkey};
            for (int i = 0; i < 3; i++) {
                wrs[i].wr_id = 10 + static_cast<uint64_t>(i);
                wrs[i].sg_list = sges;
                wrs[i].num_sge = 4;
                wrs[i].opcode = IBV_WR_RDMA_WRITE;
                wrs[i].wr.rdma.remote_addr = peer.addr + 1000 * static_cast<uint64_t>(i);
                wrs[i].wr.rdma.rkey = peer.rkey;
                wrs[i].next = i < 2 ? &wrs[i + 1] : nullptr;
            }
            wrs[2].send_flags = IBV_SEND_SIGNALED;
            Require(ibv_post_send(end.qp, wrs, &bad) == 0, "post chain");
            Require(end.WaitOk().wr_id == 12, "only the last one completes");
            // More than the send queue holds, one in sixteen signaled.
            for (int i = 0; i < 1000; i++) {
                unsigned flags = i % 16 == 15 ? IBV_SEND_SIGNALED : 0;
                int error;
                while ((error = end.Post(IBV_WR_RDMA_WRITE, 0, 8, peer, 8192, 100, flags)) == ENOMEM)
                    end.WaitOk();
                Require(error == 0, "post %d: %d", i, error);
            }
        }
        rank.Barrier(1 - rank.number());
        for (uint64_t i = 0; rank.number() == 1 && i < 3; i++)
            end.Check(5, 1000 * i, 300, "gathered");
    });
}

// Both ends send and receive many messages of random sizes at once; order and contents are checked.
TEST_P(LocalMove, BothWaysAtOnce)
{
    RunRanks(2, [](const Rank &rank) {
        configure(GetParam());
        const uint32_t kSlots = 8, kSlotBytes = 1 << 20, kMessages = 400;
        EndOptions options;
        options.buffer_bytes = 2ull * kSlots * kSlotBytes;
        End end(options);
        EndAddress peer = ConnectTo(rank, 1 - rank.number(), end);
        uint32_t posted = 0, done = 0, got = 0;
        auto size_of = [](uint32_t from, uint32_t i) {
            return static_cast<uint32_t>((i * 2654435761u + from * 40503u) % (i % 3 ? 3000u : kSlotBytes));
        };
        uint32_t me = static_cast<uint32_t>(rank.number());

        for (uint32_t i = 0; i < kSlots; i++)
            end.PostRecv(i);
        rank.Barrier(1 - rank.number());
        double limit = Seconds() + 30;
        while (done < kMessages || got < kMessages) {
            ibv_wc wc;
            Require(Seconds() < limit, "stuck at %u sent, %u received", done, got);
            // The receiver's slot is free once it answered with a message of its own: at most kSlots ahead.
            if (posted < kMessages && posted - done < kSlots / 2 && posted < got + kSlots / 2) {
                uint32_t slot = posted % kSlots, bytes = size_of(me, posted);
                end.Fill(1000 + posted, slot * kSlotBytes, bytes);
                Require(end.Post(IBV_WR_RDMA_WRITE_WITH_IMM, slot * kSlotBytes, bytes, peer,
                                 static_cast<uint64_t>(kSlots + slot) * kSlotBytes, posted, IBV_SEND_SIGNALED,
                                 posted) == 0,
                        "post");
                posted++;
            }
            if (!end.Poll(&wc))
                continue;
            Require(wc.status == IBV_WC_SUCCESS, "%s", dt_soft_wc_status_str(wc.status));
            if (wc.opcode == IBV_WC_RDMA_WRITE) {
                Require(wc.wr_id == done++, "send completions in order");
            } else {
                uint64_t slot = got % kSlots;
                Require(ntohl(wc.imm_data) == got && wc.byte_len == size_of(1 - me, got), "message %u", got);
                end.Check(1000 + got, (kSlots + slot) * kSlotBytes, wc.byte_len, "message");
                got++;
                end.PostRecv(got);
            }
        }
        rank.Barrier(1 - rank.number());
    });
}

std::string way_name(const ::testing::TestParamInfo<bool> &way)
{
    return way.param ? "ByCopy" : "ByProcessVm";
}

INSTANTIATE_TEST_SUITE_P(, LocalMove, ::testing::Values(false, true), way_name);
} // namespace
