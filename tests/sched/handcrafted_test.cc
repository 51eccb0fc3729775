// SPDX-License-Identifier: Apache-2.0
// ZB-H1, ZB-H2 and ZB-V against the numbers of the Zero Bubble paper, arXiv 2401.10241.
#include "tests/sched/zero_bubble_table.h"

using namespace sched_test;

TEST(ZeroBubbleByHand, H2HasTheMakespanOfH1AndAShorterSpan)
{
    Arena arena;
    Profile profile = Profile::Uniform(4, 12, 10 * kMs, 10 * kMs, 10 * kMs);
    struct detour_plan *h1 = Generate(arena, profile, DETOUR_ALGORITHM_ZB_H1);
    struct detour_plan *h2 = Generate(arena, profile, DETOUR_ALGORITHM_ZB_H2);
    EXPECT_EQ(h1->makespan_ns, 390 * kMs);
    EXPECT_EQ(h2->makespan_ns, 390 * kMs);
    EXPECT_EQ(h1->longest_span_ns, 390 * kMs);
    EXPECT_EQ(h2->longest_span_ns, 360 * kMs);
}

TEST(ZeroBubbleByHand, RatesAreThoseOfThePaper)
{
    for (const ZeroBubbleRow &row : kZeroBubbleTable) {
        Profile profile = ProfileOf(row);
        SCOPED_TRACE(std::to_string(row.stages) + " stages, " + std::to_string(row.microbatches) +
                     " microbatches");
        EXPECT_EQ(Rate(profile, DETOUR_ALGORITHM_1F1B), std::lround(row.rate_1f1b * 10000));
        EXPECT_EQ(Rate(profile, DETOUR_ALGORITHM_ZB_H1), std::lround(row.rate_h1 * 10000));
        EXPECT_EQ(Rate(profile, DETOUR_ALGORITHM_ZB_H2), std::lround(row.rate_h2 * 10000));
    }
}

/*
 * ZB-V by what section 6 of the Zero Bubble paper says about it. (Its rates in table 8 are for times that
 * were not published.) With p devices and equal times: no bubble; p M_B of activations on every device, which
 * are 2 p activations of a stage, as there are two stages of half the size; 2 p - 1 forwards ahead of the
 * first backward on each device, 2 p - i of the first stage and i - 1 of the second on device i = 1..p; and
 * so the makespan is the work of a device after the p - 1 forwards that the last one waits.
 */
TEST(ZeroBubbleV, HasThePropertiesThatThePaperStates)
{
    for (int32_t p = 2; p <= 8; p++) {
        for (int32_t m : {2 * p, 2 * p + 1, 3 * p, 4 * p + 3}) {
            SCOPED_TRACE(std::to_string(p) + " devices, " + std::to_string(m) + " microbatches");
            Arena arena;
            Profile profile = Profile::Uniform(2 * p, m, 10, 10, 10);
            for (int32_t i = 0; i < 2 * p; i++) {
                profile.stages[i].device = i < p ? i : 2 * p - 1 - i;
                profile.stages[i].bytes_f = 1;
            }
            struct detour_plan *plan = Generate(arena, profile, DETOUR_ALGORITHM_ZB_V);
            struct detour_report *report = nullptr;
            ASSERT_EQ(detour_simulate(arena, profile.get(), plan->schedule, &report, nullptr), DETOUR_OK);
            EXPECT_EQ(report->bubble_ratio_span, 0);
            EXPECT_EQ(plan->makespan_ns, 10 * (6 * m + p - 1));
            for (int32_t d = 0; d < p; d++) {
                EXPECT_EQ(report->devices[d].idle_ns, 0) << "device " << d;
                EXPECT_EQ(report->devices[d].peak_bytes, 2 * p) << "device " << d;
                int32_t warmup[2] = {0, 0}; // of the stage on the way down, and up
                for (size_t k = plan->schedule->first[d]; plan->schedule->ops[k].kind == DETOUR_OP_F; k++)
                    warmup[plan->schedule->ops[k].stage >= p]++;
                // The first F of the steady phase stands ahead of the first B too.
                EXPECT_EQ(warmup[0], 2 * p - (d + 1)) << "device " << d;
                EXPECT_EQ(warmup[1], d + 1) << "device " << d;
            }
        }
    }
}
