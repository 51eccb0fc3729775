// SPDX-License-Identifier: Apache-2.0
// Random walks: two queue pairs do random work to each other over wires that lose, repeat, delay and hold
// back, packet by packet or in ranges that faults split, and every byte and completion is compared with a
// model.
#include <algorithm>
#include <deque>

#include "base/prng.h"
#include "tests/softrnic/engine_fixture.h"

#ifndef WALK_FIRST_SEED
#define WALK_FIRST_SEED 1
#define WALK_SEEDS      20000
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#undef WALK_SEEDS // many times slower there
#define WALK_SEEDS 1000
#endif

using namespace softrnic_test;

namespace
{
// Each end's buffer.
constexpr uint32_t kSource = 0;          // never changes: what is sent, and what the peer reads
constexpr uint32_t kTarget = 32 << 10;   // where the peer writes
constexpr uint32_t kFetched = 64 << 10;  // where own READs land
constexpr uint32_t kReceived = 96 << 10; // slots of receives
constexpr uint32_t kBufferBytes = 112 << 10;
constexpr uint32_t kRegion = 32 << 10;
constexpr uint32_t kSlots = 8, kSlotBytes = 2048;

struct Op {
    uint8_t opcode;
    uint32_t from, to, bytes, imm;
    bool is_signaled;
    uint16_t index;
};

// One end's work and what must come of it.
struct Side {
    End *end = nullptr;
    std::vector<Op> ops;          // posted, in order
    size_t signaled_next = 0;     // first operation whose completion was not seen
    std::vector<uint8_t> target;  // model: what the peer's WRITEs make of kTarget
    std::vector<uint8_t> fetched; // model of kFetched
    std::deque<Op> expected;      // the peer's messages that take a receive and were not received yet
    uint64_t recvs_posted = 0, recvs_done = 0;
    uint64_t bytes_to_land = 0; // of all SENDs and WRITEs from the peer
    bool has_failed = false;
};

class Walk
{
  public:
    explicit Walk(uint64_t seed)
    {
        dt_prng_init(&prng, seed);
        Build(seed);
    }
    ~Walk()
    {
        for (Side &side : sides)
            delete side.end;
        delete ha;
        delete hb;
        dt_sim_destroy(sim);
    }

    void Run()
    {
        uint64_t ops = Between(1, 40);
        for (uint64_t i = 0; i < ops; i++) {
            Side &side = sides[Below(2)];
            PostOp(side, side.end == sides[0].end ? sides[1] : sides[0]);
            for (uint64_t n = Below(30); n; n--)
                dt_sim_step(sim);
            MaybePostRecvs();
            PollAll();
            if (::testing::Test::HasFatalFailure())
                return;
        }
        Finish();
    }

  private:
    dt_prng prng;
    dt_sim *sim = nullptr;
    Host *ha = nullptr, *hb = nullptr;
    Side sides[2];
    bool is_lossy = false;

    uint64_t Below(uint64_t bound)
    {
        return dt_prng_below(&prng, bound);
    }
    uint64_t Between(uint64_t low, uint64_t high)
    {
        return dt_prng_between(&prng, low, high);
    }
    bool Chance(uint64_t n, uint64_t of)
    {
        return dt_prng_chance(&prng, n, of);
    }

