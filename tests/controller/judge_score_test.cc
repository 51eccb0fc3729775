// SPDX-License-Identifier: Apache-2.0
// The accuracy that docs/judge-quality.md reports, on a few seeds. Deterministic: no timing.
#include "tests/controller/judge_score.h"

#include <gtest/gtest.h>

#include <memory>

namespace
{
// Three traces of each row of 20 % and more, one of the others. Drifts below 10 % need minutes and may end
// before.
TEST(JudgeQuality, SlowLinksAndDevicesAreNamedAndHealthyOnesAreNot)
{
    auto score = std::make_unique<struct score>();
    uint32_t late = 0, slow = 0, drifts = 0, false_alarms = 0, row = 0;
    trace_kind kind;
    trace_band band;

    while (score_row(row++, &kind, &band)) {
        bool has_incident = kind != TRACE_KIND_QUIET && kind != TRACE_KIND_FABRIC;
        bool is_slow = has_incident && band == TRACE_BAND_SLOW, is_drift = band == TRACE_BAND_DRIFT;

        for (uint64_t seed = 1; seed <= (is_slow ? 3 : 1); seed++) {
            score_trace(score.get(), kind, band, seed, has_incident && !is_drift ? SCORE_NAMED : SCORE_WHOLE);
            false_alarms += score->false_alarms;
            if (!has_incident)
                continue;
            const score_incident &one = score->incidents[0];
            bool may_be_missed = is_drift && one.named_as == SCORE_NOT_NAMED;

            EXPECT_TRUE(one.is_right || may_be_missed)
                << cluster_trace_kind_name(kind) << ", " << cluster_trace_band_name(band) << ": named as "
                << one.named_as;
            drifts += is_drift && one.is_right;
            slow += is_slow;
            late += is_slow && one.latency_ns > SCORE_LIMIT_NS;
        }
    }
    EXPECT_EQ(slow, 18u);
    EXPECT_EQ(late, 0u);
    EXPECT_GE(drifts, 2u) << "of 5";
    EXPECT_EQ(false_alarms, 0u);
}
} // namespace
