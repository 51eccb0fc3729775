// SPDX-License-Identifier: Apache-2.0
// Send queue elements: the layout beside rdma-core's, encode then walk, and walks over garbage.
#include "softrnic/wqe.h"

#include <gtest/gtest.h>
#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/mlx5dv.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "base/prng.h"

namespace
{
#define SAME_FIELD(mine, my_field, theirs, their_field)                                            \
    static_assert(offsetof(mine, my_field) == offsetof(theirs, their_field), #their_field);        \
    static_assert(sizeof(((mine *)nullptr)->my_field) == sizeof(((theirs *)nullptr)->their_field), \
                  #their_field)

static_assert(sizeof(dt_wqe_ctrl) == sizeof(mlx5_wqe_ctrl_seg), "control segment");
SAME_FIELD(dt_wqe_ctrl, opmod_idx_opcode, mlx5_wqe_ctrl_seg, opmod_idx_opcode);
SAME_FIELD(dt_wqe_ctrl, qpn_ds, mlx5_wqe_ctrl_seg, qpn_ds);
SAME_FIELD(dt_wqe_ctrl, signature, mlx5_wqe_ctrl_seg, signature);
SAME_FIELD(dt_wqe_ctrl, fm_ce_se, mlx5_wqe_ctrl_seg, fm_ce_se);
SAME_FIELD(dt_wqe_ctrl, imm, mlx5_wqe_ctrl_seg, imm);
static_assert(sizeof(dt_wqe_remote) == sizeof(mlx5_wqe_raddr_seg), "remote address segment");
SAME_FIELD(dt_wqe_remote, addr, mlx5_wqe_raddr_seg, raddr);
SAME_FIELD(dt_wqe_remote, rkey, mlx5_wqe_raddr_seg, rkey);
static_assert(sizeof(dt_wqe_data) == sizeof(mlx5_wqe_data_seg), "data segment");
SAME_FIELD(dt_wqe_data, byte_count, mlx5_wqe_data_seg, byte_count);
SAME_FIELD(dt_wqe_data, lkey, mlx5_wqe_data_seg, lkey);
SAME_FIELD(dt_wqe_data, addr, mlx5_wqe_data_seg, addr);
static_assert(uint32_t(DT_WQE_INLINE) == uint32_t(MLX5_INLINE_SEG), "inline flag");
static_assert(int(DT_WQE_BLOCK_BYTES) == int(MLX5_SEND_WQE_BB), "block");
static_assert(int(DT_WQE_SIGNALED) == int(MLX5_WQE_CTRL_CQ_UPDATE), "signaled");
static_assert(int(DT_WQE_SOLICITED) == int(MLX5_WQE_CTRL_SOLICITED), "solicited");
static_assert(int(DT_WQE_FENCE) == int(MLX5_WQE_CTRL_FENCE), "fence");
static_assert(int(DT_WQE_NOP) == int(MLX5_OPCODE_NOP), "opcode");
static_assert(int(DT_WQE_WRITE) == int(MLX5_OPCODE_RDMA_WRITE), "opcode");
static_assert(int(DT_WQE_WRITE_IMM) == int(MLX5_OPCODE_RDMA_WRITE_IMM), "opcode");
static_assert(int(DT_WQE_SEND) == int(MLX5_OPCODE_SEND), "opcode");
static_assert(int(DT_WQE_SEND_IMM) == int(MLX5_OPCODE_SEND_IMM), "opcode");
static_assert(int(DT_WQE_READ) == int(MLX5_OPCODE_RDMA_READ), "opcode");

struct Memory {
    std::vector<uint64_t> words;
    dt_wqe_ring ring;
    explicit Memory(uint32_t blocks) : words(blocks * 8)
    {
        ring = {reinterpret_cast<uint8_t *>(words.data()), blocks};
    }
};

TEST(Wqe, AWriteEqualsTheVendorsHelpersByteForByte)
{
    Memory mine(1), theirs(1);
    dt_wqe_header header = {0x123456,  DT_WQE_WRITE_IMM,      DT_WQE_SIGNALED | DT_WQE_SOLICITED,
                            htonl(77), 0x1122334455667788ull, 0x99aabbcc};
    dt_wqe_sge sge = {0xcafebabe12345678ull, 0x54321, 0xdeadbeef};
    EXPECT_EQ(1u, dt_wqe_encode(&mine.ring, 0xfedc, &header, &sge, 1));

    auto *ctrl = reinterpret_cast<mlx5_wqe_ctrl_seg *>(theirs.words.data());
    mlx5dv_set_ctrl_seg(ctrl, 0xfedc, MLX5_OPCODE_RDMA_WRITE_IMM, 0, 0x123456,
                        MLX5_WQE_CTRL_CQ_UPDATE | MLX5_WQE_CTRL_SOLICITED, 4, 0, htonl(77));
    auto *raddr = reinterpret_cast<mlx5_wqe_raddr_seg *>(ctrl + 1);
    raddr->raddr = htobe64(0x1122334455667788ull);
    raddr->rkey = htobe32(0x99aabbcc);
    raddr->reserved = 0;
    mlx5dv_set_data_seg(reinterpret_cast<mlx5_wqe_data_seg *>(raddr + 1), 0x54321, 0xdeadbeef,
                        0xcafebabe12345678ull);
    // The helper was told 4 units where this element has 3.
    ctrl->qpn_ds = htobe32(0x123456 << 8 | 3);
    EXPECT_EQ(theirs.words, mine.words);
}

TEST(Wqe, BlockCounts)
{
    EXPECT_EQ(1u, dt_wqe_blocks(DT_WQE_WRITE, 0));
    EXPECT_EQ(1u, dt_wqe_blocks(DT_WQE_WRITE, 2));
    EXPECT_EQ(2u, dt_wqe_blocks(DT_WQE_WRITE, 3));
    EXPECT_EQ(1u, dt_wqe_blocks(DT_WQE_SEND, 3));
    EXPECT_EQ(2u, dt_wqe_blocks(DT_WQE_SEND, 4));
    EXPECT_EQ(1u, dt_wqe_blocks(DT_WQE_NOP, 0));
    EXPECT_EQ(1u, dt_wqe_blocks_inline(DT_WQE_SEND, 0));
    EXPECT_EQ(1u, dt_wqe_blocks_inline(DT_WQE_SEND, 44));
    EXPECT_EQ(2u, dt_wqe_blocks_inline(DT_WQE_SEND, 45));
    EXPECT_EQ(1u, dt_wqe_blocks_inline(DT_WQE_WRITE, 28));
    EXPECT_EQ(2u, dt_wqe_blocks_inline(DT_WQE_WRITE, 29));
}

// Every opcode, number of segments and position in a ring of 8 blocks, around the index's own wrap.
TEST(Wqe, EncodedElementsAreWalked)
{
    for (uint32_t start = 65536 - 9; start < 65536 + 9; start++) {
        for (uint8_t opcode : {DT_WQE_WRITE, DT_WQE_WRITE_IMM, DT_WQE_SEND, DT_WQE_SEND_IMM, DT_WQE_READ}) {
            for (uint32_t count = 0; count <= 20; count++) {
                Memory memory(8);
                uint16_t index = static_cast<uint16_t>(start);
                dt_wqe_header header = {0x112233, opcode, DT_WQE_SIGNALED | DT_WQE_FENCE, 99, 0xabcd, 5};
                std::vector<dt_wqe_sge> sges;
                uint64_t bytes = 0;
                for (uint32_t i = 0; i < count; i++) {
                    sges.push_back({1000 + i, i % 3 ? i * 10 : 0, i + 7});
                    bytes += sges.back().bytes;
                }
                uint32_t blocks = dt_wqe_encode(&memory.ring, index, &header, sges.data(), count);
                dt_wqe wqe;
                dt_wqe_decode(&memory.ring, index, &wqe);
                ASSERT_FALSE(wqe.is_malformed);
                ASSERT_FALSE(wqe.is_inline);
                ASSERT_EQ(blocks, wqe.blocks);
                ASSERT_EQ(opcode, wqe.opcode);
                ASSERT_EQ(index, wqe.index);
                ASSERT_EQ(0x112233u, wqe.qpn);
                ASSERT_EQ(DT_WQE_SIGNALED | DT_WQE_FENCE, wqe.flags);
                ASSERT_EQ(99u, wqe.imm);
                ASSERT_EQ(bytes, wqe.payload_bytes);
                if (dt_wqe_has_remote(opcode)) {
                    ASSERT_EQ(0xabcdu, wqe.remote_addr);
                    ASSERT_EQ(5u, wqe.rkey);
                }
                uint32_t n = 0;
                dt_wqe_sge out;
                for (const dt_wqe_sge &sge : sges) {
                    if (!sge.bytes)
                        continue;
                    ASSERT_TRUE(dt_wqe_segment(&memory.ring, index, &wqe, n++, &out));
                    ASSERT_EQ(sge.addr, out.addr);
                    ASSERT_EQ(sge.bytes, out.bytes);
                    ASSERT_EQ(sge.lkey, out.lkey);
                }
                ASSERT_FALSE(dt_wqe_segment(&memory.ring, index, &wqe, n, &out));
            }
        }
    }
}

TEST(Wqe, InlinePayloadComesBackFromEveryPlaceInTheRing)
{
    std::vector<uint8_t> payload(928);
    for (size_t i = 0; i < payload.size(); i++)
        payload[i] = static_cast<uint8_t>(i * 31 + 7);
    for (uint32_t start = 65536 - 16; start < 65536 + 2; start++) {
        for (uint32_t bytes : {1u, 4u, 12u, 13u, 28u, 29u, 64u, 100u, 500u, 900u}) {
            Memory memory(16);
            uint16_t index = static_cast<uint16_t>(start);
            dt_wqe_header header = {1, DT_WQE_WRITE, 0, 0, 0xabcd, 5};
            uint32_t half = bytes / 2;
            dt_wqe_sge sges[3] = {{reinterpret_cast<uintptr_t>(payload.data()), half, 0},
                                  {0, 0, 0},
                                  {reinterpret_cast<uintptr_t>(payload.data() + half), bytes - half, 0}};
            uint32_t blocks = dt_wqe_encode_inline(&memory.ring, index, &header, sges, 3);
            ASSERT_EQ(dt_wqe_blocks_inline(DT_WQE_WRITE, bytes), blocks);
            dt_wqe wqe;
            dt_wqe_decode(&memory.ring, index, &wqe);
            ASSERT_FALSE(wqe.is_malformed);
            ASSERT_TRUE(wqe.is_inline);
            ASSERT_EQ(bytes, wqe.payload_bytes);
            for (uint32_t offset : {0u, bytes / 3, bytes - 1}) {
                iovec iov[2];
                uint32_t n = dt_wqe_inline_iov(&memory.ring, index, &wqe, offset, bytes - offset, iov);
                std::vector<uint8_t> back;
                for (uint32_t i = 0; i < n; i++)
                    back.insert(back.end(), static_cast<uint8_t *>(iov[i].iov_base),
                                static_cast<uint8_t *>(iov[i].iov_base) + iov[i].iov_len);
                ASSERT_EQ(std::vector<uint8_t>(payload.begin() + offset, payload.begin() + bytes), back);
            }
        }
    }
}

TEST(Wqe, ByteCountZeroMeansTwoGibibytes)
{
    Memory memory(1);
    dt_wqe_header header = {1, DT_WQE_SEND, 0, 0, 0, 0};
    dt_wqe_sge sge = {16, 1, 2}, out;
    dt_wqe_encode(&memory.ring, 0, &header, &sge, 1);
    reinterpret_cast<dt_wqe_data *>(memory.ring.buffer + 16)->byte_count = 0;
    dt_wqe wqe;
    dt_wqe_decode(&memory.ring, 0, &wqe);
    EXPECT_FALSE(wqe.is_malformed);
    EXPECT_EQ(1ull << 31, wqe.payload_bytes);
    ASSERT_TRUE(dt_wqe_segment(&memory.ring, 0, &wqe, 0, &out));
    EXPECT_EQ(1u << 31, out.bytes);
}

TEST(Wqe, MalformedElementsAreDetected)
{
    struct Case {
        uint32_t word0, word1;
        uint32_t byte_count; // of the segment in unit 1, if any
        bool is_malformed;
    };
    const Case cases[] = {
        {DT_WQE_SEND, 1, 0, false},               // an empty SEND
        {DT_WQE_SEND, 0, 0, true},                // no units at all
        {DT_WQE_WRITE, 1, 0, true},               // a WRITE without its address
        {0x05, 2, 1, true},                       // an unknown opcode
        {DT_WQE_SEND, 64 | 2, 1, true},           // length has 6 bits
        {DT_WQE_SEND, 9, 1, true},                // longer than a ring of 2 blocks
        {DT_WQE_SEND, 2, 0x80000000 | 12, false}, // inline
        {DT_WQE_SEND, 2, 0x80000000 | 13, true},  // inline, longer than the element
        {DT_WQE_SEND, 4, 0x80000000 | 12, true},  // inline, with units behind it
        {DT_WQE_NOP, 1, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Memory memory(2);
        auto *words = reinterpret_cast<uint32_t *>(memory.ring.buffer);
        words[0] = htobe32(cases[i].word0);
        words[1] = htobe32(cases[i].word1);
        words[4] = htobe32(cases[i].byte_count);
        dt_wqe wqe;
        dt_wqe_decode(&memory.ring, 0, &wqe);
        EXPECT_EQ(cases[i].is_malformed, wqe.is_malformed) << "case " << i;
        EXPECT_GE(wqe.blocks, 1) << "case " << i;
    }
}

// Under the address sanitizer a read outside the ring would be seen.
TEST(Wqe, GarbageIsWalkedWithinTheRing)
{
    dt_prng prng;
    dt_prng_init(&prng, 2024);
    for (int round = 0; round < 20000; round++) {
        Memory memory(1u << dt_prng_below(&prng, 5));
        for (uint64_t &word : memory.words)
            word = dt_prng_next(&prng);
        uint16_t index = static_cast<uint16_t>(dt_prng_next(&prng));
        const uint8_t opcodes[] = {0, 8, 9, 10, 11, 16};
        memory.ring.buffer[(index % memory.ring.blocks) * 64 + 3] = opcodes[dt_prng_below(&prng, 6)];
        memory.ring.buffer[(index % memory.ring.blocks) * 64 + 7] &= 63;
        dt_wqe wqe;
        dt_wqe_decode(&memory.ring, index, &wqe);
        ASSERT_GE(wqe.blocks, 1);
        if (wqe.is_malformed)
            continue;
        dt_wqe_sge sge;
        iovec iov[2];
        if (wqe.is_inline) {
            uint32_t n = dt_wqe_inline_iov(&memory.ring, index, &wqe, 0, wqe.payload_bytes, iov);
            uint64_t sum = 0;
            for (uint32_t i = 0; i < n; i++) {
                auto *at = static_cast<uint8_t *>(iov[i].iov_base);
                ASSERT_GE(at, memory.ring.buffer);
                ASSERT_LE(at + iov[i].iov_len, memory.ring.buffer + memory.ring.blocks * 64);
                sum += iov[i].iov_len;
            }
            ASSERT_EQ(wqe.payload_bytes, sum);
            continue;
        }
        for (uint32_t n = 0; dt_wqe_segment(&memory.ring, index, &wqe, n, &sge); n++)
            ASSERT_LT(n, 63u);
    }
}
} // namespace
