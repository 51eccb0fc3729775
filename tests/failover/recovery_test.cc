/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include "base/clock.h"
#include "failover/recovery.h"

namespace
{
const uint64_t kStable = 800 * DT_NS_PER_MS;

struct Recovery : ::testing::Test {
    dt_recovery r;
    uint64_t now_ns = DT_NS_PER_S;
    void SetUp() override
    {
        dt_recovery_init(&r);
    }
};

TEST_F(Recovery, WantsNothingWhileNothingWasLost)
{
    EXPECT_FALSE(dt_recovery_is_due(&r, DT_NEVER_NS - 1));
    dt_recovery_hint(&r, now_ns);
    EXPECT_FALSE(dt_recovery_is_due(&r, DT_NEVER_NS - 1));
}

TEST_F(Recovery, TriesSoonAfterTheFirstLoss)
{
    dt_recovery_path_failed(&r, now_ns);
    EXPECT_FALSE(dt_recovery_is_due(&r, now_ns));
    EXPECT_TRUE(dt_recovery_is_due(&r, now_ns + DT_RECOVERY_PAUSE_NS_FIRST));
}

TEST_F(Recovery, TriesMoreAndMoreSeldomButForEver)
{
    uint64_t pause_ns = 0;
    dt_recovery_path_failed(&r, now_ns);
    for (int i = 0; i < 40; i++) {
        ASSERT_NE(DT_NEVER_NS, r.next_ns);
        EXPECT_GE(r.next_ns - now_ns, pause_ns);
        pause_ns = r.next_ns - now_ns;
        now_ns = r.next_ns;
        dt_recovery_attempt_failed(&r, now_ns);
    }
    EXPECT_EQ(DT_RECOVERY_PAUSE_NS_MAX, pause_ns);
}

TEST_F(Recovery, AHintCutsThePauseBetweenAttemptsShort)
{
    dt_recovery_path_failed(&r, now_ns);
    for (int i = 0; i < 20; i++)
        dt_recovery_attempt_failed(&r, now_ns);
    EXPECT_FALSE(dt_recovery_is_due(&r, now_ns + DT_NS_PER_S));
    dt_recovery_hint(&r, now_ns);
    EXPECT_TRUE(dt_recovery_is_due(&r, now_ns));
}

TEST_F(Recovery, AFlappingPathWaitsLongerEachTimeDespiteHints)
{
    uint64_t pause_ns = 0;
    dt_recovery_path_failed(&r, now_ns);
    for (int i = 0; i < 15; i++) {
        dt_recovery_up(&r, now_ns);
        EXPECT_FALSE(dt_recovery_is_due(&r, now_ns + DT_NS_PER_S));
        now_ns += 50 * DT_NS_PER_MS;
        dt_recovery_path_failed(&r, now_ns);
        dt_recovery_hint(&r, now_ns);
        EXPECT_GT(r.next_ns, now_ns);
        EXPECT_GE(r.next_ns - now_ns, pause_ns);
        pause_ns = r.next_ns - now_ns;
        now_ns = r.next_ns;
    }
    EXPECT_EQ(DT_RECOVERY_PAUSE_NS_MAX, pause_ns);
    dt_recovery_up(&r, now_ns);
    now_ns += DT_RECOVERY_CALM_NS;
    dt_recovery_path_failed(&r, now_ns);
    EXPECT_EQ(now_ns + DT_RECOVERY_PAUSE_NS_FIRST, r.next_ns) << "it has been calm";
}

TEST_F(Recovery, IsProvenBySmallProbesAndAFullOneAtTheEnd)
{
    int small = 0;
    uint64_t begun_ns = now_ns;
    dt_recovery_start_probing(&r, kStable, now_ns);
    for (;;) {
        dt_probe_kind kind = dt_recovery_probe(&r, now_ns);
        ASSERT_NE(DT_PROBE_NONE, kind);
        EXPECT_EQ(DT_PROBE_NONE, dt_recovery_probe(&r, now_ns)) << "one at a time";
        now_ns += DT_NS_PER_MS;
        dt_recovery_probe_answered(&r, now_ns);
        if (kind == DT_PROBE_FULL)
            break;
        small++;
        EXPECT_FALSE(dt_recovery_is_stable(&r));
        now_ns = dt_recovery_probe_deadline_ns(&r);
    }
    EXPECT_TRUE(dt_recovery_is_stable(&r));
    EXPECT_EQ(DT_RECOVERY_PROBES, small);
    EXPECT_GE(now_ns, begun_ns + kStable);
    EXPECT_EQ(DT_PROBE_NONE, dt_recovery_probe(&r, now_ns + kStable));
}

TEST_F(Recovery, WithNothingElseLeftOneFullProbeIsEnough)
{
    dt_recovery_start_probing(&r, 0, now_ns);
    EXPECT_EQ(DT_PROBE_FULL, dt_recovery_probe(&r, now_ns));
    dt_recovery_probe_answered(&r, now_ns + 1);
    EXPECT_TRUE(dt_recovery_is_stable(&r));
}

TEST_F(Recovery, AProbeThatIsNotAnsweredInTimeIsSilence)
{
    dt_recovery_start_probing(&r, kStable, now_ns);
    EXPECT_FALSE(dt_recovery_probe_timed_out(&r, now_ns + DT_RECOVERY_PROBE_WAIT_NS)) << "none was sent";
    EXPECT_EQ(DT_PROBE_SMALL, dt_recovery_probe(&r, now_ns));
    EXPECT_FALSE(dt_recovery_probe_timed_out(&r, now_ns + DT_RECOVERY_PROBE_WAIT_NS - 1));
    EXPECT_EQ(now_ns + DT_RECOVERY_PROBE_WAIT_NS, dt_recovery_probe_deadline_ns(&r));
    EXPECT_TRUE(dt_recovery_probe_timed_out(&r, now_ns + DT_RECOVERY_PROBE_WAIT_NS));
    dt_recovery_probe_answered(&r, now_ns + DT_RECOVERY_PROBE_WAIT_NS);
    dt_recovery_probe_answered(&r, now_ns + DT_RECOVERY_PROBE_WAIT_NS);
    EXPECT_FALSE(dt_recovery_is_stable(&r));
}
} // namespace
