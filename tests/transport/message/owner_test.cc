/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "transport/message/owner.h"

namespace
{
class Owner : public ::testing::TestWithParam<bool>
{
  protected:
    void SetUp() override
    {
        has_membarrier_ = GetParam();
        if (has_membarrier_ && !dt_owner_setup())
            GTEST_SKIP() << "this kernel has no membarrier(2)";
        dt_owner_init(&owner_, has_membarrier_);
    }
    bool has_membarrier_ = false;
    dt_owner owner_ = {};
};

TEST_P(Owner, IsNcclUntilTaken)
{
    EXPECT_TRUE(dt_owner_enter(&owner_));
    dt_owner_leave(&owner_);
    ASSERT_TRUE(dt_owner_take(&owner_));
    EXPECT_FALSE(dt_owner_enter(&owner_));
    EXPECT_FALSE(dt_owner_enter(&owner_));
    dt_owner_give_back(&owner_);
    EXPECT_TRUE(dt_owner_enter(&owner_));
    dt_owner_leave(&owner_);
}

TEST_P(Owner, IsNotTakenFromWithinACall)
{
    ASSERT_TRUE(dt_owner_enter(&owner_));
    EXPECT_FALSE(dt_owner_take(&owner_));
    dt_owner_leave(&owner_);
    EXPECT_TRUE(dt_owner_enter(&owner_)) << "a take that failed leaves it with NCCL";
    dt_owner_leave(&owner_);
    EXPECT_TRUE(dt_owner_take(&owner_));
}

TEST_P(Owner, ManyAreTakenWithOneFence)
{
    dt_owner inside = {};
    dt_owner_init(&inside, has_membarrier_);
    ASSERT_TRUE(dt_owner_enter(&inside));
    dt_owner_claim(&owner_);
    dt_owner_claim(&inside);
    EXPECT_FALSE(dt_owner_enter(&owner_)) << "claimed is claimed, also before it is confirmed";
    dt_owner_fence(has_membarrier_);
    EXPECT_TRUE(dt_owner_confirm(&owner_));
    EXPECT_FALSE(dt_owner_confirm(&inside)) << "NCCL is in there";
    EXPECT_FALSE(dt_owner_enter(&owner_));
    dt_owner_give_back(&owner_);
    EXPECT_TRUE(dt_owner_enter(&owner_));
    dt_owner_leave(&owner_);
    dt_owner_leave(&inside);
    EXPECT_TRUE(dt_owner_take(&inside)) << "what could not be confirmed was given back";
}

TEST_P(Owner, VisitsTellThatNcclCalled)
{
    uint32_t before = dt_owner_visits(&owner_);
    EXPECT_EQ(before, dt_owner_visits(&owner_));
    ASSERT_TRUE(dt_owner_enter(&owner_));
    dt_owner_leave(&owner_);
    EXPECT_NE(before, dt_owner_visits(&owner_));
    before = dt_owner_visits(&owner_);
    ASSERT_TRUE(dt_owner_take(&owner_));
    EXPECT_FALSE(dt_owner_enter(&owner_));
    EXPECT_NE(before, dt_owner_visits(&owner_)) << "also when it was turned away";
    dt_owner_give_back(&owner_);
}

/*
 * Two threads hammer the hand-over; what they share is plain memory, so a lost update, a torn invariant or,
 * under ThreadSanitizer, a missing edge shows any moment in which both were inside.
 */
TEST_P(Owner, NeverTwoInside)
{
    struct {
        uint64_t a, b;
    } shared = {0, 0};
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> taken{0};
    uint64_t broken_here = 0, broken_there = 0;
    std::thread detour([&] {
        for (unsigned i = 0; !stop.load(std::memory_order_relaxed); i++) {
            // Bursts without a pause meet NCCL's side at its door; between them it gets its turn.
            for (unsigned pause = i % 16 ? 0 : 300; pause; pause--)
                dt_cpu_relax();
            if (!dt_owner_take(&owner_))
                continue;
            broken_there += shared.a != shared.b;
            shared.a++;
            shared.b++;
            taken++;
            dt_owner_give_back(&owner_);
        }
    });
    uint64_t entered = 0;
    for (uint64_t i = 0; entered < 100000 || taken < 5000; i++) {
        if (i % 1024 == 0)
            std::this_thread::yield(); // on one processor the other thread has to run, too
        if (!dt_owner_enter(&owner_))
            continue;
        broken_here += shared.a != shared.b;
        shared.a++;
        shared.b++;
        entered++;
        dt_owner_leave(&owner_);
    }
    stop = true;
    detour.join();
    EXPECT_EQ(0u, broken_here + broken_there);
    EXPECT_EQ(entered + taken, shared.a);
    EXPECT_EQ(shared.a, shared.b);
}

INSTANTIATE_TEST_SUITE_P(Both, Owner, ::testing::Bool(),
                         [](const auto &which) { return which.param ? "Membarrier" : "Exchange"; });
} // namespace
