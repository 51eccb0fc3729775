// SPDX-License-Identifier: Apache-2.0
// The accuracy that docs/benchmarks.md reports, on seeds of this test's own. Deterministic: no timing.
#include <gtest/gtest.h>

#include "detect/monitor.h"
#include "tests/detect/trace.h"

namespace
{
TEST(Quality, SlowPhasesAreFoundAndHealthyTracesLeftAlone)
{
    const uint64_t kFirst = 500000, kTraces = 200;
    uint32_t right = 0, false_alarms = 0, all = 0;

    for (int family = 0; family < TRACE_FAMILY_COUNT; family++)
        for (uint64_t seed = kFirst; seed < kFirst + kTraces; seed++) {
            trace trace;
            dt_monitor monitor;
            uint32_t called = 0;

            trace_make(&trace, static_cast<trace_family>(family), seed);
            dt_monitor_init(&monitor);
            while (called < trace.count && !dt_monitor_verdict(&monitor).is_slow)
                dt_monitor_add(&monitor, trace.seconds[called++]);
            bool is_called = dt_monitor_verdict(&monitor).is_slow;
            bool is_early = is_called && trace.is_slow && called - 1 < trace.first_slow;
            right += is_called == trace.is_slow && !is_early;
            false_alarms += (is_called && !trace.is_slow) || is_early;
            all++;
        }
    EXPECT_GE(right * 1000, all * 995) << right << " of " << all;
    EXPECT_LE(false_alarms * 1000, all * 5) << false_alarms << " of " << all;
}

TEST(Trace, TheTruthFollowsTheLevels)
{
    uint32_t slow = 0;

    for (int family = 0; family < TRACE_FAMILY_COUNT; family++)
        for (uint64_t seed = 1; seed <= 100; seed++) {
            trace trace;
            trace_make(&trace, static_cast<trace_family>(family), seed);
            ASSERT_GE(trace.count, 300u);
            ASSERT_LE(trace.count, static_cast<uint32_t>(TRACE_ITERATIONS_MAX));
            for (uint32_t i = 0; i < TRACE_QUIET; i++)
                ASSERT_EQ(trace.level[i], 1);
            slow += trace.is_slow;
            for (uint32_t i = 0; trace.is_slow && i < TRACE_SLOW_RUN; i++)
                ASSERT_GE(trace.level[trace.first_slow + i], TRACE_SLOW_LEVEL);
        }
    EXPECT_GT(slow, 200u);
    EXPECT_LT(slow, 400u);
}
} // namespace
