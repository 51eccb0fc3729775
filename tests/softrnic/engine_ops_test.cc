// SPDX-License-Identifier: Apache-2.0
// Every operation over a faultless simulated wire: bytes, completions, and their fields.
#include "tests/softrnic/engine_fixture.h"

using namespace softrnic_test;

namespace
{
class EngineOps : public Pair
{
  protected:
    void ExpectSame(uint64_t from, uint64_t to, uint64_t bytes)
    {
        EXPECT_EQ(0, memcmp(&a->buffer[from], &b->buffer[to], bytes));
    }
};

TEST_F(EngineOps, WriteLandsAndCompletesAtTheSenderOnly)
{
    a->Fill(0, 5000, 1);
    uint16_t index = a->Write(*b, 0, 100, 5000);
    Run();
    ExpectSame(0, 100, 5000);
    EXPECT_EQ(0, b->buffer[99]);
    EXPECT_EQ(0, b->buffer[5100]);
    std::vector<dt_cqe> cqes = a->PollSend();
    ASSERT_EQ(1u, cqes.size());
    EXPECT_TRUE(IsSuccess(cqes[0]));
    EXPECT_EQ(DT_CQE_WRITE, cqes[0].op);
    EXPECT_EQ(index, cqes[0].wqe_counter);
    EXPECT_EQ(a->Number(), cqes[0].qpn);
    EXPECT_EQ(a, cqes[0].qp_context);
    EXPECT_EQ(0, cqes[0].flags);
    EXPECT_TRUE(b->PollRecv().empty());
    EXPECT_TRUE(b->PollSend().empty());
}

TEST_F(EngineOps, WriteWithImmediateTakesAReceive)
{
    a->Fill(0, 3000, 2);
    ASSERT_EQ(0, b->Recv(77));
    a->WriteImm(*b, 0, 0, 3000, 0x12345678);
    Run();
    ExpectSame(0, 0, 3000);
    std::vector<dt_cqe> cqes = b->PollRecv();
    ASSERT_EQ(1u, cqes.size());
    EXPECT_TRUE(IsSuccess(cqes[0]));
    EXPECT_EQ(DT_CQE_RECV_WRITE_IMM, cqes[0].op);
    EXPECT_EQ(77u, cqes[0].wr_id);
    EXPECT_EQ(3000u, cqes[0].byte_len);
    EXPECT_EQ(htonl(0x12345678), cqes[0].imm);
    EXPECT_EQ(DT_CQE_HAS_IMM | DT_CQE_IS_RECV, cqes[0].flags);
    EXPECT_EQ(b->Number(), cqes[0].qpn);
    EXPECT_EQ(b, cqes[0].qp_context);
    ASSERT_EQ(1u, a->PollSend().size());
}

TEST_F(EngineOps, EmptyMessagesTakeOnePsnEach)
{
    ASSERT_EQ(0, b->Recv(1));
    ASSERT_EQ(0, b->Recv(2));
    a->WriteImm(*b, 0, 0, 0, 5);
    a->Send(0, 0);
    a->Write(*b, 0, 0, 0);
    a->Read(*b, 0, 0, 0);
    Run();
    EXPECT_EQ(4u, a->PollSend().size());
    std::vector<dt_cqe> cqes = b->PollRecv();
    ASSERT_EQ(2u, cqes.size());
    EXPECT_EQ(0u, cqes[0].byte_len);
    EXPECT_EQ(DT_CQE_RECV, cqes[1].op);
    ibv_qp_attr attr;
    dt_rnic_qp_query(a->qp, &attr);
    EXPECT_EQ(4u, attr.sq_psn);
    dt_rnic_qp_query(b->qp, &attr);
    EXPECT_EQ(4u, attr.rq_psn);
}

TEST_F(EngineOps, SendGathersAndScatters)
{
    a->Fill(0, 4000, 3);
    ibv_sge to[3] = {{b->Addr(0), 1000, b->key}, {b->Addr(2000), 7, b->key}, {b->Addr(5000), 4000, b->key}};
    bool must_kick;
    ASSERT_EQ(0, dt_rnic_qp_post_recv(b->qp, 9, to, 3, &must_kick));
    EXPECT_FALSE(must_kick);
    a->Put(a->Header(DT_WQE_SEND_IMM, DT_WQE_SIGNALED | DT_WQE_SOLICITED, nullptr, 0, 42),
           {a->Sge(0, 10), a->Sge(10, 0), a->Sge(10, 1990), a->Sge(2000, 2000)});
    a->Ring();
    Run();
    ExpectSame(0, 0, 1000);
    ExpectSame(1000, 2000, 7);
    ExpectSame(1007, 5000, 2993);
    std::vector<dt_cqe> cqes = b->PollRecv();
    ASSERT_EQ(1u, cqes.size());
    EXPECT_EQ(9u, cqes[0].wr_id);
    EXPECT_EQ(4000u, cqes[0].byte_len);
    EXPECT_EQ(htonl(42), cqes[0].imm);
    EXPECT_EQ(DT_CQE_HAS_IMM | DT_CQE_IS_RECV | DT_CQE_SOLICITED, cqes[0].flags);
}

TEST_F(EngineOps, ReadFetchesIntoAScatterList)
{
    b->Fill(100, 9000, 4);
    a->Put(a->Header(DT_WQE_READ, DT_WQE_SIGNALED, b, 100),
           {a->Sge(0, 1), a->Sge(10, 5000), a->Sge(6000, 3999)});
    a->Ring();
    Run();
    EXPECT_EQ(b->buffer[100], a->buffer[0]);
    EXPECT_EQ(0, memcmp(&b->buffer[101], &a->buffer[10], 5000));
    EXPECT_EQ(0, memcmp(&b->buffer[5101], &a->buffer[6000], 3999));
    std::vector<dt_cqe> cqes = a->PollSend();
    ASSERT_EQ(1u, cqes.size());
    EXPECT_TRUE(IsSuccess(cqes[0]));
    EXPECT_EQ(DT_CQE_READ, cqes[0].op);
    EXPECT_EQ(9000u, cqes[0].byte_len);
}

TEST_F(EngineOps, InlineDataNeedsNoKeyAndMayWrap)
{
    std::vector<uint8_t> text(300);
    for (size_t i = 0; i < text.size(); i++)
        text[i] = static_cast<uint8_t>(i * 7 + 1);
    // Six blocks each: some of them run over the end of the 256-block ring.
    for (int i = 0; i < 100; i++) {
        ASSERT_EQ(0, b->Recv(static_cast<uint64_t>(i), static_cast<uint64_t>(i) * 300, 300));
        text[0] = static_cast<uint8_t>(i);
        a->Put(a->Header(DT_WQE_SEND, DT_WQE_SIGNALED), {{reinterpret_cast<uintptr_t>(text.data()), 300, 0}},
               true);
        a->Ring();
        Run();
        ASSERT_EQ(0, memcmp(text.data(), &b->buffer[static_cast<size_t>(i) * 300], 300)) << i;
        ASSERT_EQ(1u, a->PollSend().size());
    }
}

TEST_F(EngineOps, NopCompletesInOrder)
{
    a->Put(a->Header(DT_WQE_NOP, DT_WQE_SIGNALED), {});
    a->Ring();
    ASSERT_EQ(1u, a->PollSend().size());
    a->Write(*b, 0, 0, 100);
    a->Put(a->Header(DT_WQE_NOP, DT_WQE_SIGNALED), {});
    a->Ring();
    EXPECT_TRUE(a->PollSend().empty());
    Run();
    std::vector<dt_cqe> cqes = a->PollSend();
    ASSERT_EQ(2u, cqes.size());
    EXPECT_EQ(DT_CQE_WRITE, cqes[0].op);
    EXPECT_EQ(DT_CQE_NOP, cqes[1].op);
}

TEST_F(EngineOps, UnsignaledWorkCompletesInSilence)
{
    a->Write(*b, 0, 0, 100, 0);
    a->Write(*b, 0, 0, 100, 0);
    uint16_t index = a->Write(*b, 0, 0, 100);
    Run();
    std::vector<dt_cqe> cqes = a->PollSend();
    ASSERT_EQ(1u, cqes.size());
    EXPECT_EQ(index, cqes[0].wqe_counter);
}

TEST_F(EngineOps, AFenceWaitsForReadsBeforeIt)
{
    b->Fill(0, 8, 9);
    uint8_t old = b->buffer[0];
    a->Put(a->Header(DT_WQE_READ, DT_WQE_SIGNALED, b, 0), {a->Sge(0, 8)});
    // Sends what the READ brings; without the fence it would be sent before that has come.
    a->Put(a->Header(DT_WQE_WRITE, DT_WQE_SIGNALED | DT_WQE_FENCE, b, 500), {a->Sge(0, 8)});
    a->Ring();
    Run();
    EXPECT_EQ(2u, a->PollSend().size());
    EXPECT_EQ(old, b->buffer[500]);

    a->buffer[0] = 0;
    a->Put(a->Header(DT_WQE_READ, DT_WQE_SIGNALED, b, 0), {a->Sge(0, 8)});
    a->Put(a->Header(DT_WQE_WRITE, DT_WQE_SIGNALED, b, 600), {a->Sge(0, 8)});
    a->Ring();
    Run();
    EXPECT_EQ(0, b->buffer[600]);
}

TEST_F(EngineOps, NoMoreReadsAtOnceThanAgreed)
{
    Attributes attributes;
    attributes.max_rd_atomic = 2;
    Build(Quiet(), attributes);
    for (int i = 0; i < 7; i++)
        a->Put(a->Header(DT_WQE_READ, DT_WQE_SIGNALED, b, 0), {a->Sge(0, 3000)});
    a->Ring();
    EXPECT_EQ(2u, ha->Counters().packets_sent);
    Run();
    EXPECT_EQ(7u, a->PollSend().size());
    EXPECT_EQ(IBV_QPS_RTS, b->State());
}

TEST_F(EngineOps, LoopbackToTheSameQueuePairsRnic)
{
    End c(ha, Attributes()), d(ha, Attributes());
    c.ConnectTo(d);
    d.ConnectTo(c);
    c.Fill(0, 70000, 5);
    c.Write(d, 0, 0, 70000);
    Run();
    EXPECT_EQ(1u, c.PollSend().size());
    EXPECT_EQ(c.buffer, d.buffer);
}

TEST_F(EngineOps, AQueuePairConnectedToItselfReads)
{
    End c(ha, Attributes());
    c.ConnectTo(c);
    c.Fill(0, 4000, 6);
    c.Read(c, 0, 10000, 4000);
    Run();
    EXPECT_EQ(1u, c.PollSend().size());
    EXPECT_EQ(0, memcmp(&c.buffer[0], &c.buffer[10000], 4000));
}

TEST_F(EngineOps, OneSegmentMayCarryAWholeRange)
{
    for (uint64_t segment : {uint64_t(0), uint64_t(4096), uint64_t(65536)}) {
        dt_sim_options options = Quiet();
        options.segment_bytes_max = segment;
        Build(options, Attributes());
        a->Fill(0, 200001, 7);
        b->Fill(300000, 150000, 8);
        ASSERT_EQ(0, b->Recv(1));
        a->WriteImm(*b, 0, 0, 200001, 1);
        a->Read(*b, 300000, 400000, 150000);
        Run();
        EXPECT_EQ(2u, a->PollSend().size());
        ASSERT_EQ(1u, b->PollRecv().size());
        ExpectSame(0, 0, 200001);
        ExpectSame(400000, 300000, 150000);
        uint64_t mtu = segment ? segment : 1024;
        ibv_qp_attr attr;
        dt_rnic_qp_query(b->qp, &attr);
        EXPECT_EQ(196u + 147u, attr.rq_psn);
        EXPECT_EQ((200001 + mtu - 1) / mtu + 1, ha->Counters().packets_sent);
    }
}

TEST_F(EngineOps, PsnsWrapAt24Bits)
{
    Attributes attributes;
    attributes.psn = 0xfffffa;
    Build(Quiet(), attributes);
    a->Fill(0, 20000, 7);
    a->Write(*b, 0, 0, 20000);
    a->Read(*b, 0, 30000, 20000);
    a->Write(*b, 0, 40000, 20000);
    Run();
    EXPECT_EQ(3u, a->PollSend().size());
    ExpectSame(0, 0, 20000);
    ExpectSame(0, 40000, 20000);
    EXPECT_EQ(0, memcmp(&a->buffer[0], &a->buffer[30000], 20000));
}

TEST_F(EngineOps, TheSendQueueIndexWrapsAt65536)
{
    Attributes attributes;
    attributes.sq_blocks = 64;
    Build(Quiet(), attributes);
    uint32_t completed = 0, posted = 0;
    for (int round = 0; round < 2200; round++) {
        for (int i = 0; i < 31; i++, posted++)
            a->Put(a->Header(DT_WQE_WRITE, i == 30 ? DT_WQE_SIGNALED : 0, b, 8u * posted % 4096),
                   {a->Sge(0, 4), a->Sge(4, 4), a->Sge(8, 0)}); // one block each
        a->Ring();
        Run();
        completed += static_cast<uint32_t>(a->PollSend().size());
    }
    EXPECT_EQ(2200u, completed);
    EXPECT_GT(posted, 65536u);
    EXPECT_EQ(IBV_QPS_RTS, a->State());
}

TEST_F(EngineOps, BothDirectionsAtOnce)
{
    a->Fill(0, 60000, 1);
    b->Fill(100000, 60000, 2);
    for (int i = 0; i < 10; i++) {
        a->Write(*b, 6000u * static_cast<unsigned>(i), 6000u * static_cast<unsigned>(i), 6000);
        b->Write(*a, 100000 + 6000u * static_cast<unsigned>(i), 100000 + 6000u * static_cast<unsigned>(i),
                 6000);
    }
    Run();
    EXPECT_EQ(10u, a->PollSend().size());
    EXPECT_EQ(10u, b->PollSend().size());
    ExpectSame(0, 0, 160000);
}

TEST_F(EngineOps, ALinkWithoutRoomHoldsTheSenderBack)
{
    dt_sim_options options = Quiet();
    options.link_packets_max = 3;
    Build(options, Attributes());
    a->Fill(0, 100000, 3);
    a->Write(*b, 0, 0, 100000);
    EXPECT_EQ(3u, ha->Counters().packets_sent);
    EXPECT_EQ(Quiet().latency_ns, dt_sim_next_ns(sim));
    Run();
    EXPECT_EQ(1u, a->PollSend().size());
    ExpectSame(0, 0, 100000);
    EXPECT_EQ(0u, ha->Counters().retransmissions);
}

TEST_F(EngineOps, ARateIsKept)
{
    // 100 MB/s: 1 MB takes 10 ms.
    dt_rnic_set_rate(ha->rnic, 100000000);
    a->Write(*b, 0, 0, 1000000);
    while (!dt_rnic_cq_has_some(a->send_cq))
        ASSERT_TRUE(dt_sim_step(sim));
    EXPECT_GE(dt_sim_now_ns(sim), 9700000u);
    EXPECT_LE(dt_sim_now_ns(sim), 10100000u);
    EXPECT_EQ(0u, ha->Counters().retransmissions);
}

TEST_F(EngineOps, SharedRateIsSharedFairly)
{
    End c(ha, Attributes()), d(hb, Attributes());
    c.ConnectTo(d);
    d.ConnectTo(c);
    dt_rnic_set_rate(ha->rnic, 100000000);
    a->Put(a->Header(DT_WQE_WRITE, DT_WQE_SIGNALED, b, 0), {a->Sge(0, 1000000)});
    a->Announce();
    c.Put(c.Header(DT_WQE_WRITE, DT_WQE_SIGNALED, &d, 0), {c.Sge(0, 1000000)});
    c.Announce();
    dt_rnic_doorbell(a->qp, 0);
    dt_rnic_doorbell(c.qp, 0);
    while (!dt_rnic_cq_has_some(a->send_cq))
        ASSERT_TRUE(dt_sim_step(sim));
    // Nearly done as well: the two took turns.
    uint64_t first_ns = dt_sim_now_ns(sim);
    while (!dt_rnic_cq_has_some(c.send_cq))
        ASSERT_TRUE(dt_sim_step(sim));
    EXPECT_GE(first_ns, 18000000u);
    EXPECT_LE(dt_sim_now_ns(sim), 20500000u);
}
} // namespace
