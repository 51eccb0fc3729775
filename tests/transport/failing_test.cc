/* SPDX-License-Identifier: Apache-2.0 */
/* A connection that fails: fence first, then the error; and a fence that never ends. */
#include "transport/failing.h"

#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"
#include "transport/message/connection.h"
#include "transport/service_state.h"
#include "transport/session/session.h"

namespace
{
class Failing : public detour_test::TwoNets
{
  protected:
    void SetUp() override
    {
        Listen();
        Establish();
        detour_test::ExpectWarning("a test");
        dt_connection_fail(sender, DT_SYSTEM, "a test");
        ASSERT_EQ((uint32_t)DT_SYSTEM, dt_load_relaxed(&sender->failing));
    }
};

TEST_F(Failing, TheErrorIsVisibleOnceAllPathsAreFenced)
{
    dt_failing_progress(sender, now_ns);
    EXPECT_EQ(sender->path_count, dt_load_relaxed(&sender->group.fences_pending));
    EXPECT_EQ((uint32_t)DT_OK, dt_load_relaxed(&sender->error));
    EXPECT_EQ(DT_AGAIN, dt_connection_check(sender));
    Step(); // the control threads' tasks run
    EXPECT_EQ(0u, dt_load_relaxed(&sender->group.fences_pending));
    EXPECT_EQ((uint32_t)DT_SYSTEM, dt_load_relaxed(&sender->error));
    for (uint32_t p = 0; p < sender->path_count; p++)
        EXPECT_TRUE(dt_qp_is_in_error(sender->path[p].qp[0])) << "path " << p;
}

TEST_F(Failing, ThePeerGetsClose)
{
    StepUntil([&] { return receiver->session->has_peer_closed; });
    EXPECT_TRUE(dt_load_relaxed(&receiver->notices) & DT_NOTICE_PEER_CLOSED);
    StepUntil([&] { return sender->session->is_close_acknowledged; });
}

/* No control thread runs between these calls: the fence hangs. */
TEST_F(Failing, AFenceThatHangsHoldsTheErrorUpForABoundedTime)
{
    detour_test::ExpectWarning("did not fence its queue pairs within 1000 ms");
    dt_failing_progress(sender, now_ns);
    dt_failing_progress(sender, now_ns + DT_FAIL_FENCE_NS - 1);
    EXPECT_EQ((uint32_t)DT_OK, dt_load_relaxed(&sender->error));
    dt_failing_progress(sender, now_ns + DT_FAIL_FENCE_NS);
    EXPECT_EQ((uint32_t)DT_SYSTEM, dt_load_relaxed(&sender->error));
    EXPECT_EQ(2u, detour_test::WarningCount());
    dt_failing_progress(sender, now_ns + 2 * DT_FAIL_FENCE_NS);
    EXPECT_EQ(2u, detour_test::WarningCount()) << "the line repeats";
}
} // namespace
