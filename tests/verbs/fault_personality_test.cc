/* SPDX-License-Identifier: Apache-2.0 */
/* Each personality, with completions and states as a library and a device would give them. */
#include "verbs/fault_personality.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace
{
class Personality : public ::testing::Test
{
  protected:
    Personality()
    {
        dt_list_init(&layer.qps);
        ibv.send_cq = &sends;
        ibv.recv_cq = &receives;
        qp.ibv = &ibv;
        table.query_qp = Query;
        layer.below = &table;
        dt_list_push_back(&layer.qps, &qp.node);
    }
    void Be(dt_device_personality personality)
    {
        layer.count = 1;
        layer.state[0].fault.kind = DT_DEVICE_FAULT_PERSONALITY;
        layer.state[0].fault.personality = personality;
        layer.state[0].fault.fired = &fired;
        layer.state[0].left = UINT64_MAX;
    }
    /* The status with which a completion comes out of the layer. */
    ibv_wc_status Turn(const ibv_cq &cq, ibv_wc_status status)
    {
        ibv_wc wc = {};
        wc.status = status;
        dt_fault_personality_turn(&layer, &qp, &cq, &wc, 0);
        return wc.status;
    }
    /* `acts` is true of the queue pair in the error state alone, and counted there. */
    void ExpectOnlyInErr(bool (*acts)(dt_fault_layer *, const dt_fault_qp *))
    {
        state = IBV_QPS_RTS;
        EXPECT_FALSE(acts(&layer, &qp));
        state = IBV_QPS_UNKNOWN;
        EXPECT_FALSE(acts(&layer, &qp)) << "the device does not answer";
        EXPECT_EQ(0u, fired);
        state = IBV_QPS_ERR;
        EXPECT_TRUE(acts(&layer, &qp));
        EXPECT_FALSE(acts(&layer, nullptr)) << "a queue pair that is not known";
        EXPECT_EQ(1u, fired);
    }
    /* The state that the device reports. */
    static int Query(ibv_qp *, ibv_qp_attr *attr, int, ibv_qp_init_attr *)
    {
        attr->qp_state = state;
        return state == IBV_QPS_UNKNOWN ? EIO : 0;
    }
    static ibv_qp_state state;
    dt_verbs_table table = {};
    dt_fault_layer layer = {};
    dt_fault_qp qp = {};
    ibv_qp ibv = {};
    ibv_cq sends = {}, receives = {};
    uint64_t fired = 0;
};

ibv_qp_state Personality::state = IBV_QPS_RTS;

TEST_F(Personality, WithoutOneNothingChanges)
{
    dt_fault_personality_modified(&layer, &qp, IBV_QPS_ERR);
    layer.is_fatal = true;
    EXPECT_EQ(IBV_WC_SUCCESS, Turn(receives, IBV_WC_SUCCESS));
    EXPECT_FALSE(dt_fault_personality_ignores(&layer));
    EXPECT_FALSE(dt_fault_personality_loses_receive(&layer, &qp));
    EXPECT_FALSE(dt_fault_personality_polls(&layer));
    EXPECT_FALSE(dt_fault_personality_receives(&layer));
    EXPECT_FALSE(dt_fault_personality_refuses(&layer, &qp));
    EXPECT_FALSE(dt_fault_personality_posts(&layer));
}

TEST_F(Personality, IonicDiscardsWhatWasNotPolledBeforeErr)
{
    Be(DT_DEVICE_PERSONALITY_IONIC);
    EXPECT_TRUE(dt_fault_personality_polls(&layer));
    EXPECT_EQ(IBV_WC_SUCCESS, Turn(receives, IBV_WC_SUCCESS));
    dt_fault_personality_modified(&layer, &qp, IBV_QPS_ERR);
    EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, Turn(receives, IBV_WC_SUCCESS));
    EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, Turn(sends, IBV_WC_SUCCESS));
    EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, Turn(sends, IBV_WC_RETRY_EXC_ERR));
    EXPECT_EQ(2u, fired);
    dt_fault_personality_modified(&layer, &qp, IBV_QPS_RESET);
    EXPECT_EQ(IBV_WC_SUCCESS, Turn(receives, IBV_WC_SUCCESS));
}

