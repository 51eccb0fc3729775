/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/pause.h"

#include <gtest/gtest.h>

namespace
{
TEST(SetupPause, TheFirstCallPauses)
{
    struct dt_setup_pause pause = {};
    EXPECT_EQ(dt_setup_pause_take(&pause, 5), uint64_t(DT_SETUP_PAUSE_NS));
}

TEST(SetupPause, TakesAtMostHalfOfTheTime)
{
    struct dt_setup_pause pause = {};
    uint64_t now_ns = 1000, start_ns = now_ns, paused_ns = 0;
    while (now_ns < start_ns + 1000 * DT_SETUP_PAUSE_NS) {
        uint64_t ns = dt_setup_pause_take(&pause, now_ns);
        paused_ns += ns;
        now_ns += ns + 700; /* one unsuccessful call */
    }
    EXPECT_LE(paused_ns, (now_ns - start_ns + DT_SETUP_PAUSE_NS) / 2 + DT_SETUP_PAUSE_NS);
    EXPECT_GE(paused_ns, (now_ns - start_ns) / 2 - DT_SETUP_PAUSE_NS - 1000 * 700);
}

TEST(SetupPause, CallsAtLongerIntervalsPauseEachTime)
{
    struct dt_setup_pause pause = {};
    for (uint64_t now_ns = 1; now_ns < 100 * DT_SETUP_PAUSE_NS; now_ns += 2 * DT_SETUP_PAUSE_NS)
        EXPECT_EQ(dt_setup_pause_take(&pause, now_ns), uint64_t(DT_SETUP_PAUSE_NS));
}
} // namespace
