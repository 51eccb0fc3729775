// SPDX-License-Identifier: Apache-2.0
// ADAPTRA: makespans and losses that were published, or derived in closed form.
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

} // namespace

TEST(Adaptra, ScheduleOfFigureFiveFrozen)
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

TEST(Adaptra, FirstBackwardOfFigureFive)
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

TEST(Adaptra, PlannedAnewForTheDelay)
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

/* S = 4, N = 30, t = 10: what a frozen order with slack D on every link loses to delays of links 0, 1, 2. */
TEST(Adaptra, FrozenOrdersUnderDelay)
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
TEST(Adaptra, FigureEight)
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
TEST(Adaptra, PlannedAnewWithinMemory)
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
TEST(Adaptra, ClosedFormOfAlternatingOrder)
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
