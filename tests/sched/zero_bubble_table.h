/* SPDX-License-Identifier: Apache-2.0 */
/* The published bubble rates of the Zero Bubble schedules, and the same rate of a schedule of this library.
 */
#ifndef DETOUR_TESTS_SCHED_ZERO_BUBBLE_TABLE_H
#define DETOUR_TESTS_SCHED_ZERO_BUBBLE_TABLE_H

#include <cmath>

#include "tests/sched/sched_test.h"

namespace sched_test
{
/* Table 9 (times in ms) and Table 5 (bubble rates) of the Zero Bubble paper, arXiv 2401.10241. */
struct ZeroBubbleRow {
    int32_t stages;
    int32_t microbatches;
    double f_ms, b_ms, w_ms, comm_ms;
    double rate_1f1b, rate_h1, rate_h2;
    double rate_zb_1p, rate_zb_2p; /* the heuristic with the memory of S and of 2 S microbatches */
    int32_t heads, hidden;         /* of the model; its sequences have 1,024 tokens */
};

const ZeroBubbleRow kZeroBubbleTable[] = {
    {8, 24, 18.522, 18.086, 9.337, .601, .2431, .1585, .1083, .1585, .0433, 24, 2304},
    {8, 32, 18.513, 18.086, 9.331, .626, .1985, .1242, .0837, .1242, .0039, 24, 2304},
    {8, 64, 18.546, 18.097, 9.321, .762, .1240, .0674, .0444, .0674, .0026, 24, 2304},
    {8, 24, 29.718, 29.444, 19.927, .527, .2347, .1323, .0698, .1323, .0029, 32, 4096},
    {8, 32, 29.802, 29.428, 19.530, .577, .1898, .1045, .0559, .1045, .0022, 32, 4096},
    {8, 64, 29.935, 29.621, 19.388, .535, .1091, .0554, .0294, .0554, .0010, 32, 4096},
    {16, 48, 11.347, 11.248, 8.132, .377, .2552, .1397, .0672, .1397, .0066, 40, 5120},
    {16, 64, 11.307, 11.254, 8.101, .379, .2082, .1088, .0516, .1088, .0054, 40, 5120},
    {16, 128, 11.325, 11.308, 8.109, .378, .1251, .0576, .0266, .0576, .0028, 40, 5120},
    {32, 96, 10.419, 10.207, 7.715, .408, .2646, .1421, .0641, .1421, .0038, 48, 6144},
    {32, 128, 10.408, 10.204, 7.703, .408, .2168, .1106, .0490, .1106, .0029, 48, 6144},
    {32, 256, 10.402, 10.248, 7.698, .460, .1352, .0594, .0257, .0594, .0018, 48, 6144},
};

inline int64_t Ns(double ms)
{
    return std::llround(ms * kMs);
}

/* (span - m (tF + tB + tW)) / span, in units of 1/10000, as the table rounds it. */
inline long Rate(Profile &profile, enum detour_algorithm algorithm)
{
    Arena arena;
    struct detour_plan *plan = Generate(arena, profile, algorithm);
    struct detour_report *report = nullptr;
    EXPECT_EQ(detour_simulate(arena, profile.get(), plan->schedule, &report, nullptr), DETOUR_OK);
    return std::lround(report->bubble_ratio_span * 10000);
}

/* The profile of a row: equal stages, equal links. */
inline Profile ProfileOf(const ZeroBubbleRow &row)
{
    Profile profile =
        Profile::Uniform(row.stages, row.microbatches, Ns(row.f_ms), Ns(row.b_ms), Ns(row.w_ms));
    for (size_t link = 0; link + 1 < profile.stages.size(); link++)
        profile.Delay(link, Ns(row.comm_ms));
    return profile;
}
} // namespace sched_test

#endif
