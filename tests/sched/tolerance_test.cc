// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "tests/harness/harness.h"
#include "tests/sched/sched_test.h"

using namespace sched_test;

namespace
{
struct detour_curve *Curve(struct detour_arena *arena, Profile &profile,
                           const struct detour_schedule *schedule, int32_t link, int directions, int64_t max)
{
    struct detour_curve *curve = nullptr;
    struct detour_error error = {};
    EXPECT_EQ(detour_delay_curve(arena, profile.get(), schedule, link, directions, max, &curve, &error),
              DETOUR_OK)
        << error.text;
    return curve;
}

int64_t At(const struct detour_curve *curve, int64_t delay)
{
    size_t k = curve->point_count - 1;
    while (curve->points[k].delay_ns > delay)
        k--;
    return curve->points[k].makespan_ns + curve->points[k].slope * (delay - curve->points[k].delay_ns);
}

int64_t Delayed(Profile profile, const struct detour_schedule *schedule, size_t link, int directions,
                int64_t delay)
{
    Arena arena;
    struct detour_schedule *copy = nullptr;
    EXPECT_EQ(detour_schedule_create(arena, profile.get(), schedule->op_count, &copy, nullptr), DETOUR_OK);
    std::copy(schedule->ops, schedule->ops + schedule->op_count, copy->ops);
    std::copy(schedule->first, schedule->first + schedule->device_count + 1, copy->first);
    if (directions & DETOUR_FORWARD)
        profile.links[link].forward_ns += delay;
    if (directions & DETOUR_BACKWARD)
        profile.links[link].backward_ns += delay;
    return Makespan(profile, copy);
}
} // namespace

/* The published points are 390, 400, 440 and 500 ms at 0, 10, 20 and 30 ms; the curve has one corner at 14.
 */
TEST(Tolerance, CurveOfFigureFive)
{
    Arena arena;
    Profile profile = Profile::Uniform(4, 12, 10 * kMs, 10 * kMs, 10 * kMs);
    struct detour_plan *plan = Generate(arena, profile, DETOUR_ALGORITHM_ADAPTRA);
    struct detour_curve *curve = Curve(arena, profile, plan->schedule, 0, DETOUR_BOTH_WAYS, 1000 * kMs);
    const int64_t expected_ms[][3] = {{0, 390, 1}, {14, 404, 6}};
    ASSERT_EQ(curve->point_count, 2u);
    for (size_t k = 0; k < 2; k++) {
        EXPECT_EQ(curve->points[k].delay_ns, expected_ms[k][0] * kMs);
        EXPECT_EQ(curve->points[k].makespan_ns, expected_ms[k][1] * kMs);
        EXPECT_EQ(curve->points[k].slope, expected_ms[k][2]);
    }
    EXPECT_EQ(At(curve, 10 * kMs), 400 * kMs);
    EXPECT_EQ(At(curve, 20 * kMs), 440 * kMs);
    EXPECT_EQ(At(curve, 30 * kMs), 500 * kMs);
    int64_t *tolerable = nullptr;
    ASSERT_EQ(detour_tolerance(arena, profile.get(), plan->schedule, DETOUR_BOTH_WAYS, 1000 * kMs, &tolerable,
                               nullptr),
              DETOUR_OK);
    EXPECT_EQ(tolerable[0], 14 * kMs);
}

/* Theorem 1 of ADAPTRA for the alternating order: (D - 1) t, and not much more. */
TEST(Tolerance, SlackPromisesItsDelay)
{
    for (int32_t slack = 1; slack <= 6; slack++) {
        Arena arena;
        Profile profile = Profile::Uniform(3, 40, 10, 10, 10);
        const int32_t warmup[] = {2 * slack + 1, slack + 1, 1};
        struct detour_options options = {};
        options.warmup = warmup;
        struct detour_plan *plan = Generate(arena, profile, DETOUR_ALGORITHM_ADAPTRA_INITIAL, options);
        int64_t *tolerable = nullptr;
        ASSERT_EQ(detour_tolerance(arena, profile.get(), plan->schedule, DETOUR_BOTH_WAYS, 1000, &tolerable,
                                   nullptr),
                  DETOUR_OK);
        for (size_t link = 0; link < 2; link++) {
            EXPECT_GE(tolerable[link], 10 * (slack - 1));
            EXPECT_LT(tolerable[link], 10 * slack);
        }
    }
}

