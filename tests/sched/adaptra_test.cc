// SPDX-License-Identifier: Apache-2.0
// ADAPTRA: makespans and losses that were published, or derived in closed form.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "sched/warmup.h"
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

namespace
{
/* What adaptra makes with this formula's warm-up alone. */
int64_t MakespanWith(Profile &profile, enum dt_warmup_need need, int32_t extra)
{
    Arena arena;
    struct dt_call call;
    struct detour_error error = {};
    struct dt_problem *p = nullptr;
    std::vector<int32_t> limits(profile.stages.size()), warmup(profile.stages.size());
    dt_call_init(&call, arena, &error, nullptr);
    EXPECT_EQ(dt_problem_create(&call, profile.get(), &p), DETOUR_OK) << error.text;
    dt_warmup_limits(p, limits.data());
    dt_warmup_for_delays(p, limits.data(), need, extra, warmup.data());
    struct detour_options options = {};
    options.warmup = warmup.data();
    return Generate(arena, profile, DETOUR_ALGORITHM_ADAPTRA, options)->makespan_ns;
}

/* Computing times of 5 to 15 ms, delays of 0 to 60 ms on every link: stages and links that differ. */
Profile Unequal(struct dt_prng *prng)
{
    auto stages = static_cast<int32_t>(4 + dt_prng_below(prng, 5));
    Profile profile = Profile::Uniform(stages, 4 * stages, 10 * kMs, 10 * kMs, 10 * kMs);
    for (struct detour_stage &stage : profile.stages) {
        stage.f_ns = static_cast<int64_t>(5000 + dt_prng_below(prng, 10001)) * 1000;
        stage.b_ns = static_cast<int64_t>(5000 + dt_prng_below(prng, 10001)) * 1000;
        stage.w_ns = static_cast<int64_t>(5000 + dt_prng_below(prng, 10001)) * 1000;
    }
    for (int32_t i = 0; i + 1 < stages; i++)
        profile.Delay(i, static_cast<int64_t>(dt_prng_below(prng, 60001)) * 1000);
    return profile;
}
} // namespace

/* Never worse than either formula; docs/schedules.md has the numbers that this prints. */
TEST(Adaptra, TakesTheBetterFormulaOfTheSlackOfUnequalStages)
{
    constexpr int kProfiles = 100;
    struct dt_prng prng;
    dt_prng_init(&prng, 27);
    int better = 0, paper_worse = 0;
    double gain = 0, most = 0, paper_loss = 0;
    for (int i = 0; i < kProfiles; i++) {
        Profile profile = Unequal(&prng);
        Arena arena;
        int64_t own =
            std::min(MakespanWith(profile, DT_WARMUP_OWN, 0), MakespanWith(profile, DT_WARMUP_OWN, 1));
        int64_t paper = MakespanWith(profile, DT_WARMUP_EQUATION_1, 0);
        int64_t made = Generate(arena, profile, DETOUR_ALGORITHM_ADAPTRA)->makespan_ns;
        EXPECT_EQ(made, std::min(own, paper)) << "profile " << i;
        better += made < own;
        paper_worse += paper > own;
        gain += 1 - static_cast<double>(made) / static_cast<double>(own);
        most = std::max(most, 1 - static_cast<double>(made) / static_cast<double>(own));
        paper_loss += static_cast<double>(paper) / static_cast<double>(own) - 1;
    }
    EXPECT_GT(better, 0) << "equation 1 never helps";
    EXPECT_GT(paper_worse, 0) << "the own formula never helps";
    std::printf("equation 1 is better for %d of %d profiles (mean of all %.3f %%, most %.2f %%), worse for "
                "%d; alone it "
                "takes %.3f %% longer\n",
                better, kProfiles, 100 * gain / kProfiles, 100 * most, paper_worse,
                100 * paper_loss / kProfiles);
}
