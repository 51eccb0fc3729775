// SPDX-License-Identifier: Apache-2.0
// The Zero Bubble heuristic against the paper, arXiv 2401.10241.
#include "tests/sched/zero_bubble_table.h"

using namespace sched_test;

/*
 * The heuristic under memory limits. Bytes as in section 2 of the paper: a layer holds 34 h + 5 a s per token
 * from F to B and 32 h from B to W.
 */
TEST(ZeroBubble, RatesOfTheHeuristicAreThoseOfThePaper)
{
    for (const ZeroBubbleRow &row : kZeroBubbleTable) {
        Profile profile = ProfileOf(row);
        for (struct detour_stage &stage : profile.stages) {
            stage.bytes_f = 34 * row.hidden + 5 * row.heads * 1024;
            stage.bytes_w = 32 * row.hidden;
        }
        SCOPED_TRACE(std::to_string(row.stages) + " stages, " + std::to_string(row.microbatches) +
                     " microbatches");
        for (int32_t factor = 1; factor <= 2; factor++) {
            for (struct detour_device &device : profile.devices)
                device.capacity_bytes = factor * row.stages * profile.stages[0].bytes_f;
            EXPECT_EQ(Rate(profile, DETOUR_ALGORITHM_ZB),
                      std::lround((factor == 1 ? row.rate_zb_1p : row.rate_zb_2p) * 10000));
        }
    }
}