TEST(Tolerance, CurveAgreesWithSimulationEverywhere)
{
    struct dt_prng prng;
    printf("seed 5\n");
    dt_prng_init(&prng, 5);
    for (int round = 0; round < 60; round++) {
        Arena arena;
        Profile profile = RandomProfile(&prng, {});
        struct detour_plan *plan = Generate(arena, profile, DETOUR_ALGORITHM_ADAPTRA);
        int directions = 1 + round % 3;
        SCOPED_TRACE("round " + std::to_string(round) + ": " + Describe(profile));
        int64_t *tolerable = nullptr;
        ASSERT_EQ(detour_tolerance(arena, profile.get(), plan->schedule, directions, 60, &tolerable, nullptr),
                  DETOUR_OK);
        for (size_t link = 0; link < profile.links.size(); link++) {
            struct detour_curve *curve =
                Curve(arena, profile, plan->schedule, static_cast<int32_t>(link), directions, 60);
            EXPECT_EQ(curve->points[0].delay_ns, 0);
            int64_t expected_tolerable = 60;
            for (int64_t delay = 60; delay >= 0; delay--) {
                int64_t makespan = Delayed(profile, plan->schedule, link, directions, delay);
                ASSERT_EQ(At(curve, delay), makespan) << "link " << link << " delay " << delay;
                if (makespan - plan->makespan_ns > delay)
                    expected_tolerable = delay - 1;
            }
            EXPECT_EQ(tolerable[link], expected_tolerable);
            for (size_t k = 1; k < curve->point_count; k++) {
                EXPECT_GT(curve->points[k].delay_ns, curve->points[k - 1].delay_ns);
                EXPECT_GT(curve->points[k].slope, curve->points[k - 1].slope);
            }
        }
    }
}

TEST(Tolerance, RefusesBadArguments)
{
    Arena arena;
    Profile profile = Profile::Uniform(3, 4, 10, 10, 10);
    struct detour_plan *plan = Generate(arena, profile, DETOUR_ALGORITHM_1F1B);
    struct detour_curve *curve = nullptr;
    struct detour_error error = {};
    int64_t *tolerable = nullptr;
    EXPECT_EQ(detour_delay_curve(arena, profile.get(), plan->schedule, 2, 3, 10, &curve, &error),
              DETOUR_INVALID);
    EXPECT_STREQ(error.text, "link is 2; there are 2 links, from 0");
    EXPECT_EQ(detour_delay_curve(arena, profile.get(), plan->schedule, 0, 4, 10, &curve, &error),
              DETOUR_INVALID);
    EXPECT_EQ(detour_delay_curve(arena, profile.get(), plan->schedule, 0, 3, 0, &curve, &error),
              DETOUR_LIMIT);
    EXPECT_EQ(
        detour_delay_curve(arena, profile.get(), plan->schedule, 0, 3, DETOUR_TIME_MAX_NS, &curve, &error),
        DETOUR_LIMIT);
    EXPECT_EQ(detour_tolerance(arena, profile.get(), nullptr, 3, 10, &tolerable, &error), DETOUR_INVALID);
    EXPECT_EQ(curve, nullptr);
    EXPECT_EQ(tolerable, nullptr);
}

TEST(Tolerance, ReportsFailedAllocations)
{
    Profile profile = Profile::Uniform(8, 64, 10, 10, 10);
    Arena keep;
    struct detour_plan *plan = Generate(keep, profile, DETOUR_ALGORITHM_ADAPTRA);
    enum detour_status status = FailEachAllocation([&](struct detour_arena *arena) {
        struct detour_curve *curve = nullptr;
        return detour_delay_curve(arena, profile.get(), plan->schedule, 3, 3, 1000, &curve, nullptr);
    });
    EXPECT_EQ(status, DETOUR_OK);
}
