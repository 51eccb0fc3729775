// SPDX-License-Identifier: Apache-2.0
// Loss, retries, RNR and time: limits with exact virtual times, and the two scenarios measured on Linux'
// soft-RoCE (lost acknowledgements, a packet later than its sender's patience).
#include <cerrno>
#include <tuple>

#include "tests/softrnic/engine_fixture.h"

using namespace softrnic_test;

namespace
{
constexpr uint64_t kLatencyNs = 1000;

class EngineRetry : public Pair
{
  protected:
    void BuildWith(const Attributes &attributes)
    {
        Build(Quiet(), attributes);
    }
    dt_faults *FaultsA()
    {
        return dt_sim_faults(ha->port);
    }
    dt_faults *FaultsB()
    {
        return dt_sim_faults(hb->port);
    }
    static dt_fault_rule Drop(uint32_t ops, uint64_t skip, uint64_t count)
    {
        dt_fault_rule rule = {};
        rule.action = DT_FAULT_DROP;
        rule.ops = ops;
        rule.skip = skip;
        rule.count = count;
        return rule;
    }
    /* The acknowledgement of one PSN is lost, once. */
    uint32_t DropAckOfB(uint32_t psn)
    {
        dt_fault_rule rule = Drop(DT_FAULT_OP(DT_PACKET_ACK), 0, 1);
        rule.src_qpn = b->Number();
        rule.has_psn = true;
        rule.psn_first = rule.psn_last = psn;
        rule.syndrome = DT_SYNDROME_ACK;
        return dt_faults_add(FaultsB(), &rule);
    }
    void ExpectSame(uint64_t offset, uint64_t bytes)
    {
        EXPECT_EQ(0, memcmp(&a->buffer[offset], &b->buffer[offset], bytes));
    }
    void ExpectAllSucceeded(size_t count)
    {
        std::vector<dt_cqe> cqes = a->PollSend();
        EXPECT_EQ(count, cqes.size());
        for (const dt_cqe &cqe : cqes)
            EXPECT_TRUE(IsSuccess(cqe));
    }
};

// ---- the measured scenarios ----

struct Outcome {
    std::vector<std::tuple<int, int, int>> sender; // (index, status, vendor_err)
    size_t received;
    int landed;
    uint64_t at_ns;
    ibv_qp_state sender_state, peer_state;
};

class MeasuredLoss : public EngineRetry, public ::testing::WithParamInterface<std::tuple<int, int>>
{
  protected:
    // Four WRITE_WITH_IMM of 4 KiB, as on soft-RoCE, over a path that is cut in one direction.
    Outcome RunScenario(bool data_lost)
    {
        Attributes attributes;
        attributes.timeout = static_cast<uint8_t>(std::get<0>(GetParam()));
        attributes.retry_cnt = static_cast<uint8_t>(std::get<1>(GetParam()));
        BuildWith(attributes);
        if (data_lost)
            dt_sim_cut(ha->port, hb->port, true);
        else
            dt_sim_cut(hb->port, ha->port, true);
        for (uint64_t i = 0; i < 4; i++)
            EXPECT_EQ(0, b->Recv(100 + i));
        for (uint32_t i = 0; i < 4; i++) {
            a->Fill(i * 4096, 4096, i + 1);
            a->Put(a->Header(DT_WQE_WRITE_IMM, DT_WQE_SIGNALED, b, i * 4096, i), {a->Sge(i * 4096, 4096)});
        }
        a->Ring();
        while (!dt_rnic_cq_has_some(a->send_cq) && dt_sim_step(sim)) {
        }
        Outcome outcome = {};
        outcome.at_ns = dt_sim_now_ns(sim);
        Run();
        for (const dt_cqe &cqe : a->PollSend())
            outcome.sender.emplace_back(cqe.wqe_counter, cqe.status, cqe.vendor_err);
        for (const dt_cqe &cqe : b->PollRecv())
            outcome.received += cqe.status == IBV_WC_SUCCESS;
        for (uint32_t i = 0; i < 4; i++)
            outcome.landed += !memcmp(&a->buffer[i * 4096], &b->buffer[i * 4096], 4096);
        outcome.sender_state = a->State();
        outcome.peer_state = b->State();
        EXPECT_TRUE(hb->events.empty());
        return outcome;
    }
};

TEST_P(MeasuredLoss, TheSenderCannotTellLostAcksFromLostData)
{
    const std::vector<std::tuple<int, int, int>> failed = {
        {0, IBV_WC_RETRY_EXC_ERR, DT_VENDOR_ACK_TIMEOUT},
        {1, IBV_WC_WR_FLUSH_ERR, DT_VENDOR_FLUSHED},
        {2, IBV_WC_WR_FLUSH_ERR, DT_VENDOR_FLUSHED},
        {3, IBV_WC_WR_FLUSH_ERR, DT_VENDOR_FLUSHED},
    };
    uint64_t patience_ns = (static_cast<uint64_t>(std::get<1>(GetParam())) + 1) *
                           TimeoutNs(static_cast<unsigned>(std::get<0>(GetParam())));

    Outcome acks_lost = RunScenario(false);
    EXPECT_EQ(failed, acks_lost.sender);
    EXPECT_EQ(patience_ns, acks_lost.at_ns);
    EXPECT_EQ(4u, acks_lost.received); // once each, however often they were sent
    EXPECT_EQ(4, acks_lost.landed);
    EXPECT_EQ(IBV_QPS_ERR, acks_lost.sender_state);
    EXPECT_EQ(IBV_QPS_RTS, acks_lost.peer_state);

    Outcome data_lost = RunScenario(true);
    EXPECT_EQ(failed, data_lost.sender);
    EXPECT_EQ(patience_ns, data_lost.at_ns);
    EXPECT_EQ(0u, data_lost.received);
    EXPECT_EQ(0, data_lost.landed);
    EXPECT_EQ(IBV_QPS_ERR, data_lost.sender_state);
    EXPECT_EQ(IBV_QPS_RTS, data_lost.peer_state);
}

// The pairs that were measured, then the limits: no retry at all, and 7, which is finite here.
INSTANTIATE_TEST_SUITE_P(TimeoutAndRetries, MeasuredLoss,
                         ::testing::Values(std::make_tuple(14, 6), std::make_tuple(12, 6),
                                           std::make_tuple(14, 3), std::make_tuple(16, 6),
                                           std::make_tuple(14, 7), std::make_tuple(14, 0),
                                           std::make_tuple(1, 6), std::make_tuple(31, 7)));

class LatePacket : public EngineRetry, public ::testing::WithParamInterface<bool>
{
};

TEST_P(LatePacket, OverwritesAReusedSlotUnlessThePeerWasFenced)
{
    bool is_fenced = GetParam();
    Attributes attributes;
    attributes.retry_cnt = 2;
    BuildWith(attributes);
    memset(a->buffer.data(), 'w', 4096);
    a->Write(*b, 0, 0, 4096);
    Run();
    ExpectAllSucceeded(1);

    uint64_t start_ns = dt_sim_now_ns(sim);
    dt_sim_set_latency(ha->port, hb->port, 3000 * kMs, 0);
    memset(a->buffer.data(), 'X', 4096);
    a->Write(*b, 0, 0, 4096);
    while (!dt_rnic_cq_has_some(a->send_cq))
        ASSERT_TRUE(dt_sim_step(sim));
    EXPECT_EQ(start_ns + 3 * TimeoutNs(14), dt_sim_now_ns(sim));
    std::vector<dt_cqe> cqes = a->PollSend();
    ASSERT_EQ(1u, cqes.size());
    EXPECT_FAILED(cqes[0], IBV_WC_RETRY_EXC_ERR, DT_VENDOR_ACK_TIMEOUT);
    if (is_fenced) {
        ASSERT_EQ(0, b->MoveTo(IBV_QPS_ERR));
    }

    // The replay came another way, was consumed, and the next message lies in the same slot.
    memset(b->buffer.data(), 'Y', 4096);
    dt_sim_run_until(sim, start_ns + 2999 * kMs);
    EXPECT_EQ('Y', b->buffer[0]);
    Run();
    EXPECT_EQ(is_fenced ? 'Y' : 'X', b->buffer[0]);
    EXPECT_EQ(is_fenced ? 'Y' : 'X', b->buffer[4095]);
}

INSTANTIATE_TEST_SUITE_P(Fence, LatePacket, ::testing::Bool());

// ---- loss and how it is mended ----

TEST_F(EngineRetry, ALostPacketIsMendedByASequenceNakWithoutATimeout)
{
    dt_fault_rule rule = Drop(DT_FAULT_OP(DT_PACKET_WRITE), 3, 1);
    uint32_t id = dt_faults_add(FaultsA(), &rule);
    a->Fill(0, 20000, 1);
    a->Write(*b, 0, 0, 20000);
    Run();
    ExpectAllSucceeded(1);
    ExpectSame(0, 20000);
    EXPECT_EQ(1u, dt_faults_hits(FaultsA(), id));
    EXPECT_EQ(1u, hb->Counters().naks_sent);
    EXPECT_EQ(1u, ha->Counters().retransmissions);
    EXPECT_EQ(0u, ha->Counters().timeouts);
    EXPECT_LT(dt_sim_now_ns(sim), 10 * kLatencyNs);
    // Three were taken, the fourth was lost, so 17 of 20 are sent twice.
    EXPECT_EQ(20u + 17u, ha->Counters().packets_sent);
    EXPECT_EQ(16u, hb->Counters().out_of_sequence);
    EXPECT_EQ(0u, hb->Counters().duplicates);
}

TEST_F(EngineRetry, ALostLastPacketIsMendedByTheTimer)
{
    dt_fault_rule rule = Drop(DT_FAULT_OP(DT_PACKET_WRITE), 4, 1);
    dt_faults_add(FaultsA(), &rule);
    a->Fill(0, 5000, 1);
    a->Write(*b, 0, 0, 5000);
    Run();
    ExpectAllSucceeded(1);
    ExpectSame(0, 5000);
    EXPECT_EQ(1u, ha->Counters().timeouts);
    EXPECT_EQ(TimeoutNs(14) + 2 * kLatencyNs, dt_sim_now_ns(sim));
}

TEST_F(EngineRetry, OneLostAckIsCoveredByTheNext)
{
    uint32_t id = DropAckOfB(0);
    a->Write(*b, 0, 0, 10);
    a->Write(*b, 0, 0, 10);
    Run();
    ExpectAllSucceeded(2);
    EXPECT_EQ(1u, dt_faults_hits(FaultsB(), id));
    EXPECT_EQ(0u, ha->Counters().retransmissions);
}

TEST_F(EngineRetry, TheLostLastAckCostsATimeoutAndNothingIsExecutedTwice)
{
    uint32_t id = DropAckOfB(2);
    b->Recv(1, 0, 100);
    b->Recv(2, 0, 100);
    b->Recv(3, 0, 100);
    b->Recv(4, 0, 100);
    a->Send(0, 10);
    a->Send(0, 10);
    a->Send(0, 10);
    Run();
    ExpectAllSucceeded(3);
    EXPECT_EQ(1u, dt_faults_hits(FaultsB(), id));
    EXPECT_EQ(1u, ha->Counters().timeouts);
    EXPECT_EQ(1u, hb->Counters().duplicates); // the first two had been acknowledged
    EXPECT_EQ(3u, b->PollRecv().size());
}

TEST_F(EngineRetry, EverythingTwiceIsExecutedOnce)
{
    dt_fault_rule rule = {};
    rule.action = DT_FAULT_DUPLICATE;
    dt_faults_add(FaultsA(), &rule);
    dt_faults_add(FaultsB(), &rule);
    for (uint64_t i = 0; i < 10; i++)
        b->Recv(i, 0, 3000);
    a->Fill(0, 30000, 1);
    b->Fill(50000, 3000, 2);
    for (uint32_t i = 0; i < 5; i++) {
        a->Send(0, 3000);
        a->WriteImm(*b, i * 3000, i * 3000, 3000, i);
        a->Read(*b, 50000, 60000, 3000);
    }
    Run();
    ExpectAllSucceeded(15);
    EXPECT_EQ(10u, b->PollRecv().size());
    ExpectSame(3000, 12000);
    EXPECT_EQ(0, memcmp(&b->buffer[50000], &a->buffer[60000], 3000));
    EXPECT_GT(hb->Counters().duplicates, 0u);
    EXPECT_EQ(0u, ha->Counters().timeouts);
}

TEST_F(EngineRetry, AMessageAcknowledgedInPartIsResentFromThere)
{
    // 1 MiB asks for an acknowledgement every 64 KiB; everything from PSN 512 on is lost once.
    dt_fault_rule rule = Drop(DT_FAULT_OP(DT_PACKET_WRITE), 512, 512);
    dt_faults_add(FaultsA(), &rule);
    a->Fill(0, 1 << 20, 1);
    a->Write(*b, 0, 0, 1 << 20);
    Run();
    ExpectAllSucceeded(1);
    ExpectSame(0, 1 << 20);
    EXPECT_EQ(1024u + 512u, ha->Counters().packets_sent);
    EXPECT_EQ(0u, hb->Counters().duplicates);
}

TEST_F(EngineRetry, ProgressGivesAllRetriesBack)
{
    Attributes attributes;
    attributes.retry_cnt = 1;
    BuildWith(attributes);
    // Every second packet of one-packet messages is lost: each needs its one retry.
    dt_fault_rule rule = {};
    rule.ops = DT_FAULT_OP(DT_PACKET_WRITE);
    rule.every = 2;
    dt_faults_add(FaultsA(), &rule);
    for (int i = 0; i < 20; i++) {
        a->Write(*b, 0, 0, 10);
        Run();
    }
    ExpectAllSucceeded(20);
    EXPECT_EQ(20u, ha->Counters().timeouts);
}

TEST_F(EngineRetry, SequenceNaksUseUpRetriesToo)
{
    Attributes attributes;
    attributes.retry_cnt = 0;
    BuildWith(attributes);
    dt_fault_rule rule = Drop(DT_FAULT_OP(DT_PACKET_WRITE), 0, 1);
    dt_faults_add(FaultsA(), &rule);
    a->Put(a->Header(DT_WQE_WRITE, 0, b, 0), {a->Sge(0, 10)});
    a->Put(a->Header(DT_WQE_WRITE, 0, b, 0), {a->Sge(0, 10)});
    a->Ring();
    Run();
    std::vector<dt_cqe> cqes = a->PollSend();
    ASSERT_EQ(2u, cqes.size()); // both unsignaled
    EXPECT_FAILED(cqes[0], IBV_WC_RETRY_EXC_ERR, DT_VENDOR_NAK_RETRIES);
    EXPECT_FAILED(cqes[1], IBV_WC_WR_FLUSH_ERR, DT_VENDOR_FLUSHED);
    EXPECT_EQ(2 * kLatencyNs, dt_sim_now_ns(sim));
}

// The wire reports that the packet lies unread at the other end, as `local` does for a process without a
// processor.
TEST_F(EngineRetry, APacketThatIsOnlyLateCostsNoRetryForAWhile)
{
    Attributes attributes;
    attributes.retry_cnt = 0;
    BuildWith(attributes);
    dt_wire_ops ops = *ha->port->ops;
    ops.mark = [](const dt_wire_link *) { return 5u; };
    ops.is_unread = [](const dt_wire_link *, uint32_t mark) { return mark == 5; };
    const dt_wire_ops *original = ha->port->ops;
    ha->port->ops = &ops;
    dt_fault_rule rule = Drop(DT_FAULT_OP(DT_PACKET_WRITE), 0, 2);
    dt_faults_add(FaultsA(), &rule);

    // Lost, and never read: the missing retry is detected only after the whole timeout.
    a->Write(*b, 0, 0, 10);
    Run();
    std::vector<dt_cqe> cqes = a->PollSend();
    ASSERT_EQ(1u, cqes.size());
    EXPECT_FAILED(cqes[0], IBV_WC_RETRY_EXC_ERR, DT_VENDOR_ACK_TIMEOUT);
    EXPECT_GE(dt_sim_now_ns(sim), DT_RNIC_PATIENCE_NS);
    EXPECT_LE(dt_sim_now_ns(sim), DT_RNIC_PATIENCE_NS + 3 * TimeoutNs(attributes.timeout));
    EXPECT_EQ(1u, ha->Counters().timeouts);
    ha->port->ops = original;
}

TEST_F(EngineRetry, ATimeoutOfZeroIsPatientForEver)
{
    Attributes attributes;
    attributes.timeout = 0;
    BuildWith(attributes);
    dt_sim_cut(ha->port, hb->port, true);
    a->Write(*b, 0, 0, 10);
    EXPECT_FALSE(dt_sim_step(sim));
    EXPECT_EQ(IBV_QPS_RTS, a->State());
}

TEST_F(EngineRetry, TheFailingElementIsTheOldestNotAcknowledged)
{
    uint16_t indexes[4];
    for (uint16_t &index : indexes)
        index = a->Put(a->Header(DT_WQE_WRITE, 0, b, 0), {a->Sge(0, 10)});
    a->Announce();
    // The first two arrive; the acknowledgement of the second still comes through.
    dt_fault_rule rule = Drop(DT_FAULT_OP(DT_PACKET_WRITE), 2, 0);
    dt_faults_add(FaultsA(), &rule);
    dt_rnic_doorbell(a->qp, 0);
    Run();
    std::vector<dt_cqe> cqes = a->PollSend();
    ASSERT_EQ(2u, cqes.size());
    EXPECT_EQ(indexes[2], cqes[0].wqe_counter);
    EXPECT_FAILED(cqes[0], IBV_WC_RETRY_EXC_ERR, DT_VENDOR_ACK_TIMEOUT);
    EXPECT_EQ(indexes[3], cqes[1].wqe_counter);
    // The timer ran anew from the acknowledgement.
    EXPECT_EQ(2 * kLatencyNs + 7 * TimeoutNs(14), dt_sim_now_ns(sim));
}

// ---- READ under loss ----

class ReadLoss : public EngineRetry, public ::testing::WithParamInterface<std::tuple<bool, int>>
{
};

// Any one packet of three READs with a WRITE behind them is lost, in either direction.
TEST_P(ReadLoss, AnySinglePacketMayBeLost)
{
    bool is_answer = std::get<0>(GetParam());
    dt_fault_rule rule = Drop(0, static_cast<uint64_t>(std::get<1>(GetParam())), 1);
    uint32_t id = dt_faults_add(is_answer ? FaultsB() : FaultsA(), &rule);
    b->Fill(0, 10000, 3);
    a->Fill(20000, 3000, 4);
    a->Put(a->Header(DT_WQE_READ, DT_WQE_SIGNALED, b, 0), {a->Sge(0, 3000)});
    a->Put(a->Header(DT_WQE_READ, DT_WQE_SIGNALED, b, 3000), {a->Sge(3000, 1000)});
    a->Put(a->Header(DT_WQE_READ, DT_WQE_SIGNALED, b, 4000), {a->Sge(4000, 6000)});
    a->Put(a->Header(DT_WQE_WRITE, DT_WQE_SIGNALED, b, 20000), {a->Sge(20000, 3000)});
    a->Ring();
    Run();
    ExpectAllSucceeded(4);
    ExpectSame(0, 10000);
    ExpectSame(20000, 3000);
    EXPECT_EQ(1u, dt_faults_hits(is_answer ? FaultsB() : FaultsA(), id));
}

INSTANTIATE_TEST_SUITE_P(Answers, ReadLoss,
                         ::testing::Combine(::testing::Values(true), ::testing::Range(0, 10)));
INSTANTIATE_TEST_SUITE_P(Requests, ReadLoss,
                         ::testing::Combine(::testing::Values(false), ::testing::Range(0, 6)));

TEST_F(EngineRetry, AResponseThatMustBeLostIsNotWaitedFor)
{
    dt_fault_rule rule = Drop(DT_FAULT_OP(DT_PACKET_READ_RESPONSE), 2, 1);
    dt_faults_add(FaultsB(), &rule);
    b->Fill(0, 5000, 3);
    a->Read(*b, 0, 0, 3000);
    a->Write(*b, 10000, 10000, 10); // its acknowledgement implies that a response is missing
    Run();
    ExpectAllSucceeded(2);
    ExpectSame(0, 3000);
    EXPECT_EQ(0u, ha->Counters().timeouts);
    EXPECT_LT(dt_sim_now_ns(sim), 10 * kLatencyNs);
}

TEST_F(EngineRetry, AReadResumesAtTheResponseItLacks)
{
    dt_fault_rule rule = Drop(DT_FAULT_OP(DT_PACKET_READ_RESPONSE), 90, 10);
    dt_faults_add(FaultsB(), &rule);
    b->Fill(0, 102400, 3);
    a->Read(*b, 0, 0, 102400);
    Run();
    ExpectAllSucceeded(1);
    ExpectSame(0, 102400);
    EXPECT_EQ(100u + 10u, hb->Counters().packets_sent);
}

// ---- RNR ----

// The wait of each timer code, in hundredths of a millisecond, as the specification lists them.
constexpr uint64_t kRnrWait10us[32] = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                       48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                       2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

TEST_F(EngineRetry, RnrWaitsExactlyAsLongAsTheReceiverAsks)
{
    for (uint8_t code = 0; code < 32; code++) {
        for (uint8_t retries : {0, 1, 3, 6}) {
            Attributes attributes;
            attributes.min_rnr_timer = code;
            attributes.rnr_retry = retries;
            BuildWith(attributes);
            a->Send(0, 10, 0);
            Run();
            std::vector<dt_cqe> cqes = a->PollSend();
            ASSERT_EQ(1u, cqes.size());
            EXPECT_FAILED(cqes[0], IBV_WC_RNR_RETRY_EXC_ERR, DT_VENDOR_RNR_RETRIES);
            uint64_t waited_ns = retries * kRnrWait10us[code] * 10000;
            EXPECT_EQ((retries + 1u) * 2 * kLatencyNs + waited_ns, dt_sim_now_ns(sim)) << int(code);
            EXPECT_EQ(retries + 1u, hb->Counters().rnr_naks_sent);
            EXPECT_EQ(IBV_QPS_RTS, b->State());
            EXPECT_TRUE(hb->events.empty());
        }
    }
}

TEST_F(EngineRetry, RnrRetryOfSevenIsForEver)
{
    a->Fill(0, 3000, 1);
    a->Send(0, 3000);
    a->WriteImm(*b, 5000, 5000, 10, 1);
    dt_sim_run_until(sim, 10000 * kMs);
    EXPECT_TRUE(a->PollSend().empty());
    EXPECT_GT(hb->Counters().rnr_naks_sent, 10000u);
    b->Recv(1, 0, 3000);
    b->Recv(2);
    Run();
    ExpectAllSucceeded(2);
    EXPECT_EQ(2u, b->PollRecv().size());
    ExpectSame(0, 3000);
}

TEST_F(EngineRetry, AnRnrNakDoesNotStopEarlierMessages)
{
    a->Fill(0, 5000, 1);
    a->Write(*b, 0, 0, 5000);
    a->Send(0, 10);
    a->Write(*b, 6000, 6000, 100);
    dt_sim_run_until(sim, kMs / 2);
    ExpectAllSucceeded(1);
    ExpectSame(0, 5000);
    EXPECT_EQ(0, b->buffer[6000]);
    b->Recv(1, 9000, 100);
    Run();
    ExpectAllSucceeded(2);
    EXPECT_EQ(0u, ha->Counters().timeouts);
}

TEST_F(EngineRetry, ARangeWithImmediateLandsButForItsLastPacketUntilAReceiveIsThere)
{
    dt_sim_options options = Quiet();
    options.segment_bytes_max = 65536;
    Build(options, Attributes());
    a->Fill(0, 10000, 1);
    a->WriteImm(*b, 0, 0, 10000, 1);
    dt_sim_run_until(sim, kMs / 2);
    ExpectSame(0, 9 * 1024);
    EXPECT_EQ(0, b->buffer[9 * 1024]);
    b->Recv(1);
    Run();
    ExpectAllSucceeded(1);
    ExpectSame(0, 10000);
    std::vector<dt_cqe> cqes = b->PollRecv();
    ASSERT_EQ(1u, cqes.size());
    EXPECT_EQ(10000u, cqes[0].byte_len);
    EXPECT_EQ(1u, hb->Counters().rnr_naks_sent);
    EXPECT_EQ(0u, ha->Counters().timeouts);
}

TEST_F(EngineRetry, RnrRetriesComeBackWithProgress)
{
    Attributes attributes;
    attributes.rnr_retry = 1;
    BuildWith(attributes);
    for (int i = 0; i < 5; i++) {
        a->Send(0, 10);
        dt_sim_run_until(sim, dt_sim_now_ns(sim) + kMs / 3);
        b->Recv(static_cast<uint64_t>(i), 0, 10);
        Run();
    }
    ExpectAllSucceeded(5);
    EXPECT_EQ(5u, hb->Counters().rnr_naks_sent);
}

// The first SEND arrives twice: it is refused, then executed. The second SEND was dropped as out of sequence
// meanwhile.
TEST_F(EngineRetry, AnAckDuringAnRnrWaitSendsTheRestAgainWithoutARetry)
{
    Attributes attributes;
    attributes.timeout = 0; // no transport timer
    attributes.retry_cnt = 0;
    BuildWith(attributes);
    dt_fault_rule rule = {};
    rule.action = DT_FAULT_DUPLICATE;
    rule.count = 1;
    rule.delay_ns = kMs / 4;
    dt_faults_add(FaultsA(), &rule);
    a->Send(0, 10);
    a->Send(0, 10);
    dt_sim_run_until(sim, kMs / 8);
    b->Recv(1, 0, 10);
    b->Recv(2, 0, 10);
    dt_sim_run_until(sim, kMs / 4 + 4 * kLatencyNs);
    ExpectAllSucceeded(2); // before the RNR timer of 0.64 ms ends
    Run();
    EXPECT_EQ(IBV_QPS_RTS, a->State());
    EXPECT_EQ(1u, hb->Counters().rnr_naks_sent);
    EXPECT_EQ(0u, ha->Counters().timeouts);
}

// ---- faults of the wire that are not loss ----

TEST_F(EngineRetry, ADelayedPacketIsADuplicateWhenItComes)
{
    dt_fault_rule rule = {};
    rule.action = DT_FAULT_DELAY;
    rule.count = 1;
    rule.delay_ns = 500 * kMs;
    dt_faults_add(FaultsA(), &rule);
    b->Recv(1);
    b->Recv(2);
    memset(a->buffer.data(), 'o', 100);
    a->WriteImm(*b, 0, 0, 100, 1);
    dt_sim_run_until(sim, 100 * kMs);
    ExpectAllSucceeded(1);
    memset(b->buffer.data(), 'n', 100);
    Run();
    EXPECT_EQ('n', b->buffer[0]);
    EXPECT_EQ(1u, b->PollRecv().size());
    EXPECT_EQ(1u, hb->Counters().duplicates);
}

TEST_F(EngineRetry, APartialRangeIsTakenUpWhereItEnded)
{
    // Range of 64 packets, its middle lost: the receiver takes the front, and later only what it lacks.
    dt_sim_options options = Quiet();
    options.segment_bytes_max = 65536;
    Build(options, Attributes());
    dt_fault_rule rule = Drop(DT_FAULT_OP(DT_PACKET_WRITE), 30, 1);
    dt_faults_add(FaultsA(), &rule);
    a->Fill(0, 65536, 1);
    a->Write(*b, 0, 0, 65536);
    Run();
    ExpectAllSucceeded(1);
    ExpectSame(0, 65536);
    EXPECT_EQ(65536u, hb->Counters().payload_bytes_landed);
    EXPECT_EQ(65536u + 34u * 1024, ha->Counters().payload_bytes_sent);
}
} // namespace
