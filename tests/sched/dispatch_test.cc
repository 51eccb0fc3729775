/* SPDX-License-Identifier: Apache-2.0 */
/* The dispatcher on two devices and two microbatches, small enough to follow by hand. */
#include "sched/dispatch.h"

#include "tests/sched/sched_test.h"

using namespace sched_test;

namespace
{
/* Each device's order, and the makespan, of the dispatcher with these warm-ups. */
std::vector<std::string> Dispatch(Profile &profile, const std::vector<int32_t> &warmup, bool hold,
                                  int64_t *makespan_ns)
{
    Arena arena;
    struct dt_dispatch_rule rule = {warmup.data(), hold, false, 0};
    struct detour_schedule *made = nullptr;
    struct dt_problem *p = nullptr;
    struct dt_timeline tl;
    struct dt_call call;

    dt_call_init(&call, arena, nullptr, nullptr);
    EXPECT_EQ(dt_problem_create(&call, profile.get(), &p), DETOUR_OK);
    EXPECT_EQ(dt_timeline_init(&call, p, &tl), DETOUR_OK);
    EXPECT_EQ(dt_dispatch(&call, &tl, &rule), DETOUR_OK);
    EXPECT_EQ(dt_timeline_finish(&call, &tl, &made), DETOUR_OK);
    *makespan_ns = Makespan(profile, made);
    std::vector<std::string> lines;
    for (int32_t device = 0; device < made->device_count; device++)
        lines.push_back(Line(made, device));
    return lines;
}

TEST(Dispatch, AfterWarmUpABackwardComesBeforeAForward)
{
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    int64_t makespan_ns;
    EXPECT_EQ(Dispatch(profile, {2, 1}, false, &makespan_ns),
              (std::vector<std::string>{"F0 F1 B0 W0 B1 W1", "F0 B0 F1 B1 W0 W1"}));
    EXPECT_EQ(makespan_ns, 70);
}

TEST(Dispatch, DuringWarmUpAForwardComesBeforeABackward)
{
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    int64_t makespan_ns;
    EXPECT_EQ(Dispatch(profile, {2, 2}, false, &makespan_ns),
              (std::vector<std::string>{"F0 F1 B0 B1 W0 W1", "F0 F1 B0 B1 W0 W1"}));
    EXPECT_EQ(makespan_ns, 80);
}

TEST(Dispatch, HoldWaitsForTheFirstBackwardWhenTheWarmUpIsDone)
{
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    int64_t makespan_ns;
    EXPECT_EQ(Dispatch(profile, {1, 1}, false, &makespan_ns)[0], "F0 F1 B0 W0 B1 W1")
        << "never idle with work";
    EXPECT_EQ(Dispatch(profile, {1, 1}, true, &makespan_ns)[0], "F0 B0 F1 W0 B1 W1") << "held until B0";
}

TEST(Dispatch, ADeviceWithTwoStagesTakesTheOldestMicrobatchAndIsNeverIdle)
{
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    int64_t makespan_ns;
    profile.stages[1].device = 0;
    EXPECT_EQ(Dispatch(profile, {2, 2}, false, &makespan_ns),
              (std::vector<std::string>{"F0 F0 F1 F1 B0 B0 B1 B1 W0 W0 W1 W1"}));
    EXPECT_EQ(makespan_ns, 120);
}
} // namespace
