// SPDX-License-Identifier: Apache-2.0
// UC queue pairs: messages without payload that are complete once sent, and that may be lost.
#include "tests/softrnic/engine_fixture.h"

using namespace softrnic_test;

namespace
{
class EngineUc : public Pair
{
  protected:
    void SetUp() override
    {
        Attributes attributes;
        attributes.is_unreliable = true;
        Build(Quiet(), attributes);
    }
    // A write without payload, with an immediate value.
    void Notify(uint32_t imm)
    {
        a->Put(a->Header(DT_WQE_WRITE_IMM, DT_WQE_SIGNALED, b, 0, imm), {});
        a->Ring();
    }
    void ExpectSent(size_t count)
    {
        std::vector<dt_cqe> cqes = a->PollSend();
        EXPECT_EQ(count, cqes.size());
        for (const dt_cqe &cqe : cqes)
            EXPECT_TRUE(IsSuccess(cqe));
    }
    std::vector<uint32_t> Received()
    {
        std::vector<uint32_t> values;
        for (const dt_cqe &cqe : b->PollRecv()) {
            EXPECT_TRUE(IsSuccess(cqe));
            EXPECT_EQ(DT_CQE_RECV_WRITE_IMM, cqe.op);
            values.push_back(ntohl(cqe.imm));
        }
        return values;
    }
};

TEST_F(EngineUc, AMessageIsCompleteOnceSentAndIsNotAnswered)
{
    for (int i = 0; i < 4; i++)
        b->Recv(i);
    for (uint32_t imm = 0; imm < 4; imm++)
        Notify(imm);
    ExpectSent(4); // before anything has arrived
    Run();
    EXPECT_EQ((std::vector<uint32_t>{0, 1, 2, 3}), Received());
    EXPECT_EQ(4u, ha->Counters().packets_sent);
    EXPECT_EQ(0u, hb->Counters().packets_sent);
}

TEST_F(EngineUc, ASendWithoutPayloadTakesAReceive)
{
    b->Recv(7);
    a->Put(a->Header(DT_WQE_SEND, DT_WQE_SIGNALED), {});
    a->Ring();
    Run();
    ExpectSent(1);
    std::vector<dt_cqe> cqes = b->PollRecv();
    ASSERT_EQ(1u, cqes.size());
    EXPECT_TRUE(IsSuccess(cqes[0]));
    EXPECT_EQ(7u, cqes[0].wr_id);
}

TEST_F(EngineUc, LostMessagesAreNotRepeatedAndDoNotStopTheOthers)
{
    dt_fault_rule rule = {};
    rule.action = DT_FAULT_DROP;
    rule.ops = DT_FAULT_OP(DT_PACKET_WRITE);
    rule.skip = 1;
    rule.count = 2;
    dt_faults_add(dt_sim_faults(ha->port), &rule);
    for (int i = 0; i < 4; i++)
        b->Recv(i);
    for (uint32_t imm = 0; imm < 4; imm++)
        Notify(imm);
    Run();
    ExpectSent(4);
    EXPECT_EQ((std::vector<uint32_t>{0, 3}), Received());
    EXPECT_EQ(0u, ha->Counters().retransmissions);
    EXPECT_EQ(0u, hb->Counters().naks_sent);
}

TEST_F(EngineUc, AMessageWithoutAReceiveIsDropped)
{
    Notify(1);
    Run();
    b->Recv(0);
    Notify(2);
    Run();
    ExpectSent(2);
    EXPECT_EQ((std::vector<uint32_t>{2}), Received());
    EXPECT_EQ(1u, hb->Counters().dropped);
    EXPECT_EQ(IBV_QPS_RTS, b->State());
}

TEST_F(EngineUc, ALinkThatIsDownLosesMessagesAndNothingElse)
{
    for (int i = 0; i < 2; i++)
        b->Recv(i);
    dt_rnic_set_link(ha->rnic, false);
    Notify(1);
    Run();
    ExpectSent(1);
    dt_rnic_set_link(ha->rnic, true);
    Notify(2);
    Run();
    ExpectSent(1);
    EXPECT_EQ((std::vector<uint32_t>{2}), Received());
}

TEST_F(EngineUc, PayloadIsRefused)
{
    a->Write(*b, 0, 0, 8);
    Run();
    std::vector<dt_cqe> cqes = a->PollSend();
    ASSERT_EQ(1u, cqes.size());
    EXPECT_EQ(IBV_WC_LOC_QP_OP_ERR, cqes[0].status);
    EXPECT_EQ(IBV_QPS_ERR, a->State());
}

TEST_F(EngineUc, AReadIsRefused)
{
    a->Read(*b, 0, 0, 8);
    Run();
    std::vector<dt_cqe> cqes = a->PollSend();
    ASSERT_EQ(1u, cqes.size());
    EXPECT_EQ(IBV_WC_LOC_QP_OP_ERR, cqes[0].status);
}
} // namespace
