// SPDX-License-Identifier: Apache-2.0
// Two processes over the `local` wire: every operation moves the right bytes, whatever their number and place.
#include <arpa/inet.h>
#include <gtest/gtest.h>

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
    {0, 0, 0},        {1, 0, 0},          {7, 3, 5},         {8, 0, 8},          {255, 1, 0},
    {256, 0, 0},      {257, 5, 3},        {4096, 0, 0},      {4097, 1, 2},       {16384, 0, 0},
    {16385, 7, 9},    {100000, 64, 1},    {524288, 0, 0},    {524289, 3, 0},     {1 << 20, 0, 0},
    {3000001, 11, 6}, {64 << 20, 128, 0}, {(64 << 20) - 5, 1, 2},
};

void configure(bool no_process_vm)
{
    dt_soft_options options = {};

    options.device_count = 2;
    options.no_process_vm = no_process_vm;
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
                                 IBV_SEND_SIGNALED, static_cast<uint32_t>(seed)) == 0, "post");
                ibv_wc wc = end.WaitOk();
                Require(wc.wr_id == seed && wc.opcode == IBV_WC_RDMA_WRITE, "send completion");
            } else {
                memset(end.buffer, 0xee, shape.to + shape.bytes + 64);
                Require(end.PostRecv(100 + seed) == 0, "post receive");
                rank.Barrier(0);
                ibv_wc wc = end.WaitOk();
                Require(wc.wr_id == 100 + seed && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM, "receive completion");
                Require(wc.byte_len == shape.bytes && wc.wc_flags == IBV_WC_WITH_IMM && ntohl(wc.imm_data) == seed,
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

std::string way_name(const ::testing::TestParamInfo<bool> &way)
{
    return way.param ? "ByCopy" : "ByProcessVm";
}

INSTANTIATE_TEST_SUITE_P(, LocalMove, ::testing::Values(false, true), way_name);
} // namespace
