// SPDX-License-Identifier: Apache-2.0
#include "detect/baseline.h"

#include <gtest/gtest.h>

namespace
{
const uint64_t kMiB = 1 << 20;

class Baseline : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        dt_baseline_init(&baseline, &rule);
    }
    void Learn(uint64_t bytes, uint64_t service_ns, int count)
    {
        for (int i = 0; i < count; i++)
            dt_baseline_learn(&baseline, bytes, service_ns);
    }
    const dt_baseline_rule rule = {4, 3};
    dt_baseline baseline;
};

TEST_F(Baseline, AClassIsUnknownUntilTheGivenNumberOfMessages)
{
    Learn(kMiB, 1000, 3);
    EXPECT_EQ(0u, dt_baseline_ns(&baseline, kMiB));
    EXPECT_EQ(0u, dt_baseline_above_ns(&baseline, 1));
    Learn(kMiB, 1000, 1);
    EXPECT_EQ(1000u, dt_baseline_ns(&baseline, kMiB));
    EXPECT_EQ(1000u, dt_baseline_above_ns(&baseline, 1));
}

TEST_F(Baseline, KeepsTheFastestMessageUntilItIsKnownAndAveragesAfterwards)
{
    for (uint64_t service_ns : {9000u, 800u, 5000u, 1000u})
        Learn(kMiB, service_ns, 1);
    EXPECT_EQ(800u, dt_baseline_ns(&baseline, kMiB));
    Learn(kMiB, 1600, 1);
    EXPECT_EQ(900u, dt_baseline_ns(&baseline, kMiB)) << "an eighth of the difference";
    Learn(kMiB, 100, 1);
    EXPECT_EQ(800u, dt_baseline_ns(&baseline, kMiB));
}

TEST_F(Baseline, AnUnknownClassScalesTheNearestKnownOneBelow)
{
    Learn(1024, 100, 4);
    Learn(kMiB, 70000, 4);
    EXPECT_EQ(100u, dt_baseline_ns(&baseline, 2047)) << "the same class";
    EXPECT_EQ(400u, dt_baseline_ns(&baseline, 4096));
    EXPECT_EQ(140000u, dt_baseline_ns(&baseline, 2 * kMiB));
    EXPECT_EQ(0u, dt_baseline_ns(&baseline, 512)) << "only larger classes are known";
    EXPECT_EQ(100u, dt_baseline_above_ns(&baseline, 512));
    EXPECT_EQ(0u, dt_baseline_above_ns(&baseline, kMiB)) << "none above";
}

TEST_F(Baseline, ExtremeSizesAndTimesStayInRange)
{
    Learn(0, 0, 4);
    EXPECT_EQ(1u, dt_baseline_ns(&baseline, 1)) << "0 and 1 byte are one class";
    EXPECT_EQ(uint64_t{1} << 20, dt_baseline_ns(&baseline, UINT64_MAX)) << "scaled by at most 2^20";
    Learn(UINT64_MAX, 7, 4);
    EXPECT_EQ(7u, dt_baseline_ns(&baseline, UINT64_MAX));
    Learn(0, 0, 100);
    EXPECT_EQ(1u, dt_baseline_ns(&baseline, 0));
}
} // namespace
