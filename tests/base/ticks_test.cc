/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <thread>

#include "base/clock.h"
#include "base/ticks.h"

namespace
{
uint64_t Virtual(void *arg)
{
    return *static_cast<uint64_t *>(arg);
}

TEST(Ticks, VirtualTimeIsItsOwnTick)
{
    uint64_t now_ns = 5000;
    dt_ticks ticks;
    dt_ticks_init_virtual(&ticks, Virtual, &now_ns);
    uint64_t first = dt_ticks_now(&ticks);
    now_ns += 30000000;
    EXPECT_EQ(30000000u, dt_ticks_to_ns(&ticks, dt_ticks_now(&ticks) - first));
    EXPECT_EQ(now_ns, dt_ticks_moment_ns(&ticks, dt_ticks_now(&ticks)));
    dt_ticks_calibrate(&ticks);
    EXPECT_EQ(30000000u, dt_ticks_to_ns(&ticks, 30000000)) << "there is nothing to compare it with";
}

/* However long a thread is kept waiting, a stamp lies between the clock readings around it. */
TEST(Ticks, AStampIsAMomentOfTheClock)
{
    dt_ticks ticks;
    dt_ticks_init(&ticks);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    dt_ticks_calibrate(&ticks);
    for (int i = 0; i < 1000; i++) {
        uint64_t before_ns = dt_clock_now_ns();
        uint64_t moment_ns = dt_ticks_moment_ns(&ticks, dt_ticks_now(&ticks));
        uint64_t after_ns = dt_clock_now_ns();
        /* Less than a wrong scale would make, far more than the best of eight readings is off. */
        const uint64_t error_ns = 20 * DT_NS_PER_MS;
        ASSERT_LE(before_ns, moment_ns + error_ns);
        ASSERT_LE(moment_ns, after_ns + error_ns);
    }
}

TEST(Ticks, AnHourDoesNotOverflow)
{
    dt_ticks ticks = {};
    ticks.scale = (1ull << 32) / 4; // 4 GHz
    EXPECT_EQ(3600ull * DT_NS_PER_S, dt_ticks_to_ns(&ticks, 4 * 3600ull * DT_NS_PER_S));
    ticks.base_ns = 7;
    ticks.base_ticks = 100;
    EXPECT_EQ(7u, dt_ticks_moment_ns(&ticks, 99)) << "before the beginning";
}
} // namespace
