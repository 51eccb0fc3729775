// SPDX-License-Identifier: Apache-2.0
// A responder alone, on a wire under the test's control: which answers leave, in which order, and when none
// does.
#include <cerrno>

#include "tests/softrnic/engine_fixture.h"

using namespace softrnic_test;

namespace
{
struct Scripted {
    dt_wire wire;
    std::vector<dt_packet> sent;
    bool has_room = true;
    int land_error = 0;
    int landed = 0;
};

Scripted *g_scripted;

const dt_wire_ops kScriptedOps = {
    [](dt_wire *wire, const uint8_t *) { return reinterpret_cast<dt_wire_link *>(wire); },
    [](dt_wire_link *) { return g_scripted->has_room; },
    [](dt_wire_link *, const dt_packet *packet, uint64_t) { g_scripted->sent.push_back(*packet); },
    nullptr, // nothing is transmitted by reference
    nullptr,
    [](dt_received *, uint64_t, void *dst, uint64_t bytes) {
        if (g_scripted->land_error)
            return g_scripted->land_error;
        memset(dst, 'L', bytes);
        g_scripted->landed++;
        return 0;
    },
    nullptr, // nothing waits
    nullptr,
    0,
};

class OnScriptedWire : public ::testing::Test
{
  protected:
    Scripted scripted;
    dt_rnic *rnic = nullptr;
    dt_rnic_cq *cq = nullptr;
    dt_rnic_qp *qp = nullptr;
    uint8_t memory[4096] = {};
    uint32_t key = 0;

