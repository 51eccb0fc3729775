/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "verbs/queue.h"

/* libibverbs' names in its order: a status added to it needs a decision on what it breaks. */
TEST(WcStatus, EveryStatusOfLibibverbsUpToGeneralErrorIsClassified)
{
    EXPECT_EQ((int)DT_WC_STATUS_COUNT, IBV_WC_GENERAL_ERR + 1);
    for (uint32_t status = 0; status < DT_WC_STATUS_COUNT; status++)
        EXPECT_STRNE(dt_wc_status_text(status), "unknown completion status") << status;
}

const dt_provider kProviders[] = {DT_PROVIDER_OTHER, DT_PROVIDER_SOFT, DT_PROVIDER_MLX, DT_PROVIDER_RXE};

TEST(WcStatus, OnlySuccessIsOk)
{
    for (dt_provider provider : kProviders) {
        EXPECT_EQ(dt_wc_status_class(provider, IBV_WC_SUCCESS), DT_WC_CLASS_OK);
        for (uint32_t status = 1; status < DT_WC_STATUS_COUNT; status++)
            EXPECT_NE(dt_wc_status_class(provider, status), DT_WC_CLASS_OK) << dt_wc_status_text(status);
    }
}

TEST(WcStatus, CallersMistakesAreNotFailedOverAnywhere)
{
    for (dt_provider provider : kProviders)
        for (uint32_t status : {IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_ACCESS_ERR,
                                IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR})
            EXPECT_EQ(dt_wc_status_class(provider, status), DT_WC_CLASS_CALLER)
                << dt_provider_text(provider) << ": " << dt_wc_status_text(status);
}

TEST(WcStatus, FailuresOfThePathAreFailedOverEverywhere)
{
    for (dt_provider provider : kProviders)
        for (uint32_t status : {IBV_WC_WR_FLUSH_ERR, IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR,
                                IBV_WC_RESP_TIMEOUT_ERR, IBV_WC_FATAL_ERR, IBV_WC_GENERAL_ERR,
                                IBV_WC_REM_OP_ERR /* the peer's receive queue or its CQ broke */})
            EXPECT_EQ(dt_wc_status_class(provider, status), DT_WC_CLASS_TRANSPORT)
                << dt_provider_text(provider) << ": " << dt_wc_status_text(status);
}

/* Linux' soft-RoCE reports it when its own link is down; elsewhere it is an element that makes no sense. */
TEST(WcStatus, ALocalQpOperationErrorIsThePathsOrNotByProvider)
{
    EXPECT_EQ(DT_WC_CLASS_TRANSPORT, dt_wc_status_class(DT_PROVIDER_RXE, IBV_WC_LOC_QP_OP_ERR));
    EXPECT_EQ(DT_WC_CLASS_TRANSPORT, dt_wc_status_class(DT_PROVIDER_OTHER, IBV_WC_LOC_QP_OP_ERR));
    EXPECT_EQ(DT_WC_CLASS_CALLER, dt_wc_status_class(DT_PROVIDER_MLX, IBV_WC_LOC_QP_OP_ERR));
    EXPECT_EQ(DT_WC_CLASS_CALLER, dt_wc_status_class(DT_PROVIDER_SOFT, IBV_WC_LOC_QP_OP_ERR));
}

TEST(WcStatus, AStatusFromTheFutureIsTransportAndHasAText)
{
    EXPECT_EQ(dt_wc_status_class(DT_PROVIDER_OTHER, 4711), DT_WC_CLASS_TRANSPORT);
    EXPECT_STREQ(dt_wc_status_text(4711), "unknown completion status");
}
