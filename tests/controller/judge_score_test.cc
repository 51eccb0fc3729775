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

// Traces of which an earlier judge named another cause: in turn an idle host for two NICs that drift, the NIC
// of one link that seemed slower than a busy host explains, the NIC of two links that are slow since two
// times, the NIC of a link to which a slow NIC sends as well, and a busy host for a device of it.
TEST(JudgeQuality, CausesThatWereWrongOnceAreRight)
{
    static const struct {
        trace_kind kind;
        trace_band band;
        uint64_t seed;
        score_extent extent;
    } traces[] = {{TRACE_KIND_NIC, TRACE_BAND_DRIFT, 3060, SCORE_WHOLE},
                  {TRACE_KIND_NIC, TRACE_BAND_DRIFT, 3276, SCORE_WHOLE},
                  {TRACE_KIND_PROCESSOR, TRACE_BAND_SLOW, 3131, SCORE_NAMED},
                  {TRACE_KIND_LINK_BOTH, TRACE_BAND_SLOW, 3377, SCORE_NAMED},
                  {TRACE_KIND_LINK, TRACE_BAND_SLOW, 3574, SCORE_NAMED},
                  {TRACE_KIND_PROCESSOR, TRACE_BAND_SLOW, 3623, SCORE_NAMED}};
    auto score = std::make_unique<struct score>();

    for (const auto &trace : traces) {
        score_trace(score.get(), trace.kind, trace.band, trace.seed, trace.extent);
        EXPECT_EQ(score->false_alarms, 0u) << trace.seed;
        for (uint32_t i = 0; i < score->incident_count; i++) {
            EXPECT_TRUE(score->incidents[i].is_right)
                << trace.seed << ": named as " << score->incidents[i].named_as;
            EXPECT_EQ(score->incidents[i].wrong, 0u) << trace.seed;
        }
    }
}

// Traces of which an earlier judge was late: in turn a link that is slow by 20 % both ways, delays that
// differ by a factor of 20, and such delays of a link whose other direction has a finding already.
TEST(JudgeQuality, LinksThatWereNamedLateOnceAreNamedInTime)
{
    static const struct {
        trace_kind kind;
        uint64_t seed;
    } traces[] = {
        {TRACE_KIND_LINK_BOTH, 3353}, {TRACE_KIND_FLUCTUATING, 3501}, {TRACE_KIND_FLUCTUATING, 3494}};
    auto score = std::make_unique<struct score>();

    for (const auto &trace : traces) {
        score_trace(score.get(), trace.kind, TRACE_BAND_SLOW, trace.seed, SCORE_NAMED);
        EXPECT_EQ(score->false_alarms, 0u) << trace.seed;
        for (uint32_t i = 0; i < score->incident_count; i++) {
            EXPECT_TRUE(score->incidents[i].is_right) << trace.seed;
            EXPECT_LE(score->incidents[i].latency_ns, SCORE_LIMIT_NS) << trace.seed;
        }
    }
}
} // namespace
