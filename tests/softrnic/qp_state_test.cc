// SPDX-License-Identifier: Apache-2.0
// The RC state table against the documented one, written down here a second time, and ibv_modify_qp's promise
// that a refused call changes nothing.
#include "softrnic/qp_state.h"

#include <algorithm>
#include <cerrno>
#include <functional>

#include "tests/softrnic/engine_fixture.h"

using namespace softrnic_test;

namespace
{
const std::vector<ibv_qp_state> kStates = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
                                           IBV_QPS_SQD,   IBV_QPS_SQE,  IBV_QPS_ERR};

const std::vector<int> kBits = {IBV_QP_CUR_STATE,
                                IBV_QP_EN_SQD_ASYNC_NOTIFY,
                                IBV_QP_ACCESS_FLAGS,
                                IBV_QP_PKEY_INDEX,
                                IBV_QP_PORT,
                                IBV_QP_QKEY,
                                IBV_QP_AV,
                                IBV_QP_PATH_MTU,
                                IBV_QP_TIMEOUT,
                                IBV_QP_RETRY_CNT,
                                IBV_QP_RNR_RETRY,
                                IBV_QP_RQ_PSN,
                                IBV_QP_ALT_PATH,
                                IBV_QP_MAX_QP_RD_ATOMIC,
                                IBV_QP_MIN_RNR_TIMER,
                                IBV_QP_SQ_PSN,
                                IBV_QP_CAP,
                                IBV_QP_MAX_DEST_RD_ATOMIC,
                                IBV_QP_PATH_MIG_STATE,
                                IBV_QP_DEST_QPN,
                                IBV_QP_RATE_LIMIT};

struct Row {
    ibv_qp_state from, to;
    std::vector<int> required;
    std::vector<int> optional;
};

// ibv_modify_qp(3) for the required ones of RESET-INIT-RTR-RTS, the specification for the rest.
const std::vector<Row> kDocumented = {
    {IBV_QPS_RESET, IBV_QPS_RESET, {}, {}},
    {IBV_QPS_RESET, IBV_QPS_INIT, {IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_ACCESS_FLAGS}, {}},
    {IBV_QPS_INIT, IBV_QPS_RESET, {}, {}},
    {IBV_QPS_INIT, IBV_QPS_ERR, {}, {}},
    {IBV_QPS_INIT, IBV_QPS_INIT, {}, {IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_ACCESS_FLAGS}},
    {IBV_QPS_INIT,
     IBV_QPS_RTR,
     {IBV_QP_AV, IBV_QP_PATH_MTU, IBV_QP_DEST_QPN, IBV_QP_RQ_PSN, IBV_QP_MAX_DEST_RD_ATOMIC,
      IBV_QP_MIN_RNR_TIMER},
     {IBV_QP_ALT_PATH, IBV_QP_ACCESS_FLAGS, IBV_QP_PKEY_INDEX}},
    {IBV_QPS_RTR, IBV_QPS_RESET, {}, {}},
    {IBV_QPS_RTR, IBV_QPS_ERR, {}, {}},
    {IBV_QPS_RTR,
     IBV_QPS_RTS,
     {IBV_QP_SQ_PSN, IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_TIMEOUT},
     {IBV_QP_CUR_STATE, IBV_QP_ALT_PATH, IBV_QP_ACCESS_FLAGS, IBV_QP_MIN_RNR_TIMER, IBV_QP_PATH_MIG_STATE}},
    {IBV_QPS_RTS, IBV_QPS_RESET, {}, {}},
    {IBV_QPS_RTS, IBV_QPS_ERR, {}, {}},
    {IBV_QPS_RTS,
     IBV_QPS_RTS,
     {},
     {IBV_QP_CUR_STATE, IBV_QP_ACCESS_FLAGS, IBV_QP_ALT_PATH, IBV_QP_PATH_MIG_STATE, IBV_QP_MIN_RNR_TIMER}},
    {IBV_QPS_RTS, IBV_QPS_SQD, {}, {IBV_QP_EN_SQD_ASYNC_NOTIFY}},
    {IBV_QPS_SQD, IBV_QPS_RESET, {}, {}},
    {IBV_QPS_SQD, IBV_QPS_ERR, {}, {}},
    {IBV_QPS_SQD,
     IBV_QPS_RTS,
     {},
     {IBV_QP_CUR_STATE, IBV_QP_ACCESS_FLAGS, IBV_QP_ALT_PATH, IBV_QP_PATH_MIG_STATE, IBV_QP_MIN_RNR_TIMER}},
    {IBV_QPS_SQD,
     IBV_QPS_SQD,
     {},
     {IBV_QP_PORT, IBV_QP_AV, IBV_QP_TIMEOUT, IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_MAX_QP_RD_ATOMIC,
      IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_ALT_PATH, IBV_QP_ACCESS_FLAGS, IBV_QP_PKEY_INDEX,
      IBV_QP_MIN_RNR_TIMER, IBV_QP_PATH_MIG_STATE}},
    {IBV_QPS_ERR, IBV_QPS_RESET, {}, {}},
    {IBV_QPS_ERR, IBV_QPS_ERR, {}, {}},
};

