// SPDX-License-Identifier: Apache-2.0
#include "controller/lease.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "base/clock.h"
#include "controller/store_memory.h"

namespace
{
const uint64_t kMs = DT_NS_PER_MS;

class Lease : public ::testing::Test
{
  protected:
    Lease()
    {
        store = dt_store_memory_create(1);
        for (dt_lease *lease : {&one, &two}) {
            lease->store = store;
            snprintf(lease->name, sizeof lease->name, "controller");
            lease->ms = 3000;
        }
        snprintf(one.holder, sizeof one.holder, "one");
        snprintf(two.holder, sizeof two.holder, "two");
    }
    ~Lease() override
    {
        store->ops->close(store);
    }

    dt_store *store;
    dt_lease one = {}, two = {};
};

TEST_F(Lease, OneHolderHasItAndItPassesOnByItsRelease)
{
    EXPECT_EQ(dt_lease_renew(&one, 0), DT_AGAIN) << "it was never held";
    EXPECT_EQ(dt_lease_acquire(&one, 0), DT_OK);
    EXPECT_TRUE(dt_lease_is_held(&one, 2999 * kMs));
    EXPECT_EQ(dt_lease_acquire(&two, 1 * kMs), DT_AGAIN);
    EXPECT_FALSE(dt_lease_is_held(&two, 1 * kMs));
    dt_lease_release(&one);
    EXPECT_FALSE(dt_lease_is_held(&one, 2 * kMs));
    EXPECT_EQ(dt_lease_acquire(&two, 2 * kMs), DT_OK);
    EXPECT_GT(two.fence, one.fence);
    dt_lease_release(&one); /* it is not held: nothing of the other's */
    EXPECT_EQ(dt_lease_renew(&two, 1500 * kMs), DT_OK);
}

TEST_F(Lease, IsRenewedAfterAThirdOfItsTime)
{
    ASSERT_EQ(dt_lease_acquire(&one, 0), DT_OK);
    EXPECT_EQ(dt_lease_renew(&one, 999 * kMs), DT_OK);
    EXPECT_FALSE(dt_lease_is_held(&one, 3000 * kMs)) << "it was not due";
    EXPECT_EQ(dt_lease_renew(&one, 1000 * kMs), DT_OK);
    EXPECT_TRUE(dt_lease_is_held(&one, 3999 * kMs));
    EXPECT_FALSE(dt_lease_is_held(&one, 4000 * kMs));
}

TEST_F(Lease, ThatHasEndedIsNotRenewed)
{
    ASSERT_EQ(dt_lease_acquire(&one, 0), DT_OK);
    EXPECT_EQ(dt_lease_renew(&one, 3000 * kMs), DT_AGAIN);
    EXPECT_FALSE(dt_lease_is_held(&one, 0));
    EXPECT_EQ(dt_lease_acquire(&one, 3000 * kMs), DT_OK);
}

TEST_F(Lease, ThatHasPassedToAnotherIsNotRenewed)
{
    ASSERT_EQ(dt_lease_acquire(&one, 0), DT_OK);
    ASSERT_EQ(store->ops->lease_release(store, one.name, one.holder, one.fence), DT_OK);
    ASSERT_EQ(dt_lease_acquire(&two, 0), DT_OK);
    EXPECT_EQ(dt_lease_renew(&one, 1000 * kMs), DT_AGAIN);
    EXPECT_FALSE(one.is_held);
}
} // namespace
