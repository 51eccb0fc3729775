// SPDX-License-Identifier: Apache-2.0
#include "base/wakeup.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/atomics.h"
#include "base/clock.h"

namespace
{
TEST(Wakeup, APostBeforeTheWaitEndsIt)
{
    dt_wakeup wakeup = {};
    dt_wakeup_post(&wakeup);
    dt_wakeup_post(&wakeup); // no more than one
    dt_wakeup_wait(&wakeup, DT_NEVER_NS);
    EXPECT_EQ(0u, wakeup.state);
}

TEST(Wakeup, TheTimeEndsTheWait)
{
    dt_wakeup wakeup = {};
    dt_wakeup_wait(&wakeup, 1); // long over
    uint64_t until_ns = dt_clock_now_ns() + DT_NS_PER_MS;
    dt_wakeup_wait(&wakeup, until_ns);
    EXPECT_GE(dt_clock_now_ns(), until_ns);
    EXPECT_EQ(0u, wakeup.state);
}

// Both threads would wait for ever after one lost post.
TEST(Wakeup, NoPostIsLost)
{
    static const uint32_t rounds = 20000;
    dt_wakeup there = {}, back = {};
    std::atomic<uint32_t> asked{0}, answered{0};
    std::thread other([&] {
        for (uint32_t i = 1; i <= rounds; i++) {
            while (asked < i)
                dt_wakeup_wait(&there, DT_NEVER_NS);
            answered = i;
            dt_wakeup_post(&back);
        }
    });
    for (uint32_t i = 1; i <= rounds; i++) {
        asked = i;
        dt_wakeup_post(&there);
        while (answered < i)
            dt_wakeup_wait(&back, DT_NEVER_NS);
    }
    other.join();
    EXPECT_EQ(rounds, answered);
}
} // namespace
