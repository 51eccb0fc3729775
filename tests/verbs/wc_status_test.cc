/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "verbs/queue.h"

/* libibverbs' names in its order: whoever adds a status to it must decide what it breaks. */
TEST(WcStatus, EveryStatusOfLibibverbsUpToGeneralErrorIsClassified)
{
    EXPECT_EQ((int)DT_WC_STATUS_COUNT, IBV_WC_GENERAL_ERR + 1);
    for (uint32_t status = 0; status < DT_WC_STATUS_COUNT; status++)
        EXPECT_STRNE(dt_wc_status_text(status), "unknown completion status") << status;
}

TEST(WcStatus, OnlySuccessIsOk)
{
    EXPECT_EQ(dt_wc_status_class(IBV_WC_SUCCESS), DT_WC_CLASS_OK);
    for (uint32_t status = 1; status < DT_WC_STATUS_COUNT; status++)
        EXPECT_NE(dt_wc_status_class(status), DT_WC_CLASS_OK) << dt_wc_status_text(status);
}

TEST(WcStatus, CallersMistakesAreNotFailedOver)
{
    for (uint32_t status : {IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_ACCESS_ERR,
                            IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR})
        EXPECT_EQ(dt_wc_status_class(status), DT_WC_CLASS_CALLER) << dt_wc_status_text(status);
}

/* LOC_QP_OP_ERR is how Linux soft-RoCE reports that its own link is down. */
TEST(WcStatus, FailuresOfThePathAreFailedOver)
{
    for (uint32_t status : {IBV_WC_LOC_QP_OP_ERR, IBV_WC_WR_FLUSH_ERR, IBV_WC_RETRY_EXC_ERR,
                            IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_RESP_TIMEOUT_ERR, IBV_WC_FATAL_ERR})
        EXPECT_EQ(dt_wc_status_class(status), DT_WC_CLASS_TRANSPORT) << dt_wc_status_text(status);
}

TEST(WcStatus, AStatusFromTheFutureIsTransportAndHasAText)
{
    EXPECT_EQ(dt_wc_status_class(4711), DT_WC_CLASS_TRANSPORT);
    EXPECT_STREQ(dt_wc_status_text(4711), "unknown completion status");
}