    void SetUp() override
    {
        g_scripted = &scripted;
        scripted.wire.ops = &kScriptedOps;
        dt_rnic_options options = {};
        options.wire = &scripted.wire;
        rnic = dt_rnic_create(&options);
        cq = dt_rnic_cq_create(rnic, 64, false, nullptr);
        dt_rnic_qp_options qp_options = {};
        qp_options.send_cq = qp_options.recv_cq = cq;
        qp_options.rq_entries = 8;
        qp_options.recv_sge_max = 1;
        qp_options.sq_blocks = 8;
        qp = dt_rnic_qp_create(rnic, &qp_options);
        ASSERT_EQ(0, dt_rnic_mr_register(rnic, 0, memory, sizeof memory, 0, kAllAccess, &key));
        Reach(IBV_QPS_RTS, 0);
    }
    // From wherever it is, by way of RESET.
    void Reach(ibv_qp_state state, uint32_t expected_psn)
    {
        ibv_qp_attr attr = {};
        attr.port_num = 1;
        attr.qp_access_flags = kAllAccess;
        attr.path_mtu = IBV_MTU_1024;
        attr.dest_qp_num = 7;
        attr.rq_psn = expected_psn;
        attr.max_dest_rd_atomic = attr.max_rd_atomic = 4;
        attr.timeout = 14;
        attr.ah_attr.is_global = 1;
        for (auto step :
             {std::make_pair(IBV_QPS_RESET, int(IBV_QP_STATE)), std::make_pair(IBV_QPS_INIT, kInitMask),
              std::make_pair(IBV_QPS_RTR, kRtrMask), std::make_pair(IBV_QPS_RTS, kRtsMask)}) {
            attr.qp_state = step.first;
            ASSERT_EQ(0, dt_rnic_qp_modify(qp, &attr, step.second, 0));
            if (step.first == state)
                return;
        }
        attr.qp_state = state;
        ASSERT_EQ(0, dt_rnic_qp_modify(qp, &attr, IBV_QP_STATE, 0));
    }
    void TearDown() override
    {
        dt_rnic_destroy(rnic);
    }
    dt_packet Packet(uint8_t op, uint32_t psn, uint64_t bytes) const
    {
        dt_packet packet = {};
        packet.dst_qpn = dt_rnic_qp_number(qp);
        packet.src_qpn = 7;
        packet.psn = psn;
        packet.psn_count = 1;
        packet.op = op;
        packet.flags = DT_PACKET_FIRST | DT_PACKET_LAST | DT_PACKET_ACK_REQUEST;
        packet.mtu_shift = 10;
        packet.message_bytes = bytes;
        packet.payload_bytes = op == DT_PACKET_READ_REQUEST ? 0 : bytes;
        packet.rkey = key;
        return packet;
    }
    void Receive(const dt_packet &packet)
    {
        dt_rnic_receive(rnic, &packet, nullptr, 0);
    }
};

TEST_F(OnScriptedWire, AcknowledgementsOfABatchAreOne)
{
    for (uint32_t psn = 0; psn < 5; psn++)
        Receive(Packet(DT_PACKET_WRITE, psn, 8));
    EXPECT_TRUE(scripted.sent.empty());
    dt_rnic_progress(rnic, 0);
    ASSERT_EQ(1u, scripted.sent.size());
    EXPECT_EQ(4u, scripted.sent[0].psn);
    EXPECT_EQ(DT_SYNDROME_ACK, scripted.sent[0].syndrome);
    EXPECT_EQ(5u, scripted.sent[0].msn);
    EXPECT_EQ(7u, scripted.sent[0].dst_qpn);
}

TEST_F(OnScriptedWire, AnAcknowledgementThatWaitsForRoomGrows)
{
    scripted.has_room = false;
    Receive(Packet(DT_PACKET_WRITE, 0, 8));
    dt_rnic_progress(rnic, 0);
    EXPECT_TRUE(scripted.sent.empty());
    EXPECT_EQ(DT_RNIC_NEVER, dt_rnic_deadline_ns(rnic)); // the wire calls when it has room
    Receive(Packet(DT_PACKET_WRITE, 1, 8));
    scripted.has_room = true;
    dt_rnic_progress(rnic, 0);
    ASSERT_EQ(1u, scripted.sent.size());
    EXPECT_EQ(1u, scripted.sent[0].psn);
}

TEST_F(OnScriptedWire, ResponsesPrecedeLaterAcknowledgements)
{
    Receive(Packet(DT_PACKET_WRITE, 0, 8));
    Receive(Packet(DT_PACKET_READ_REQUEST, 1, 100));
    Receive(Packet(DT_PACKET_WRITE, 2, 8));
    Receive(Packet(DT_PACKET_READ_REQUEST, 3, 200));
    Receive(Packet(DT_PACKET_WRITE, 4, 8));
    dt_rnic_progress(rnic, 0);
    ASSERT_EQ(3u, scripted.sent.size());
    EXPECT_EQ(DT_PACKET_READ_RESPONSE, scripted.sent[0].op);
    EXPECT_EQ(1u, scripted.sent[0].psn);
    EXPECT_EQ(100u, scripted.sent[0].payload_bytes);
    EXPECT_EQ(3u, scripted.sent[1].psn);
    EXPECT_EQ(DT_PACKET_ACK, scripted.sent[2].op);
    EXPECT_EQ(4u, scripted.sent[2].psn);
}

TEST_F(OnScriptedWire, OneNakPerGap)
{
    Receive(Packet(DT_PACKET_WRITE, 1, 8));
    Receive(Packet(DT_PACKET_WRITE, 2, 8));
    dt_rnic_progress(rnic, 0);
    ASSERT_EQ(1u, scripted.sent.size());
    EXPECT_EQ(DT_SYNDROME_NAK_SEQUENCE, scripted.sent[0].syndrome);
    EXPECT_EQ(0u, scripted.sent[0].psn);
    Receive(Packet(DT_PACKET_WRITE, 3, 8));
    dt_rnic_progress(rnic, 0);
    EXPECT_EQ(1u, scripted.sent.size());
    Receive(Packet(DT_PACKET_WRITE, 0, 8)); // closes the gap
    Receive(Packet(DT_PACKET_WRITE, 3, 8)); // opens another
    dt_rnic_progress(rnic, 0);
    ASSERT_EQ(2u, scripted.sent.size());
    EXPECT_EQ(1u, scripted.sent[1].psn);
    EXPECT_EQ(DT_SYNDROME_NAK_SEQUENCE, scripted.sent[1].syndrome);
}

TEST_F(OnScriptedWire, PayloadThatIsGoneCountsAsLost)
{
    scripted.land_error = ESRCH;
    Receive(Packet(DT_PACKET_WRITE, 0, 8));
    dt_rnic_progress(rnic, 0);
    EXPECT_TRUE(scripted.sent.empty());
    EXPECT_EQ(IBV_QPS_RTS, dt_rnic_qp_state(qp));
    scripted.land_error = 0;
    Receive(Packet(DT_PACKET_WRITE, 0, 8));
    dt_rnic_progress(rnic, 0);
    EXPECT_EQ(1u, scripted.sent.size());
    EXPECT_EQ('L', memory[0]);
    // The same for a SEND, whatever the wire's errno: its receive stays.
    bool must_kick;
    ibv_sge sge = {100, 100, key};
    dt_cqe cqe;
    ASSERT_EQ(0, dt_rnic_qp_post_recv(qp, 1, &sge, 1, &must_kick));
    for (int error : {EINVAL, EIO}) {
        scripted.land_error = error;
        Receive(Packet(DT_PACKET_SEND, 1, 8));
        EXPECT_EQ(0u, dt_rnic_cq_poll(cq, &cqe, 1));
    }
    scripted.land_error = 0;
    Receive(Packet(DT_PACKET_SEND, 1, 8));
    ASSERT_EQ(1u, dt_rnic_cq_poll(cq, &cqe, 1));
    EXPECT_TRUE(IsSuccess(cqe));
    EXPECT_EQ('L', memory[100]);
}

TEST_F(OnScriptedWire, NothingLandsAfterErrOrReset)
{
    Receive(Packet(DT_PACKET_WRITE, 0, 8));
    EXPECT_EQ(1, scripted.landed);
    ibv_qp_attr attr = {};
    for (ibv_qp_state state : {IBV_QPS_ERR, IBV_QPS_RESET}) {
        attr.qp_state = state;
        ASSERT_EQ(0, dt_rnic_qp_modify(qp, &attr, IBV_QP_STATE, 0));
        Receive(Packet(DT_PACKET_WRITE, 1, 8));
        EXPECT_EQ(1, scripted.landed);
        dt_rnic_progress(rnic, 0);
        EXPECT_TRUE(scripted.sent.empty()); // not even the acknowledgement that was due
    }
    dt_packet late = Packet(DT_PACKET_WRITE, 1, 8);
    dt_rnic_qp_destroy(qp);
    Receive(late);
    EXPECT_EQ(1, scripted.landed);
}

// (number, expected): what is expected is executed, what is behind acknowledged again, what is ahead
// complained about, up to both ends of the window and over the wrap.
TEST_F(OnScriptedWire, ThePositionOfAPsnDecidesItsTreatment)
{
    for (uint32_t expected : {0u, 1u, 2u, 0x7fffffu, 0x800000u, 0xfffffeu, 0xffffffu}) {
        for (int32_t distance : {-0x800000, -0x7fffff, -2, -1, 0, 1, 2, 0x7ffffe, 0x7fffff}) {
            Reach(IBV_QPS_RTS, expected);
            scripted.sent.clear();
            scripted.landed = 0;
            Receive(Packet(DT_PACKET_WRITE, dt_psn_add(expected, static_cast<uint32_t>(distance)), 8));
            dt_rnic_progress(rnic, 0);
            ASSERT_EQ(1u, scripted.sent.size()) << expected << " " << distance;
            const dt_packet &answer = scripted.sent[0];
            EXPECT_EQ(distance == 0, scripted.landed == 1);
            EXPECT_EQ(distance > 0 ? DT_SYNDROME_NAK_SEQUENCE : DT_SYNDROME_ACK, answer.syndrome);
            // A complaint names the PSN that is missing, an acknowledgement the last that is not.
            uint32_t named = distance > 0 || distance == 0 ? expected : dt_psn_sub(expected, 1);
            EXPECT_EQ(named, answer.psn) << expected << " " << distance;
        }
    }
}

TEST_F(OnScriptedWire, OnlyThreeStatesListen)
{
    for (ibv_qp_state state :
         {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR}) {
        for (uint8_t op : {DT_PACKET_WRITE, DT_PACKET_SEND, DT_PACKET_READ_REQUEST}) {
            bool must_kick;
            Reach(state, 5);
            scripted.sent.clear();
            if (state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD) {
                ASSERT_EQ(0, dt_rnic_qp_post_recv(qp, 1, nullptr, 0, &must_kick));
            }
            Receive(Packet(op, 5, op == DT_PACKET_SEND ? 0 : 8));
            dt_rnic_progress(rnic, 0);
            bool listens = state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD;
            EXPECT_EQ(listens ? 1u : 0u, scripted.sent.size()) << state << " " << int(op);
        }
    }
}

TEST_F(OnScriptedWire, AnRnrNakIsTakenBackWhenTheReceiveComesInTime)
{
    scripted.has_room = false;
    Receive(Packet(DT_PACKET_SEND, 0, 0));
    dt_rnic_progress(rnic, 0);
    bool must_kick;
    ASSERT_EQ(0, dt_rnic_qp_post_recv(qp, 1, nullptr, 0, &must_kick));
    Receive(Packet(DT_PACKET_SEND, 0, 0));
    scripted.has_room = true;
    dt_rnic_progress(rnic, 0);
    ASSERT_EQ(1u, scripted.sent.size());
    EXPECT_EQ(DT_SYNDROME_ACK, scripted.sent[0].syndrome);
}

TEST_F(OnScriptedWire, ARepeatedReadIsAnsweredAgainAndAnOldOneForgottenWhenItsMemoryIsGone)
{
    Receive(Packet(DT_PACKET_READ_REQUEST, 0, 100));
    dt_rnic_progress(rnic, 0);
    Receive(Packet(DT_PACKET_READ_REQUEST, 0, 100));
    Receive(Packet(DT_PACKET_READ_REQUEST, 0, 100)); // while the answer still waits: once is enough
    dt_rnic_progress(rnic, 0);
    ASSERT_EQ(2u, scripted.sent.size());
    EXPECT_EQ(0u, scripted.sent[1].psn);
    ASSERT_EQ(0, dt_rnic_mr_deregister(rnic, key));
    Receive(Packet(DT_PACKET_READ_REQUEST, 0, 100));
    dt_rnic_progress(rnic, 0);
    EXPECT_EQ(2u, scripted.sent.size());
    EXPECT_EQ(IBV_QPS_RTS, dt_rnic_qp_state(qp));
}
} // namespace