    void Build(uint64_t seed)
    {
        dt_sim_options options = {};
        Attributes attributes;
        const uint64_t segments[] = {0, 0, 4096, 8192, 65536};
        const uint32_t losses[] = {0, 1000, 10000, 30000, 250000};
        options.seed = seed;
        options.latency_ns = Between(0, 20000);
        options.jitter_ns = Chance(1, 2) ? Below(20000) : 0;
        options.loss_ppm = losses[Below(10) ? Below(4) : 4];
        options.duplicate_ppm = Chance(1, 2) ? static_cast<uint32_t>(Below(50000)) : 0;
        options.reorder_ppm = Chance(1, 2) ? static_cast<uint32_t>(Below(50000)) : 0;
        options.reorder_ns = Below(2000000);
        options.segment_bytes_max = segments[Below(5)];
        options.link_packets_max = Chance(1, 3) ? static_cast<uint32_t>(Between(1, 5)) : 0;
        is_lossy = options.loss_ppm || options.duplicate_ppm || options.reorder_ppm;
        attributes.mtu = ibv_mtu(Between(IBV_MTU_256, IBV_MTU_1024));
        attributes.psn = Chance(1, 2) ? static_cast<uint32_t>(0xffffff - Below(100))
                                      : static_cast<uint32_t>(Below(1 << 24));
        attributes.timeout = static_cast<uint8_t>(Between(6, 9));
        attributes.retry_cnt = 7;
        attributes.min_rnr_timer = static_cast<uint8_t>(Between(1, 8));
        attributes.max_rd_atomic = static_cast<uint8_t>(Between(1, 4));
        attributes.sq_blocks = 1024;
        attributes.rq_entries = kSlots;
        attributes.buffer_bytes = kBufferBytes;
        sim = dt_sim_create(&options);
        ha = new Host(sim, 1, Chance(1, 4) ? 100000000 : 0);
        hb = new Host(sim, 2);
        sides[0].end = new End(ha, attributes);
        sides[1].end = new End(hb, attributes);
        sides[0].end->ConnectTo(*sides[1].end);
        sides[1].end->ConnectTo(*sides[0].end);
        for (int i = 0; i < 2; i++) {
            sides[i].end->Fill(kSource, kRegion, static_cast<uint32_t>(seed * 2 + static_cast<uint64_t>(i)));
            sides[i].target.assign(kRegion, 0);
            sides[i].fetched.assign(kRegion, 0);
        }
    }

    // Cuts [from, from + bytes) into up to four pieces, some of them empty.
    std::vector<dt_wqe_sge> Pieces(const End &end, uint32_t from, uint32_t bytes)
    {
        std::vector<dt_wqe_sge> sges;
        while (sges.size() < 3 && bytes && Chance(1, 3)) {
            uint32_t piece = static_cast<uint32_t>(Below(bytes + 1));
            sges.push_back(end.Sge(from, piece));
            from += piece;
            bytes -= piece;
        }
        sges.push_back(end.Sge(from, bytes));
        return sges;
    }

    void PostOp(Side &side, Side &peer)
    {
        const uint8_t opcodes[] = {DT_WQE_WRITE, DT_WQE_WRITE_IMM, DT_WQE_SEND, DT_WQE_SEND_IMM, DT_WQE_READ};
        Op op = {};
        op.opcode = opcodes[Below(5)];
        bool is_send = op.opcode == DT_WQE_SEND || op.opcode == DT_WQE_SEND_IMM;
        bool is_inline = op.opcode != DT_WQE_READ && Chance(1, 4);
        uint64_t bytes_max = is_inline ? 300 : is_send ? kSlotBytes : Chance(1, 4) ? 24000 : 3000;
        op.bytes = Chance(1, 8) ? 0 : static_cast<uint32_t>(Between(1, bytes_max));
        op.from = static_cast<uint32_t>(Below(kRegion - op.bytes));
        op.to = static_cast<uint32_t>(Below(kRegion - op.bytes));
        op.imm = static_cast<uint32_t>(dt_prng_next(&prng));
        op.is_signaled = Chance(2, 3);
        uint8_t flags =
            static_cast<uint8_t>((op.is_signaled ? DT_WQE_SIGNALED : 0) | (Chance(1, 8) ? DT_WQE_FENCE : 0));
        uint64_t remote = op.opcode == DT_WQE_READ ? kSource + op.from : kTarget + op.to;
        uint32_t local = op.opcode == DT_WQE_READ ? kFetched + op.to : kSource + op.from;
        op.index = side.end->Put(side.end->Header(op.opcode, flags, peer.end, remote, op.imm),
                                 Pieces(*side.end, local, op.bytes), is_inline);
        if (Chance(3, 4))
            side.end->Ring();
        side.ops.push_back(op);
        Predict(side, peer, op);
    }

    static void Predict(Side &side, Side &peer, const Op &op)
    {
        if (op.opcode == DT_WQE_READ) {
            memcpy(&side.fetched[op.to], &peer.end->buffer[kSource + op.from], op.bytes);
            return;
        }
        peer.bytes_to_land += op.bytes;
        if (op.opcode == DT_WQE_WRITE || op.opcode == DT_WQE_WRITE_IMM)
            memcpy(&peer.target[op.to], &side.end->buffer[kSource + op.from], op.bytes);
        if (op.opcode != DT_WQE_WRITE)
            peer.expected.push_back(op);
    }

