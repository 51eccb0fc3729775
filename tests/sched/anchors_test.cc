// SPDX-License-Identifier: Apache-2.0
// Numbers that were published, or derived in closed form.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tests/sched/sched_test.h"

using namespace sched_test;

namespace
{
Profile Anchor(int64_t c0_ms)
{
    Profile profile = Profile::Uniform(4, 12, 10 * kMs, 10 * kMs, 10 * kMs);
    profile.Delay(0, c0_ms * kMs);
    return profile;
}

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

int64_t Ns(double ms)
{
    return std::llround(ms * kMs);
}

/* (span - m (tF + tB + tW)) / span, in units of 1/10000, as the table rounds it. */
long Rate(Profile &profile, enum detour_algorithm algorithm)
{
    Arena arena;
    struct detour_plan *plan = Generate(arena, profile, algorithm);
    struct detour_report *report = nullptr;
    EXPECT_EQ(detour_simulate(arena, profile.get(), plan->schedule, &report, nullptr), DETOUR_OK);
    return std::lround(report->bubble_ratio_span * 10000);
}
} // namespace

TEST(Anchors, ScheduleOfFigureFiveFrozen)
{
    const int64_t expected_ms[] = {390, 400, 440, 500};
    Arena arena;
    Profile profile = Anchor(0);
    const int32_t warmup[] = {7, 5, 3, 1};
    struct detour_options options = {};
    options.warmup = warmup;
    struct detour_plan *plan = Generate(arena, profile, DETOUR_ALGORITHM_ADAPTRA, options);
    for (int64_t c0 = 0; c0 <= 30; c0 += 10) {
        Profile slow = Anchor(c0);
        EXPECT_EQ(Makespan(slow, plan->schedule), expected_ms[c0 / 10] * kMs) << "c0 " << c0;
    }
}

TEST(Anchors, FirstBackwardOfFigureFive)
{
    Arena arena;
    Profile profile = Anchor(0);
    struct detour_plan *plan = Generate(arena, profile, DETOUR_ALGORITHM_ADAPTRA);
    Profile slow = Anchor(20);
    Makespan(slow, plan->schedule);
    const struct detour_op *op = plan->schedule->ops;
    while (op->kind != DETOUR_OP_B)
        op++;
    EXPECT_EQ(op->start_ns, 110 * kMs);
    struct detour_report *report = nullptr;
    ASSERT_EQ(detour_simulate(arena, profile.get(), plan->schedule, &report, nullptr), DETOUR_OK);
    for (int32_t i = 0; i < 4; i++) {
        EXPECT_EQ(report->stages[i].warmup, 7 - 2 * i);
        EXPECT_EQ(report->stages[i].peak_inflight, 7 - 2 * i);
        EXPECT_EQ(report->devices[i].idle_ns, 0);
    }
    EXPECT_EQ(report->longest_span_ns, 360 * kMs);
    EXPECT_DOUBLE_EQ(report->bubble_ratio_makespan, 1.0 / 13);
}

TEST(Anchors, PlannedAnewForTheDelay)
{
    const int64_t expected_ms[] = {390, 400, 410, 420};
    for (int64_t c0 = 0; c0 <= 30; c0 += 10) {
        Arena arena;
        Profile profile = Anchor(c0);
        EXPECT_EQ(Generate(arena, profile, DETOUR_ALGORITHM_ADAPTRA)->makespan_ns,
                  expected_ms[c0 / 10] * kMs);
        profile.MaxInflight({7, 5, 3, 1});
        EXPECT_EQ(Generate(arena, profile, DETOUR_ALGORITHM_ADAPTRA)->makespan_ns,
                  expected_ms[c0 / 10] * kMs);
    }
}

TEST(Anchors, ZeroBubbleSameMakespanOtherSpan)
{
    Arena arena;
    Profile profile = Anchor(0);
    struct detour_plan *h1 = Generate(arena, profile, DETOUR_ALGORITHM_ZB_H1);
    struct detour_plan *h2 = Generate(arena, profile, DETOUR_ALGORITHM_ZB_H2);
    EXPECT_EQ(h1->makespan_ns, 390 * kMs);
    EXPECT_EQ(h2->makespan_ns, 390 * kMs);
    EXPECT_EQ(h1->longest_span_ns, 390 * kMs);
    EXPECT_EQ(h2->longest_span_ns, 360 * kMs);
}