const Row *Documented(ibv_qp_state from, ibv_qp_state to)
{
    for (const Row &row : kDocumented)
        if (row.from == from && row.to == to)
            return &row;
    return nullptr;
}

bool Contains(const std::vector<int> &bits, int bit)
{
    return std::find(bits.begin(), bits.end(), bit) != bits.end();
}

int Union(const std::vector<int> &bits)
{
    int mask = 0;
    for (int bit : bits)
        mask |= bit;
    return mask;
}

TEST(QpStateTable, EveryTransitionIsTheDocumentedOne)
{
    for (ibv_qp_state from : kStates) {
        for (ibv_qp_state to : kStates) {
            const Row *row = Documented(from, to);
            const dt_qp_transition *transition = dt_qp_find_transition(from, to);
            ASSERT_NE(nullptr, transition);
            EXPECT_EQ(row != nullptr, transition->is_valid) << from << " to " << to;
            EXPECT_EQ(row ? Union(row->required) : 0, transition->required) << from << " to " << to;
            EXPECT_EQ(row ? Union(row->optional) : 0, transition->optional) << from << " to " << to;
        }
    }
    EXPECT_EQ(nullptr, dt_qp_find_transition(IBV_QPS_UNKNOWN, IBV_QPS_INIT));
    EXPECT_EQ(nullptr, dt_qp_find_transition(IBV_QPS_INIT, ibv_qp_state(-1)));
}

class QpModify : public Pair
{
  protected:
    // A fresh unconnected queue pair in `state`; SQE cannot be reached.
    void Reach(ibv_qp_state state)
    {
        Build(Quiet(), Attributes(), false);
        ibv_qp_attr attr = Legal();
        if (state == IBV_QPS_RESET)
            return;
        const std::vector<std::pair<ibv_qp_state, int>> way = {
            {IBV_QPS_INIT, kInitMask}, {IBV_QPS_RTR, kRtrMask}, {IBV_QPS_RTS, kRtsMask}};
        for (const auto &step : way) {
            attr.qp_state = step.first;
            ASSERT_EQ(0, a->Modify(attr, step.second));
            if (step.first == state)
                return;
        }
        ASSERT_EQ(0, a->MoveTo(state));
    }
    // Every attribute with a value that is fine.
    ibv_qp_attr Legal() const
    {
        ibv_qp_attr attr = a->AttrFor(*b);
        attr.path_mig_state = IBV_MIG_MIGRATED;
        attr.cur_qp_state = a->State();
        return attr;
    }
    // The table allows an alternate path; this device has none, as ibv_modify_qp(3) permits.
    static bool DeviceRefuses(int mask)
    {
        return mask & IBV_QP_ALT_PATH;
    }
    void Try(ibv_qp_state from, ibv_qp_state to, int mask, bool is_allowed)
    {
        Reach(from);
        ibv_qp_attr before, after, attr = Legal();
        dt_rnic_qp_query(a->qp, &before);
        attr.qp_state = to;
        int error = a->Modify(attr, mask);
        if (is_allowed) {
            EXPECT_EQ(0, error) << from << " to " << to << " mask " << mask;
            EXPECT_EQ(to, a->State());
            return;
        }
        EXPECT_EQ(EINVAL, error) << from << " to " << to << " mask " << mask;
        dt_rnic_qp_query(a->qp, &after);
        EXPECT_EQ(0, memcmp(&before, &after, sizeof before)) << "a refused call changed something";
    }
};