    void PostRecv(Side &side)
    {
        uint64_t id = side.recvs_posted++;
        ASSERT_EQ(0, side.end->Recv(id, kReceived + id % kSlots * kSlotBytes, kSlotBytes));
    }
    void MaybePostRecvs()
    {
        for (Side &side : sides)
            while (side.recvs_posted - side.recvs_done < kSlots && Chance(1, 2))
                PostRecv(side);
    }

    // Completions come in order: each signaled operation once, and after the first failure every other too.
    void PollSends(Side &side)
    {
        for (const dt_cqe &cqe : side.end->PollSend()) {
            while (cqe.status == IBV_WC_SUCCESS && side.signaled_next < side.ops.size() &&
                   !side.ops[side.signaled_next].is_signaled)
                side.signaled_next++;
            if (cqe.status != IBV_WC_SUCCESS && !side.has_failed) {
                // Unsignaled ones before the failing one were done in silence.
                while (side.signaled_next < side.ops.size() &&
                       side.ops[side.signaled_next].index != cqe.wqe_counter) {
                    ASSERT_FALSE(side.ops[side.signaled_next].is_signaled);
                    side.signaled_next++;
                }
                side.has_failed = true;
                ASSERT_EQ(IBV_WC_RETRY_EXC_ERR, cqe.status); // the only failure that loss can bring about
            }
            ASSERT_LT(side.signaled_next, side.ops.size());
            ASSERT_EQ(side.ops[side.signaled_next].index, cqe.wqe_counter);
            ASSERT_EQ(side.has_failed, cqe.status != IBV_WC_SUCCESS);
            if (cqe.op == DT_CQE_READ && cqe.status == IBV_WC_SUCCESS) {
                ASSERT_EQ(side.ops[side.signaled_next].bytes, cqe.byte_len);
            }
            side.signaled_next++;
        }
    }

    void CheckReceived(Side &side, const Side &peer, const dt_cqe &cqe)
    {
        ASSERT_FALSE(side.expected.empty());
        Op op = side.expected.front();
        side.expected.pop_front();
        ASSERT_EQ(side.recvs_done, cqe.wr_id);
        ASSERT_EQ(op.bytes, cqe.byte_len);
        ASSERT_EQ(op.opcode == DT_WQE_WRITE_IMM ? DT_CQE_RECV_WRITE_IMM : DT_CQE_RECV, cqe.op);
        ASSERT_EQ(op.opcode != DT_WQE_SEND, bool(cqe.flags & DT_CQE_HAS_IMM));
        if (op.opcode != DT_WQE_SEND) {
            ASSERT_EQ(htonl(op.imm), cqe.imm);
        }
        if (op.opcode != DT_WQE_WRITE_IMM) {
            ASSERT_EQ(0, memcmp(&side.end->buffer[kReceived + cqe.wr_id % kSlots * kSlotBytes],
                                &peer.end->buffer[kSource + op.from], op.bytes));
        }
    }
    void PollRecvs(Side &side, const Side &peer)
    {
        for (const dt_cqe &cqe : side.end->PollRecv()) {
            if (cqe.status == IBV_WC_SUCCESS)
                CheckReceived(side, peer, cqe);
            side.recvs_done++;
            if (::testing::Test::HasFatalFailure())
                return;
        }
    }
    void PollAll()
    {
        PollSends(sides[0]);
        PollSends(sides[1]);
        PollRecvs(sides[0], sides[1]);
        PollRecvs(sides[1], sides[0]);
    }

    // Everything is rung and every receive posted; then either all is done, or an end gave up, which only
    // faults can bring about.
    void Finish()
    {
        int rounds = 0;
        for (Side &side : sides)
            side.end->Ring();
        do {
            for (Side &side : sides) {
                while (side.end->State() == IBV_QPS_RTS && side.recvs_posted - side.recvs_done < kSlots)
                    PostRecv(side);
            }
            ASSERT_LT(rounds++, 5000000) << "does not come to rest";
            PollAll();
            if (::testing::Test::HasFatalFailure())
                return;
        } while (dt_sim_step(sim));
        PollAll();
        if (sides[0].has_failed || sides[1].has_failed) {
            EXPECT_TRUE(is_lossy);
            CheckGaveUp();
            return;
        }
        for (const Side &side : sides)
            CheckDone(side);
    }

