/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include "base/prng.h"
#include "delay/timer.h"

namespace
{
constexpr uint64_t kUs = DT_NS_PER_US;

/* Waits 1000 times on a machine whose sleeps end late by 50 to 90 us: how many deadlines are missed? */
TEST(DelayTimer, LearnsHowLateTheMachineIs)
{
    dt_delay_timer timer;
    dt_prng prng;
    uint64_t now = 0, missed = 0;

    dt_delay_timer_init(&timer);
    dt_prng_init(&prng, 1);
    for (int i = 0; i < 1000; i++) {
        uint64_t deadline = now + 30 * DT_NS_PER_MS;
        uint64_t until = dt_delay_timer_sleep_until_ns(&timer, deadline);
        uint64_t woke = until + dt_prng_between(&prng, 50, 90) * kUs;
        ASSERT_LE(until, deadline);
        ASSERT_LE(deadline - until, DT_DELAY_SPIN_NS_MAX);
        dt_delay_timer_slept(&timer, now, until, woke);
        dt_delay_timer_spun(&timer, woke < deadline ? deadline - woke : 0);
        missed += woke > deadline;
        now = woke > deadline ? woke : deadline;
    }
    EXPECT_LE(missed, 10u);
    EXPECT_EQ(1000u, timer.waits);
    EXPECT_LT(timer.spun_ns, 1000 * 60 * kUs) << "and it does not spin more than the spread asks for";
    EXPECT_GT(timer.slept_ns, timer.spun_ns * 100);
}

TEST(DelayTimer, NeverSpinsForLong)
{
    dt_delay_timer timer;
    dt_delay_timer_init(&timer);
    for (int i = 0; i < 100; i++)
        dt_delay_timer_slept(&timer, 0, 1000, 1000 + DT_NS_PER_S);
    EXPECT_EQ(DT_NS_PER_S - DT_DELAY_SPIN_NS_MAX, dt_delay_timer_sleep_until_ns(&timer, DT_NS_PER_S));
    EXPECT_EQ(0u, dt_delay_timer_sleep_until_ns(&timer, 5));
}
} // namespace