TEST(Anchors, ZeroBubbleTable)
{
    for (const ZeroBubbleRow &row : kZeroBubbleTable) {
        Profile profile =
            Profile::Uniform(row.stages, row.microbatches, Ns(row.f_ms), Ns(row.b_ms), Ns(row.w_ms));
        for (size_t link = 0; link + 1 < profile.stages.size(); link++)
            profile.Delay(link, Ns(row.comm_ms));
        SCOPED_TRACE(std::to_string(row.stages) + " stages, " + std::to_string(row.microbatches) +
                     " microbatches");
        EXPECT_EQ(Rate(profile, DETOUR_ALGORITHM_1F1B), std::lround(row.rate_1f1b * 10000));
        EXPECT_EQ(Rate(profile, DETOUR_ALGORITHM_ZB_H1), std::lround(row.rate_h1 * 10000));
        EXPECT_EQ(Rate(profile, DETOUR_ALGORITHM_ZB_H2), std::lround(row.rate_h2 * 10000));
    }
}

/*
 * The heuristic under memory limits. Bytes as in section 2 of the paper: a layer holds 34 h + 5 a s per token
 * from F to B and 32 h from B to W.
 */
TEST(Anchors, ZeroBubbleTableOfTheHeuristic)
{
    for (const ZeroBubbleRow &row : kZeroBubbleTable) {
        Profile profile =
            Profile::Uniform(row.stages, row.microbatches, Ns(row.f_ms), Ns(row.b_ms), Ns(row.w_ms));
        for (size_t link = 0; link + 1 < profile.stages.size(); link++)
            profile.Delay(link, Ns(row.comm_ms));
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

/* S = 4, N = 30, t = 10: what a frozen order with slack D on every link loses to delays of links 0, 1, 2. */
TEST(Anchors, FrozenOrdersUnderDelay)
{
    const struct {
        enum detour_algorithm algorithm;
        int32_t slack;
        int64_t delay[3];
        int64_t lost;
    } cases[] = {
        {DETOUR_ALGORITHM_ADAPTRA, 2, {40, 0, 0}, 530},
        {DETOUR_ALGORITHM_ADAPTRA, 2, {0, 40, 0}, 600},
        {DETOUR_ALGORITHM_ADAPTRA, 2, {0, 0, 40}, 610},
        {DETOUR_ALGORITHM_ADAPTRA, 2, {15, 0, 0}, 80},
        {DETOUR_ALGORITHM_ADAPTRA, 2, {0, 15, 0}, 100},
        {DETOUR_ALGORITHM_ADAPTRA, 2, {0, 0, 15}, 110},
        {DETOUR_ALGORITHM_ADAPTRA, 2, {15, 15, 15}, 180}, /* less than the sum of the three */
        /* B before F drains the slack; the alternating order of the initial plan keeps it. */
        {DETOUR_ALGORITHM_ADAPTRA, 3, {0, 0, 20}, 210},
        {DETOUR_ALGORITHM_ADAPTRA_INITIAL, 3, {0, 0, 20}, 20},
    };
    for (const auto &c : cases) {
        Arena arena;
        Profile profile = Profile::Uniform(4, 30, 10, 10, 10);
        const int32_t warmup[] = {3 * c.slack + 1, 2 * c.slack + 1, c.slack + 1, 1};
        struct detour_options options = {};
        options.warmup = warmup;
        struct detour_plan *plan = Generate(arena, profile, c.algorithm, options);
        int64_t base = plan->makespan_ns;
        for (size_t link = 0; link < 3; link++)
            profile.Delay(link, c.delay[link]);
        EXPECT_EQ(Makespan(profile, plan->schedule) - base, c.lost)
            << detour_algorithm_name(c.algorithm) << " D " << c.slack << " delays " << c.delay[0] << " "
            << c.delay[1] << " " << c.delay[2];
    }
}

/* Figure 8 of ADAPTRA: S = 2, N = 30, t = 10. */
TEST(Anchors, FigureEight)
{
    const struct {
        int32_t slack;
        int64_t delay;
        int64_t lost;
    } cases[] = {{2, 12, 50}, {2, 52, 850}, {4, 52, 294}, {6, 52, 70}};
    for (const auto &c : cases) {
        Arena arena;
        Profile profile = Profile::Uniform(2, 30, 10, 10, 10);
        const int32_t warmup[] = {c.slack + 1, 1};
        struct detour_options options = {};
        options.warmup = warmup;
        struct detour_plan *plan = Generate(arena, profile, DETOUR_ALGORITHM_ADAPTRA_INITIAL, options);
        int64_t base = plan->makespan_ns;
        profile.Delay(0, c.delay);
        EXPECT_EQ(Makespan(profile, plan->schedule) - base, c.lost) << "D " << c.slack << " c " << c.delay;
    }
}

/* The same memory, another order: makespan of S = 4 planned for c = 0, 10, 20, 30, 40 ms on one link. */
TEST(Anchors, PlannedAnewWithinMemory)
{
    const struct {
        int32_t microbatches;
        std::vector<int32_t> inflight;
        size_t link;
        int64_t expected_ms[5];
    } cases[] = {
        {12, {7, 5, 3, 1}, 0, {390, 400, 410, 420, 440}},   {12, {4, 3, 2, 1}, 0, {390, 410, 430, 490, 550}},
        {30, {7, 5, 3, 1}, 0, {930, 940, 950, 960, 980}},   {30, {7, 5, 3, 1}, 1, {930, 940, 950, 970, 990}},
        {30, {7, 5, 3, 1}, 2, {930, 940, 960, 1090, 1290}},
    };
    for (const auto &c : cases) {
        for (int64_t step = 0; step < 5; step++) {
            Arena arena;
            Profile profile = Profile::Uniform(4, c.microbatches, 10 * kMs, 10 * kMs, 10 * kMs);
            profile.MaxInflight(c.inflight).Delay(c.link, 10 * step * kMs);
            EXPECT_EQ(Generate(arena, profile, DETOUR_ALGORITHM_ADAPTRA)->makespan_ns,
                      c.expected_ms[step] * kMs)
                << "N " << c.microbatches << " link " << c.link << " c " << 10 * step;
        }
    }
}

/*
 * Two stages, all times t, order F^x (BF)* (BW)* W* with x = (D + 1, 1): a delay c of the link costs
 * c while c <= (D - 1) t, and (D - 1) t + 2 ceil(N / (D + 1)) (c - (D - 1) t) beyond.
 */
TEST(Anchors, ClosedFormOfAlternatingOrder)
{
    constexpr int64_t t = 10;
    int points = 0;
    for (int32_t n = 8; n <= 40; n++) {
        for (int32_t slack = 1; slack <= 6; slack++) {
            Arena arena;
            Profile profile = Profile::Uniform(2, n, t, t, t);
            const int32_t warmup[] = {slack + 1, 1};
            struct detour_options options = {};
            options.warmup = warmup;
            struct detour_plan *plan = Generate(arena, profile, DETOUR_ALGORITHM_ADAPTRA_INITIAL, options);
            int64_t base = plan->makespan_ns;
            for (int64_t c = 0; c <= 87; c++) {
                profile.Delay(0, c);
                int64_t free = (slack - 1) * t;
                int64_t expected = c <= free ? c : free + 2 * ((n + slack) / (slack + 1)) * (c - free);
                ASSERT_EQ(Makespan(profile, plan->schedule) - base, expected)
                    << "N " << n << " D " << slack << " c " << c;
                points++;
            }
        }
    }
    printf("%d points\n", points);
}

/*
 * ZB-V by what section 6 of the Zero Bubble paper says about it. (Its rates in table 8 are for times that
 * were not published.) With p devices and equal times: no bubble; p M_B of activations on every device, which
 * are 2 p activations of a stage, as there are two stages of half the size; 2 p - 1 forwards ahead of the
 * first backward on each device, 2 p - i of the first stage and i - 1 of the second on device i = 1..p; and
 * so the makespan is the work of a device after the p - 1 forwards that the last one waits.
 */
TEST(ZeroBubbleV, IsWhatThePaperSays)
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