    static void CheckDone(const Side &side)
    {
        size_t left = side.signaled_next;
        while (left < side.ops.size() && !side.ops[left].is_signaled)
            left++;
        EXPECT_EQ(side.ops.size(), left);
        EXPECT_TRUE(side.expected.empty());
        EXPECT_EQ(0, memcmp(side.target.data(), &side.end->buffer[kTarget], kRegion));
        EXPECT_EQ(0, memcmp(side.fetched.data(), &side.end->buffer[kFetched], kRegion));
        EXPECT_EQ(side.bytes_to_land,
                  side.end->host->Counters().payload_bytes_landed); // each byte exactly once
        EXPECT_EQ(IBV_QPS_RTS, side.end->State());
        EXPECT_TRUE(side.end->host->events.empty());
    }
    // Who gave up flushed everything it had; nothing was delivered twice or out of order before.
    void CheckGaveUp()
    {
        for (const Side &side : sides) {
            if (side.has_failed) {
                EXPECT_EQ(side.ops.size(), side.signaled_next);
                EXPECT_EQ(IBV_QPS_ERR, side.end->State());
            }
            EXPECT_LE(side.end->host->Counters().payload_bytes_landed, side.bytes_to_land);
            EXPECT_TRUE(side.end->host->events.empty());
        }
        gave_up++;
    }

  public:
    static int gave_up;
};

int Walk::gave_up;

TEST(EngineWalk, EverySeedEndsAsTheModelPredicts)
{
    for (uint64_t seed = WALK_FIRST_SEED; seed < WALK_FIRST_SEED + WALK_SEEDS; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Walk(seed).Run();
        if (HasFailure())
            return;
    }
    printf("%d of %d walks ended with a queue pair that gave up\n", Walk::gave_up, WALK_SEEDS);
    EXPECT_GT(Walk::gave_up, 0);
    EXPECT_LT(Walk::gave_up, WALK_SEEDS / 20);
}

// A fence holds at every moment of a walk: nothing lands after the receiver's move to ERR has returned.
TEST(EngineWalk, NoByteChangesAfterAFence)
{
    for (uint64_t seed = 1; seed <= 500; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        dt_prng prng;
        dt_prng_init(&prng, seed);
        dt_sim_options options = {};
        options.seed = seed;
        options.latency_ns = 1000;
        options.loss_ppm = 20000;
        options.duplicate_ppm = 20000;
        options.reorder_ppm = 50000;
        options.reorder_ns = 3000000;
        options.segment_bytes_max = dt_prng_chance(&prng, 1, 2) ? 16384 : 0;
        dt_sim *sim = dt_sim_create(&options);
        {
            Attributes attributes;
            attributes.timeout = 6;
            attributes.buffer_bytes = 1 << 17;
            Host ha(sim, 1, 100000000), hb(sim, 2);
            End a(&ha, attributes), b(&hb, attributes);
            a.ConnectTo(b);
            b.ConnectTo(a);
            for (uint64_t i = 0; i < 8; i++)
                b.Recv(i, 1 << 16, 1 << 16);
            a.Fill(0, 1 << 16, 1);
            for (int i = 0; i < 4; i++) {
                a.WriteImm(b, 0, 0, 40000, 0);
                a.Send(0, 40000);
            }
            for (uint64_t n = dt_prng_below(&prng, 200); n; n--)
                dt_sim_step(sim);
            bool is_reset = dt_prng_chance(&prng, 1, 2);
            ASSERT_EQ(0, b.MoveTo(is_reset ? IBV_QPS_RESET : IBV_QPS_ERR));
            std::vector<uint8_t> then = b.buffer;
            size_t received = b.PollRecv().size();
            EXPECT_TRUE(is_reset || received == 8);
            while (dt_sim_step(sim)) {
            }
            EXPECT_EQ(then, b.buffer);
            EXPECT_TRUE(b.PollRecv().empty());
        }
        dt_sim_destroy(sim);
        if (HasFailure())
            return;
    }
}
} // namespace