TEST_F(QpModify, EveryTransitionWithItsRequiredAttributesAndNoOther)
{
    for (ibv_qp_state from : kStates) {
        if (from == IBV_QPS_SQE)
            continue;
        for (ibv_qp_state to : kStates) {
            const Row *row = Documented(from, to);
            int all = 0;
            for (int bit : kBits)
                all |= bit;
            if (!row) {
                Try(from, to, IBV_QP_STATE, false);
                Try(from, to, IBV_QP_STATE | all, false);
                continue;
            }
            int required = IBV_QP_STATE | Union(row->required);
            Try(from, to, required, true);
            for (int bit : kBits) {
                if (Contains(row->required, bit))
                    Try(from, to, required & ~bit, false);
                else
                    Try(from, to, required | bit, Contains(row->optional, bit) && !DeviceRefuses(bit));
            }
            int optional = Union(row->optional);
            Try(from, to, required | (optional & ~IBV_QP_ALT_PATH), true);
        }
    }
}

TEST_F(QpModify, WithoutAStateTheAttributesOfTheSameStateMayChange)
{
    Reach(IBV_QPS_RTS);
    ibv_qp_attr attr = Legal();
    attr.min_rnr_timer = 20;
    EXPECT_EQ(0, a->Modify(attr, IBV_QP_MIN_RNR_TIMER));
    dt_rnic_qp_query(a->qp, &attr);
    EXPECT_EQ(20, attr.min_rnr_timer);
    EXPECT_EQ(IBV_QPS_RTS, attr.qp_state);
    Reach(IBV_QPS_RTR);
    EXPECT_EQ(EINVAL, a->Modify(Legal(), IBV_QP_MIN_RNR_TIMER));
}