TEST_F(Personality, BnxtEndsTheOtherQueueOnceItIsEmpty)
{
    Be(DT_DEVICE_PERSONALITY_BNXT);
    dt_fault_personality_modified(&layer, &qp, IBV_QPS_ERR);
    EXPECT_EQ(IBV_WC_SUCCESS, Turn(receives, IBV_WC_SUCCESS));
    EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, Turn(sends, IBV_WC_WR_FLUSH_ERR));
    EXPECT_EQ(IBV_WC_SUCCESS, Turn(receives, IBV_WC_SUCCESS)) << "it was there already";
    dt_fault_personality_emptied(&layer, &sends);
    EXPECT_EQ(IBV_WC_SUCCESS, Turn(receives, IBV_WC_SUCCESS)) << "the other one is not empty";
    dt_fault_personality_emptied(&layer, &receives);
    EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, Turn(receives, IBV_WC_SUCCESS));
    EXPECT_EQ(1u, fired);
    dt_fault_personality_modified(&layer, &qp, IBV_QPS_RESET);
    EXPECT_EQ(IBV_WC_SUCCESS, Turn(receives, IBV_WC_SUCCESS));
}

TEST_F(Personality, BnxtFlushesTheSendsThatWereNotPolledBeforeErr)
{
    Be(DT_DEVICE_PERSONALITY_BNXT);
    EXPECT_EQ(IBV_WC_SUCCESS, Turn(sends, IBV_WC_SUCCESS));
    dt_fault_personality_modified(&layer, &qp, IBV_QPS_ERR);
    EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, Turn(sends, IBV_WC_SUCCESS));
    EXPECT_EQ(IBV_WC_SUCCESS, Turn(receives, IBV_WC_SUCCESS)) << "each has a completion of its own";
    EXPECT_EQ(1u, fired);
}

TEST_F(Personality, BnxtReportsTheOldestSendAsTheFailedOne)
{
    ibv_wc wcs[4] = {};

    Be(DT_DEVICE_PERSONALITY_BNXT);
    ibv.qp_num = 7;
    for (ibv_wc &wc : wcs)
        wc.qp_num = 7;
    wcs[1].qp_num = 8;
    wcs[3].status = IBV_WC_RETRY_EXC_ERR;
    wcs[3].vendor_err = 2;
    for (int i = 0; i < 4; i++)
        if (i != 1)
            dt_fault_personality_turn(&layer, &qp, &sends, wcs, i);
    EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, wcs[0].status);
    EXPECT_EQ(2u, wcs[0].vendor_err);
    EXPECT_EQ(IBV_WC_SUCCESS, wcs[1].status) << "another queue pair's";
    EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wcs[2].status);
    EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wcs[3].status);
    EXPECT_EQ(0u, wcs[3].vendor_err);
    EXPECT_EQ(2u, fired) << "the successful ones";
}

TEST_F(Personality, Mlx5IgnoresCallsOnceItsDeviceHasDied)
{
    Be(DT_DEVICE_PERSONALITY_MLX5);
    EXPECT_FALSE(dt_fault_personality_ignores(&layer));
    layer.is_fatal = true;
    EXPECT_TRUE(dt_fault_personality_ignores(&layer));
    EXPECT_EQ(1u, fired);
}

TEST_F(Personality, RxeNeverLooksAtAReceiveThatIsPostedInErr)
{
    Be(DT_DEVICE_PERSONALITY_RXE);
    EXPECT_TRUE(dt_fault_personality_receives(&layer));
    EXPECT_FALSE(dt_fault_personality_polls(&layer));
    ExpectOnlyInErr(dt_fault_personality_loses_receive);
}

TEST_F(Personality, ManaRefusesPostsInErr)
{
    Be(DT_DEVICE_PERSONALITY_MANA);
    EXPECT_TRUE(dt_fault_personality_posts(&layer));
    EXPECT_FALSE(dt_fault_personality_polls(&layer));
    ExpectOnlyInErr(dt_fault_personality_refuses);
    EXPECT_FALSE(dt_fault_personality_loses_receive(&layer, &qp));
    EXPECT_EQ(1u, fired);
}
} // namespace
