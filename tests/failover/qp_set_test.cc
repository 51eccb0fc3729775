/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include "failover/qp_set.h"

namespace
{
TEST(QpSet, OfTheFirstHasThoseAndNoOthers)
{
    for (uint32_t count = 0; count <= DT_QPS_MAX; count++) {
        dt_qp_set set = dt_qp_set_of_first(count);
        for (uint32_t q = 0; q < DT_QPS_MAX; q++)
            EXPECT_EQ(q < count, dt_qp_set_has(&set, q)) << q << " of " << count;
    }
}

TEST(QpSet, ContainsAnotherUnlessAMemberIsMissing)
{
    const dt_qp_set all = dt_qp_set_of_first(DT_QPS_MAX), none = {};
    EXPECT_TRUE(dt_qp_set_contains(&none, &none));
    EXPECT_TRUE(dt_qp_set_contains(&all, &none));
    for (uint32_t q = 0; q < DT_QPS_MAX; q++) {
        dt_qp_set one = none, others = all;
        dt_qp_set_add(&one, q);
        dt_qp_set_remove(&others, q);
        EXPECT_TRUE(dt_qp_set_contains(&all, &one)) << q;
        EXPECT_FALSE(dt_qp_set_contains(&none, &one)) << q;
        EXPECT_FALSE(dt_qp_set_contains(&others, &one)) << q;
        EXPECT_FALSE(dt_qp_set_contains(&others, &all)) << q;
        dt_qp_set_remove(&one, q);
        EXPECT_TRUE(dt_qp_set_contains(&none, &one)) << q;
    }
}

TEST(QpSet, HasNoPlaceBehindTheLastQueuePair)
{
    dt_qp_set set = {};
    EXPECT_DEATH(dt_qp_set_add(&set, DT_QPS_MAX), "broken invariant");
    EXPECT_DEATH(dt_qp_set_remove(&set, DT_QPS_MAX), "broken invariant");
    EXPECT_DEATH((void)dt_qp_set_has(&set, DT_QPS_MAX), "broken invariant");
    EXPECT_DEATH((void)dt_qp_set_of_first(DT_QPS_MAX + 1), "broken invariant");
}
} // namespace