TEST_F(QpModify, EveryBadValueIsRefused)
{
    struct Case {
        ibv_qp_state from, to;
        int mask;
        std::function<void(ibv_qp_attr *)> spoil;
    };
    const std::vector<Case> cases = {
        {IBV_QPS_RESET, IBV_QPS_INIT, kInitMask, [](ibv_qp_attr *attr) { attr->port_num = 0; }},
        {IBV_QPS_RESET, IBV_QPS_INIT, kInitMask, [](ibv_qp_attr *attr) { attr->port_num = 2; }},
        {IBV_QPS_RESET, IBV_QPS_INIT, kInitMask, [](ibv_qp_attr *attr) { attr->pkey_index = 1; }},
        {IBV_QPS_RESET, IBV_QPS_INIT, kInitMask, [](ibv_qp_attr *attr) { attr->qp_access_flags = 1 << 20; }},
        {IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask, [](ibv_qp_attr *attr) { attr->path_mtu = ibv_mtu(0); }},
        {IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask, [](ibv_qp_attr *attr) { attr->path_mtu = ibv_mtu(6); }},
        {IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask, [](ibv_qp_attr *attr) { attr->dest_qp_num = 1 << 24; }},
        {IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask, [](ibv_qp_attr *attr) { attr->ah_attr.is_global = 0; }},
        {IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask, [](ibv_qp_attr *attr) { attr->ah_attr.port_num = 2; }},
        {IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask, [](ibv_qp_attr *attr) { attr->max_dest_rd_atomic = 17; }},
        {IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask, [](ibv_qp_attr *attr) { attr->min_rnr_timer = 32; }},
        {IBV_QPS_RTR, IBV_QPS_RTS, kRtsMask, [](ibv_qp_attr *attr) { attr->timeout = 32; }},
        {IBV_QPS_RTR, IBV_QPS_RTS, kRtsMask, [](ibv_qp_attr *attr) { attr->retry_cnt = 8; }},
        {IBV_QPS_RTR, IBV_QPS_RTS, kRtsMask, [](ibv_qp_attr *attr) { attr->rnr_retry = 8; }},
        {IBV_QPS_RTR, IBV_QPS_RTS, kRtsMask, [](ibv_qp_attr *attr) { attr->max_rd_atomic = 17; }},
        {IBV_QPS_RTR, IBV_QPS_RTS, kRtsMask | IBV_QP_CUR_STATE,
         [](ibv_qp_attr *attr) { attr->cur_qp_state = IBV_QPS_RTS; }},
        {IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_PATH_MIG_STATE,
         [](ibv_qp_attr *attr) { attr->path_mig_state = IBV_MIG_ARMED; }},
    };
    for (size_t i = 0; i < cases.size(); i++) {
        Reach(cases[i].from);
        ibv_qp_attr before, after, attr = Legal();
        attr.qp_state = cases[i].to;
        cases[i].spoil(&attr);
        dt_rnic_qp_query(a->qp, &before);
        EXPECT_EQ(EINVAL, a->Modify(attr, cases[i].mask)) << "case " << i;
        dt_rnic_qp_query(a->qp, &after);
        EXPECT_EQ(0, memcmp(&before, &after, sizeof before)) << "case " << i;
    }
}

TEST_F(QpModify, TheLargestLegalValuesAreTaken)
{
    Build(Quiet(), Attributes(), false);
    ibv_qp_attr attr = Legal();
    attr.qp_state = IBV_QPS_INIT;
    ASSERT_EQ(0, a->Modify(attr, kInitMask));
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = 0xffffff;
    attr.max_dest_rd_atomic = 16;
    attr.min_rnr_timer = 31;
    attr.rq_psn = 0x01abcdef; // PSNs have 24 bits; the rest is not looked at
    ASSERT_EQ(0, a->Modify(attr, kRtrMask));
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 31;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 16;
    attr.sq_psn = 0xff123456;
    ASSERT_EQ(0, a->Modify(attr, kRtsMask));
    dt_rnic_qp_query(a->qp, &attr);
    EXPECT_EQ(0xabcdefu, attr.rq_psn);
    EXPECT_EQ(0x123456u, attr.sq_psn);
    EXPECT_EQ(IBV_MTU_4096, attr.path_mtu);
    EXPECT_EQ(31, attr.timeout);
}

