// SPDX-License-Identifier: Apache-2.0
// What is not an operation: completion queues that fill or notify, calls that are refused, ports, dead
// devices, and packets that no peer should send.
#include <cerrno>

#include "tests/softrnic/engine_fixture.h"

using namespace softrnic_test;

namespace
{
class EngineEdges : public Pair
{
  protected:
    void ExpectPeerUntouched()
    {
        EXPECT_EQ(IBV_QPS_RTS, b->State());
        EXPECT_TRUE(b->PollRecv().empty());
        EXPECT_TRUE(hb->events.empty());
    }
};

// ---- completion queues ----

TEST_F(EngineEdges, AFullCompletionQueueBreaksAndTakesItsQueuePairsAlong)
{
    Attributes attributes;
    attributes.cq_entries = 4;
    Build(Quiet(), attributes);
    for (int i = 0; i < 6; i++)
        a->Write(*b, 0, 0, 10);
    Run();
    EXPECT_EQ(4u, a->PollSend().size());
    EXPECT_EQ(IBV_QPS_ERR, a->State());
    EXPECT_EQ(1, ha->CountEvents(IBV_EVENT_CQ_ERR));
    EXPECT_EQ(1, ha->CountEvents(IBV_EVENT_QP_FATAL));
    EXPECT_EQ(a->send_cq, ha->events[0].cq);
    // It never works again.
    a->Write(*b, 0, 0, 10);
    EXPECT_TRUE(a->PollSend().empty());
}

TEST_F(EngineEdges, AFullReceiveCompletionQueueBreaksTheReceiver)
{
    Attributes attributes;
    attributes.cq_entries = 2;
    attributes.retry_cnt = 1;
    Build(Quiet(), attributes);
    for (uint64_t i = 0; i < 4; i++)
        b->Recv(i);
    for (int i = 0; i < 4; i++)
        a->WriteImm(*b, 0, 0, 10, 0, 0);
    Run();
    EXPECT_EQ(IBV_QPS_ERR, b->State());
    EXPECT_EQ(1, hb->CountEvents(IBV_EVENT_CQ_ERR));
    EXPECT_EQ(2u, b->PollRecv().size());
    // The message whose completion was lost was never acknowledged.
    std::vector<dt_cqe> cqes = a->PollSend();
    ASSERT_FALSE(cqes.empty());
    EXPECT_FAILED(cqes[0], IBV_WC_RETRY_EXC_ERR, DT_VENDOR_ACK_TIMEOUT);
}

TEST_F(EngineEdges, ArmedQueuesFireOnce)
{
    dt_rnic_cq_arm(a->send_cq, false);
    a->Write(*b, 0, 0, 10);
    a->Write(*b, 0, 0, 10);
    Run();
    ASSERT_EQ(1u, ha->notified.size());
    EXPECT_EQ(a->send_cq, ha->notified[0]);
    dt_rnic_cq_arm(a->send_cq, false);
    EXPECT_EQ(1u, ha->notified.size()); // what lies there already does not count
    a->Write(*b, 0, 0, 10);
    Run();
    EXPECT_EQ(2u, ha->notified.size());
}

TEST_F(EngineEdges, SolicitedOnlyFiresForSolicitedAndForErrors)
{
    b->Recv(1);
    b->Recv(2);
    b->Recv(3);
    dt_rnic_cq_arm(b->recv_cq, true);
    a->WriteImm(*b, 0, 0, 10, 0);
    Run();
    EXPECT_TRUE(hb->notified.empty());
    a->WriteImm(*b, 0, 0, 10, 0, DT_WQE_SIGNALED | DT_WQE_SOLICITED);
    Run();
    EXPECT_EQ(1u, hb->notified.size());
    dt_rnic_cq_arm(b->recv_cq, true);
    ASSERT_EQ(0, b->MoveTo(IBV_QPS_ERR));
    EXPECT_EQ(2u, hb->notified.size());
    // Asking for less does not take back having asked for more.
    dt_rnic_cq_arm(a->send_cq, false);
    dt_rnic_cq_arm(a->send_cq, true);
    ASSERT_EQ(0, a->MoveTo(IBV_QPS_ERR));
    a->Write(*b, 0, 0, 1);
    EXPECT_EQ(1u, ha->notified.size());
}

TEST_F(EngineEdges, PurgeTakesOneQueuePairsCompletionsOnly)
{
    dt_rnic_cq *cq = dt_rnic_cq_create(ha->rnic, 64, false, nullptr);
    dt_rnic_qp_options options = {};
    options.send_cq = options.recv_cq = cq;
    options.rq_entries = 16;
    dt_rnic_qp *first = dt_rnic_qp_create(ha->rnic, &options);
    dt_rnic_qp *second = dt_rnic_qp_create(ha->rnic, &options);
    EXPECT_EQ(EBUSY, dt_rnic_cq_destroy(cq));
    ibv_qp_attr attr = {};
    attr.port_num = 1;
    for (dt_rnic_qp *qp : {first, second}) {
        attr.qp_state = IBV_QPS_INIT;
        ASSERT_EQ(0, dt_rnic_qp_modify(qp, &attr, kInitMask, 0));
        attr.qp_state = IBV_QPS_ERR;
        ASSERT_EQ(0, dt_rnic_qp_modify(qp, &attr, IBV_QP_STATE, 0));
    }
    bool must_kick;
    for (uint64_t i = 0; i < 10; i++) {
        dt_rnic_qp *qp = i % 3 ? first : second;
        ASSERT_EQ(0, dt_rnic_qp_post_recv(qp, i, nullptr, 0, &must_kick));
        EXPECT_TRUE(must_kick);
        dt_rnic_doorbell(qp, 0);
    }
    dt_rnic_cq_purge(cq, dt_rnic_qp_number(first));
    std::vector<dt_cqe> cqes = a->Poll(cq);
    ASSERT_EQ(4u, cqes.size());
    for (size_t i = 0; i < 4; i++)
        EXPECT_EQ(3 * i, cqes[i].wr_id);
    dt_rnic_qp_destroy(first);
    dt_rnic_qp_destroy(second);
    EXPECT_EQ(0, dt_rnic_cq_destroy(cq));
}

// ---- calls that are refused ----

TEST_F(EngineEdges, RegistrationsThatMakeNoSense)
{
    uint32_t key = 1;
    uint8_t byte;
    EXPECT_EQ(EINVAL, dt_rnic_mr_register(ha->rnic, 1, &byte, 0, 0, 0, &key));
    EXPECT_EQ(EINVAL, dt_rnic_mr_register(ha->rnic, 1, &byte, UINT64_MAX, 0, 0, &key));
    EXPECT_EQ(EINVAL, dt_rnic_mr_register(ha->rnic, 1, &byte, 1, UINT64_MAX, 0, &key));
    EXPECT_EQ(EINVAL, dt_rnic_mr_register(ha->rnic, 1, &byte, 1, 0, IBV_ACCESS_REMOTE_WRITE, &key));
    EXPECT_EQ(EINVAL, dt_rnic_mr_register(ha->rnic, 1, &byte, 1, 0, IBV_ACCESS_ON_DEMAND, &key));
    EXPECT_EQ(1u, key);
    EXPECT_EQ(0, dt_rnic_mr_register(ha->rnic, 1, &byte, 1, 0, IBV_ACCESS_RELAXED_ORDERING, &key));
    EXPECT_EQ(0, dt_rnic_mr_deregister(ha->rnic, key));
    EXPECT_EQ(EINVAL, dt_rnic_mr_deregister(ha->rnic, 0));
}

TEST_F(EngineEdges, ARegionMayLieUnderAnotherAddress)
{
    uint32_t key;
    ASSERT_EQ(0, dt_rnic_mr_register(hb->rnic, 1, b->buffer.data() + 1000, 500, 0, kAllAccess, &key));
    a->Fill(0, 10, 3);
    dt_wqe_header header = a->Header(DT_WQE_WRITE, DT_WQE_SIGNALED);
    header.remote_addr = 490;
    header.rkey = key;
    a->Put(header, {a->Sge(0, 10)});
    a->Ring();
    Run();
    EXPECT_EQ(1u, a->PollSend().size());
    EXPECT_EQ(0, memcmp(a->buffer.data(), &b->buffer[1490], 10));
}

TEST_F(EngineEdges, KeysComeBackLate)
{
    uint8_t byte;
    uint32_t first, key;
    ASSERT_EQ(0, dt_rnic_mr_register(ha->rnic, 1, &byte, 1, 0, 0, &first));
    ASSERT_EQ(0, dt_rnic_mr_deregister(ha->rnic, first));
    for (int i = 0; i < 10000; i++) {
        ASSERT_EQ(0, dt_rnic_mr_register(ha->rnic, 1, &byte, 1, 0, 0, &key));
        ASSERT_NE(first, key);
        ASSERT_EQ(0, dt_rnic_mr_deregister(ha->rnic, key));
    }
}

TEST_F(EngineEdges, QueueSizesOutOfRange)
{
    EXPECT_EQ(nullptr, dt_rnic_cq_create(ha->rnic, 0, false, nullptr));
    EXPECT_EQ(EINVAL, errno);
    EXPECT_EQ(nullptr, dt_rnic_cq_create(ha->rnic, DT_RNIC_CQ_ENTRIES_MAX + 1, false, nullptr));
    dt_rnic_qp_options options = {};
    options.send_cq = options.recv_cq = a->send_cq;
    options.sq_blocks = DT_RNIC_SQ_BLOCKS_MAX + 1;
    EXPECT_EQ(nullptr, dt_rnic_qp_create(ha->rnic, &options));
    EXPECT_EQ(EINVAL, errno);
    options.sq_blocks = 1;
    options.recv_sge_max = DT_RNIC_SGE_MAX + 1;
    EXPECT_EQ(nullptr, dt_rnic_qp_create(ha->rnic, &options));
    options.recv_sge_max = 1;
    options.send_cq = b->send_cq; // of another RNIC
    EXPECT_EQ(nullptr, dt_rnic_qp_create(ha->rnic, &options));
    EXPECT_EQ(EINVAL, errno);
}

TEST_F(EngineEdges, AFullReceiveQueueIsReported)
{
    for (uint64_t i = 0; i < 64; i++)
        ASSERT_EQ(0, b->Recv(i));
    EXPECT_EQ(ENOMEM, b->Recv(64));
    ibv_sge sges[5] = {};
    bool must_kick;
    EXPECT_EQ(EINVAL, dt_rnic_qp_post_recv(b->qp, 0, sges, 5, &must_kick));
}

TEST_F(EngineEdges, WhenMemoryIsShort)
{
    dt_rnic_qp_options options = {};
    options.send_cq = options.recv_cq = a->send_cq;
    for (int i = 0;; i++) {
        detour_test_fail_alloc(i);
        errno = 0;
        dt_rnic_qp *qp = dt_rnic_qp_create(ha->rnic, &options);
        if (qp) {
            detour_test_fail_alloc(-1);
            dt_rnic_qp_destroy(qp);
            EXPECT_EQ(2, i);
            break;
        }
        EXPECT_EQ(ENOMEM, errno);
    }
    for (int i = 0; i < 2; i++) {
        detour_test_fail_alloc(i);
        EXPECT_EQ(nullptr, dt_rnic_cq_create(ha->rnic, 4, false, nullptr));
        EXPECT_EQ(ENOMEM, errno);
    }
    dt_rnic_options rnic_options = {};
    for (int i = 0; i < 4; i++) {
        detour_test_fail_alloc(i);
        EXPECT_EQ(nullptr, dt_rnic_create(&rnic_options));
    }
}

TEST_F(EngineEdges, NumbersAreNotReusedSoon)
{
    dt_rnic_qp_options options = {};
    options.send_cq = options.recv_cq = a->send_cq;
    uint32_t first = 0;
    for (int i = 0; i < 40000; i++) {
        dt_rnic_qp *qp = dt_rnic_qp_create(ha->rnic, &options);
        ASSERT_NE(nullptr, qp);
        uint32_t number = dt_rnic_qp_number(qp);
        ASSERT_GT(number, 1u);
        ASSERT_LE(number, 0xffffffu);
        if (!i)
            first = number;
        else
            ASSERT_NE(first, number);
        dt_rnic_qp_destroy(qp);
    }
}

// ---- link and device ----

TEST_F(EngineEdges, AnOwnLinkThatIsDownEndsInRetryExceeded)
{
    dt_rnic_set_link(ha->rnic, false);
    dt_rnic_set_link(ha->rnic, false);
    EXPECT_EQ(1, ha->CountEvents(IBV_EVENT_PORT_ERR));
    a->Write(*b, 0, 0, 10);
    Run();
    EXPECT_EQ(7 * TimeoutNs(14), dt_sim_now_ns(sim));
    std::vector<dt_cqe> cqes = a->PollSend();
    ASSERT_EQ(1u, cqes.size());
    EXPECT_FAILED(cqes[0], IBV_WC_RETRY_EXC_ERR, DT_VENDOR_ACK_TIMEOUT);
    ExpectPeerUntouched();
    dt_rnic_set_link(ha->rnic, true);
    EXPECT_EQ(1, ha->CountEvents(IBV_EVENT_PORT_ACTIVE));
    EXPECT_EQ(IBV_QPS_ERR, a->State());
}

TEST_F(EngineEdges, ALinkThatComesBackInTimeCostsNothingButTime)
{
    a->Fill(0, 10, 1);
    dt_rnic_set_link(hb->rnic, false);
    a->Write(*b, 0, 0, 10);
    dt_sim_run_until(sim, 3 * TimeoutNs(14));
    dt_rnic_set_link(hb->rnic, true);
    Run();
    std::vector<dt_cqe> cqes = a->PollSend();
    ASSERT_EQ(1u, cqes.size());
    EXPECT_TRUE(IsSuccess(cqes[0]));
    EXPECT_EQ(0, memcmp(a->buffer.data(), b->buffer.data(), 10));
}

TEST_F(EngineEdges, ADeadDeviceIsSilent)
{
    a->Write(*b, 0, 0, 10);
    dt_rnic_set_fatal(ha->rnic);
    dt_rnic_set_fatal(ha->rnic);
    EXPECT_EQ(1, ha->CountEvents(IBV_EVENT_DEVICE_FATAL));
    a->Write(*b, 0, 0, 10);
    Run();
    EXPECT_TRUE(a->PollSend().empty());
    EXPECT_EQ(EIO, a->MoveTo(IBV_QPS_ERR));
    EXPECT_EQ(nullptr, dt_rnic_cq_create(ha->rnic, 1, false, nullptr));
    EXPECT_EQ(EIO, errno);
    uint32_t key;
    uint8_t byte;
    EXPECT_EQ(EIO, dt_rnic_mr_register(ha->rnic, 1, &byte, 1, 0, 0, &key));
    dt_rnic_qp_options options = {};
    options.send_cq = options.recv_cq = a->send_cq;
    EXPECT_EQ(nullptr, dt_rnic_qp_create(ha->rnic, &options));
    EXPECT_EQ(EIO, errno);
}

// ---- unsolicited packets ----

// A wire that lets the test hand any packet to the engine.
class Unsolicited : public EngineEdges
{
  protected:
    dt_packet Packet(uint8_t op) const
    {
        dt_packet packet = {};
        packet.dst_qpn = b->Number();
        packet.src_qpn = a->Number();
        packet.psn_count = 1;
        packet.op = op;
        packet.flags = DT_PACKET_FIRST | DT_PACKET_LAST | DT_PACKET_ACK_REQUEST;
        packet.mtu_shift = 10;
        return packet;
    }
    void Inject(const dt_packet &packet)
    {
        dt_rnic_receive(hb->rnic, &packet, nullptr, dt_sim_now_ns(sim));
        dt_rnic_progress(hb->rnic, dt_sim_now_ns(sim));
    }
};

TEST_F(Unsolicited, PacketsWithoutAQueuePairAreDropped)
{
    dt_packet packet = Packet(DT_PACKET_WRITE);
    packet.dst_qpn ^= 1 << 20;
    Inject(packet);
    packet = Packet(DT_PACKET_WRITE);
    packet.src_qpn++; // not the queue pair it is connected to
    Inject(packet);
    packet = Packet(99);
    Inject(packet);
    EXPECT_EQ(3u, hb->Counters().dropped);
    EXPECT_EQ(0u, hb->Counters().packets_sent);
    ExpectPeerUntouched();
}

TEST_F(Unsolicited, PacketsThatDoNotAddUpAreDropped)
{
    for (uint8_t op : {DT_PACKET_SEND, DT_PACKET_WRITE, DT_PACKET_READ_REQUEST}) {
        dt_packet packet = Packet(op);
        packet.psn_count = 0;
        Inject(packet);
        packet = Packet(op);
        packet.psn_count = 2;
        Inject(packet);
        packet = Packet(op);
        packet.mtu_shift = 60;
        Inject(packet);
        packet = Packet(op);
        packet.psn = 0xff000000;
        Inject(packet);
        packet = Packet(op);
        packet.payload_bytes = packet.message_bytes = UINT64_MAX;
        Inject(packet);
    }
    EXPECT_EQ(15u, hb->Counters().dropped);
    ExpectPeerUntouched();
}

TEST_F(Unsolicited, MessagesThatBeginInTheMiddleAreRefused)
{
    dt_packet packet = Packet(DT_PACKET_WRITE);
    packet.flags = DT_PACKET_LAST;
    Inject(packet);
    EXPECT_EQ(IBV_QPS_ERR, b->State());
    EXPECT_EQ(1, hb->CountEvents(IBV_EVENT_QP_REQ_ERR));
    EXPECT_EQ(1u, hb->Counters().naks_sent);
}

TEST_F(Unsolicited, AnotherPathMtuIsRefused)
{
    dt_packet packet = Packet(DT_PACKET_WRITE);
    packet.mtu_shift = 12;
    Inject(packet);
    EXPECT_EQ(IBV_QPS_ERR, b->State());
}

TEST_F(Unsolicited, UnsolicitedAnswersChangeNothing)
{
    for (uint32_t psn : {0u, 1u, 77u, 0x800000u, 0xfffffeu, 0xffffffu}) {
        for (int syndrome = 0; syndrome < 256; syndrome++) {
            dt_packet packet = Packet(DT_PACKET_ACK);
            packet.psn = psn;
            packet.syndrome = static_cast<uint8_t>(syndrome);
            Inject(packet);
        }
        dt_packet packet = Packet(DT_PACKET_READ_RESPONSE);
        packet.psn = psn;
        Inject(packet);
    }
    ExpectPeerUntouched();
    EXPECT_TRUE(b->PollSend().empty());
    EXPECT_EQ(DT_RNIC_NEVER, dt_rnic_deadline_ns(hb->rnic));
}
} // namespace
