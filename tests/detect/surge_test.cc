// SPDX-License-Identifier: Apache-2.0
#include "detect/surge.h"

#include <gtest/gtest.h>

namespace
{
const uint64_t kMs = 1000000, kMiB = 1 << 20;

class Surge : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        dt_surge_init(&surge);
        Messages(50, kMiB, 100000);
    }
    void Messages(int count, uint64_t bytes, uint64_t service_ns)
    {
        for (int i = 0; i < count; i++) {
            now_ns += service_ns;
            dt_surge_message(&surge, bytes, service_ns, now_ns);
        }
    }
    dt_surge surge;
    uint64_t now_ns = 5 * kMs;
};

TEST_F(Surge, ThirtyMillisecondsAreNoticedAtTheThirdMessage)
{
    Messages(2, kMiB, 30 * kMs);
    EXPECT_FALSE(surge.is_on);
    Messages(1, kMiB, 30 * kMs);
    EXPECT_TRUE(surge.is_on);
}

TEST_F(Surge, AMessageThatDoesNotComeIsNoticedAfterAHundredMilliseconds)
{
    dt_surge_waiting(&surge, kMiB, now_ns, now_ns + 99 * kMs);
    EXPECT_FALSE(surge.is_on);
    dt_surge_waiting(&surge, kMiB, now_ns, now_ns + 101 * kMs);
    EXPECT_TRUE(surge.is_on);
}

TEST_F(Surge, EndsAfterASecondOfWellMessagesAndNotBefore)
{
    Messages(3, kMiB, 30 * kMs);
    Messages(40, kMiB, 100000);
    EXPECT_TRUE(surge.is_on) << "4 ms are too short";
    Messages(10000, kMiB, 100000);
    EXPECT_FALSE(surge.is_on);
}

TEST_F(Surge, DoesNotFlapOnALinkThatIsSlowNowAndThen)
{
    Messages(3, kMiB, 30 * kMs);
    for (int i = 0; i < 100; i++) {
        Messages(20, kMiB, 100000);
        Messages(3, kMiB, 30 * kMs);
        ASSERT_TRUE(surge.is_on);
    }
}

TEST_F(Surge, OneOrTwoLateMessagesAreNone)
{
    for (int i = 0; i < 100; i++) {
        Messages(2, kMiB, 50 * kMs);
        Messages(1, kMiB, 100000);
        ASSERT_FALSE(surge.is_on);
    }
}

TEST_F(Surge, LargerMessagesTakeLongerAndAreNoSurge)
{
    Messages(20, 64 * kMiB, 6400000);
    EXPECT_FALSE(surge.is_on);
    Messages(3, 64 * kMiB, 40 * kMs);
    EXPECT_TRUE(surge.is_on);
}

TEST_F(Surge, SmallMessagesMayVaryBelowAMillisecond)
{
    Messages(20, 8, 2000);
    Messages(20, 8, 900000);
    EXPECT_FALSE(surge.is_on);
}

TEST_F(Surge, SlownessFromTheStartIsNotLearned)
{
    dt_surge fresh;
    dt_surge_init(&fresh);
    dt_surge_message(&fresh, UINT64_MAX, 1, 1);
    dt_surge_message(&fresh, 0, 0, 2);
    dt_surge_waiting(&fresh, kMiB, 10, 5);
    EXPECT_FALSE(fresh.is_on);
    // A slow link that stays slow: messages seen while it is slow do not become the usual.
    Messages(5000, kMiB, 30 * kMs);
    EXPECT_TRUE(surge.is_on);
}
} // namespace