TEST_F(QpModify, DrainingStopsNewMessagesAndTellsWhenDone)
{
    ibv_qp_attr attr = {};
    a->Write(*b, 0, 0, 5000);
    attr.qp_state = IBV_QPS_SQD;
    attr.en_sqd_async_notify = 1;
    ASSERT_EQ(0, a->Modify(attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
    a->Write(*b, 0, 0, 100);
    dt_rnic_qp_query(a->qp, &attr);
    EXPECT_EQ(1, attr.sq_draining);
    EXPECT_EQ(0, ha->CountEvents(IBV_EVENT_SQ_DRAINED));
    Run();
    EXPECT_EQ(1u, a->PollSend().size());
    EXPECT_EQ(1, ha->CountEvents(IBV_EVENT_SQ_DRAINED));
    dt_rnic_qp_query(a->qp, &attr);
    EXPECT_EQ(0, attr.sq_draining);
    ASSERT_EQ(0, a->MoveTo(IBV_QPS_RTS));
    Run();
    EXPECT_EQ(1u, a->PollSend().size());
}

TEST_F(QpModify, AnIdleQueueIsDrainedAtOnce)
{
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_SQD;
    attr.en_sqd_async_notify = 1;
    ASSERT_EQ(0, a->Modify(attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
    EXPECT_EQ(1, ha->CountEvents(IBV_EVENT_SQ_DRAINED));
}

TEST_F(QpModify, ResetForgetsEverythingAndTheQueuePairWorksAgain)
{
    a->Write(*b, 0, 0, 100);
    b->Recv(1);
    ASSERT_EQ(0, a->MoveTo(IBV_QPS_RESET));
    ASSERT_EQ(0, b->MoveTo(IBV_QPS_RESET));
    EXPECT_EQ(0u, a->sq.doorbell[DT_DBREC_SEND]);
    Run();
    EXPECT_TRUE(a->PollSend().empty());
    EXPECT_TRUE(b->PollRecv().empty());
    EXPECT_EQ(EINVAL, b->Recv(2));
    a->producer = 0;
    a->ConnectTo(*b);
    b->ConnectTo(*a);
    a->Fill(0, 1000, 4);
    ASSERT_EQ(0, b->Recv(3));
    a->WriteImm(*b, 0, 0, 1000, 3);
    Run();
    EXPECT_EQ(1u, a->PollSend().size());
    std::vector<dt_cqe> cqes = b->PollRecv();
    ASSERT_EQ(1u, cqes.size());
    EXPECT_EQ(3u, cqes[0].wr_id);
    EXPECT_EQ(0, memcmp(a->buffer.data(), b->buffer.data(), 1000));
}

TEST_F(QpModify, WorkPostedBeforeRtsIsSentThen)
{
    Build(Quiet(), Attributes(), false);
    a->ConnectTo(*b, IBV_QPS_RTR);
    b->ConnectTo(*a);
    a->Write(*b, 0, 0, 100);
    Run();
    EXPECT_TRUE(a->PollSend().empty());
    ibv_qp_attr attr = a->AttrFor(*b);
    attr.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(0, a->Modify(attr, kRtsMask));
    Run();
    EXPECT_EQ(1u, a->PollSend().size());
}

TEST_F(QpModify, AReceiverInRtrReportsItsFirstPacket)
{
    Build(Quiet(), Attributes(), false);
    a->ConnectTo(*b);
    b->ConnectTo(*a, IBV_QPS_RTR);
    a->Write(*b, 0, 0, 100);
    a->Write(*b, 0, 0, 100);
    Run();
    EXPECT_EQ(2u, a->PollSend().size());
    EXPECT_EQ(1, hb->CountEvents(IBV_EVENT_COMM_EST));
}

TEST(QpStateUc, NeedsAndTakesNoAttributesOfReliability)
{
    const int rtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    EXPECT_TRUE(dt_qp_transition_is_allowed_uc(IBV_QPS_INIT, IBV_QPS_RTR, rtr));
    EXPECT_TRUE(dt_qp_transition_is_allowed_uc(IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN));
    EXPECT_FALSE(dt_qp_transition_is_allowed_uc(IBV_QPS_INIT, IBV_QPS_RTR, rtr & ~IBV_QP_RQ_PSN));
    EXPECT_FALSE(dt_qp_transition_is_allowed_uc(IBV_QPS_INIT, IBV_QPS_RTR, rtr | IBV_QP_MIN_RNR_TIMER));
    EXPECT_FALSE(dt_qp_transition_is_allowed_uc(IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT));
    EXPECT_FALSE(dt_qp_transition_is_allowed_uc(IBV_QPS_RESET, IBV_QPS_RTS, IBV_QP_SQ_PSN));
    EXPECT_TRUE(dt_qp_transition_is_allowed_uc(IBV_QPS_RTS, IBV_QPS_ERR, 0));
    EXPECT_FALSE(dt_qp_transition_is_allowed_uc(IBV_QPS_RTS, static_cast<ibv_qp_state>(99), 0));
}
} // namespace
