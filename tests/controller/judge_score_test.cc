// SPDX-License-Identifier: Apache-2.0
// The accuracy that docs/detection.md reports, on one seed. Deterministic: no timing.
#include "tests/controller/judge_score.h"

#include <gtest/gtest.h>

#include <memory>

namespace
{
// One trace of each row. Drifts below 10 % need minutes and may end before.
TEST(JudgeQuality, SlowLinksAndDevicesAreNamedAndHealthyOnesAreNot)
{
    auto score = std::make_unique<struct score>();
    uint32_t in_time = 0, drifts = 0, false_alarms = 0, row = 0;
    trace_kind kind;
    trace_band band;

    while (score_row(row++, &kind, &band)) {
        score_trace(score.get(), kind, band, 1, false);
        false_alarms += score->false_alarms;
        if (kind == TRACE_KIND_QUIET || kind == TRACE_KIND_FABRIC)
            continue;
        const score_incident &one = score->incidents[0];
        bool may_be_missed = band == TRACE_BAND_DRIFT && one.named_as == SCORE_NOT_NAMED;

        EXPECT_TRUE(one.is_right || may_be_missed)
            << cluster_trace_kind_name(kind) << ", " << cluster_trace_band_name(band) << ": named as "
            << one.named_as;
        drifts += band == TRACE_BAND_DRIFT && one.is_right;
        in_time += band == TRACE_BAND_SLOW && one.is_right && one.latency_ns <= SCORE_LIMIT_NS;
    }
    EXPECT_GE(in_time, 5u) << "of 6";
    EXPECT_GE(drifts, 2u) << "of 5";
    EXPECT_LE(false_alarms, 1u);
}
} // namespace
