// SPDX-License-Identifier: Apache-2.0
/*
 * The experiment on re-planning within an iteration: its times are those of libdetour-sched where delays do
 * not change, its planner finds what there is to find, and its bound is below every schedule and reached
 * where that is certain. dt_intra_run() itself checks that no iteration goes below its bound.
 */
#include "tests/sim/intra.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/sim/changing_links.h"

namespace
{
constexpr int64_t kMs = 1000000;

dt_delay_rule Rule(const char *text)
{
    dt_delay_rule rule = {};
    dt_delay_error error = {};
    size_t count = 0;

    EXPECT_EQ(DT_OK, dt_delay_parse(text, std::strlen(text), &rule, 1, &count, &error)) << error.text;
    EXPECT_EQ(1u, count);
    return rule;
}

dt_intra_options Options(const char *rule)
{
    dt_intra_options options = {};

    options.devices = 4;
    options.microbatches = 12;
    options.f_ns = options.b_ns = options.w_ns = 10 * kMs;
    options.serial_ns = kMs;
    options.latency_ns = 5000;
    options.rule = Rule(rule);
    options.schedule = DETOUR_ALGORITHM_ADAPTRA;
    options.iteration_count = 20;
    options.seed = 1;
    return options;
}

dt_intra_result Measure(const dt_intra_options &options)
{
    dt_intra_result result = {};
    detour_error error = {};

    EXPECT_EQ(DETOUR_OK, dt_intra_run(&options, &result, &error)) << error.text;
    return result;
}

/* The makespan that detour_simulate() computes for the schedule of these options under a constant delay. */
int64_t Simulated(const dt_intra_options &o, int64_t delay_ns)
{
    std::unique_ptr<detour_arena, decltype(&detour_arena_destroy)> arena(detour_arena_create(),
                                                                         detour_arena_destroy);
    std::vector<detour_stage> stages(o.devices, detour_stage{});
    std::vector<detour_link> links(o.devices, detour_link{});
    detour_profile profile = {};
    detour_options options = {};
    detour_plan *plan = nullptr;
    detour_report *report = nullptr;

    for (int32_t i = 0; i < o.devices; i++) {
        stages[i].f_ns = o.f_ns;
        stages[i].b_ns = o.b_ns;
        stages[i].w_ns = o.w_ns;
        stages[i].device = i;
        links[i] = {o.latency_ns + o.planned_ns, o.latency_ns + o.planned_ns, o.serial_ns, o.serial_ns};
    }
    profile.stage_count = profile.device_count = o.devices;
    profile.microbatch_count = o.microbatches;
    profile.stages = stages.data();
    profile.links = links.data();
    options.algorithm = o.schedule;
    EXPECT_EQ(DETOUR_OK, detour_generate(arena.get(), &profile, &options, &plan, nullptr));
    for (detour_link &link : links)
        link = {o.latency_ns + delay_ns, o.latency_ns + delay_ns, o.serial_ns, o.serial_ns};
    EXPECT_EQ(DETOUR_OK, detour_simulate(arena.get(), &profile, plan->schedule, &report, nullptr));
    return report->makespan_ns;
}

TEST(Intra, ConstantDelaysGiveTheTimesOfTheModel)
{
    for (detour_algorithm algorithm :
         {DETOUR_ALGORITHM_ADAPTRA, DETOUR_ALGORITHM_ZB, DETOUR_ALGORITHM_1F1B}) {
        for (int64_t planned_ms : {0, 30}) {
            dt_intra_options options = Options("latency=30ms");
            options.schedule = algorithm;
            options.planned_ns = planned_ms * kMs;
            EXPECT_EQ(Simulated(options, 30 * kMs), Measure(options).mean_ns)
                << detour_algorithm_name(algorithm) << " for " << planned_ms << " ms";
        }
    }
}

TEST(Intra, TheBoundIsReachedWithOneMicrobatch)
{
    dt_intra_options options = Options("latency=30ms");
    options.microbatches = 1;

    dt_intra_result result = Measure(options);
    EXPECT_EQ(result.mean_ns, result.bound_ns);
    EXPECT_EQ(9 * options.f_ns + 6 * (30 * kMs + options.serial_ns + options.latency_ns), result.mean_ns);
}

TEST(Intra, ThePlannerFindsTheScheduleForADelayThatLasts)
{
    dt_intra_options options = Options("latency=30ms"); /* and the schedule is made for none */
    int64_t before_ns = Measure(options).mean_ns;

    options.replans = true;
    dt_intra_result after = Measure(options);
    EXPECT_EQ(options.iteration_count, after.replans);
    EXPECT_LT(after.mean_ns, before_ns - 50 * kMs);
    EXPECT_GE(after.mean_ns, after.bound_ns);
}

TEST(Intra, ADecisionThatComesLaterOrKnowsLessIsUsedToo)
{
    dt_intra_options options = Options("latency=30ms");
    int64_t before_ns = Measure(options).mean_ns;

    options.replans = options.measures = true; /* it learns of the delay from the first messages */
    options.decision_ns = 5 * kMs;
    dt_intra_result after = Measure(options);
    EXPECT_GE(after.replans, options.iteration_count);
    EXPECT_LT(after.mean_ns, before_ns);
}

TEST(Intra, BetweenIterationsTheScheduleFollows)
{
    dt_intra_options options = Options("latency=30ms");
    options.follows = true;

    dt_intra_result result = Measure(options);
    EXPECT_EQ(1u, result.changes);
    EXPECT_EQ(0u, result.replans);
}

TEST(Intra, EveryModeIsRepeatableAndStaysAboveItsBound)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        for (int mode = 0; mode < 5; mode++) {
            dt_intra_options options = Options("latency=uniform(0ms,80ms) every=uniform(20ms,300ms)");
            options.planned_ns = 40 * kMs;
            options.iteration_count = 6;
            options.seed = seed;
            options.follows = mode > 0;
            options.replans = mode > 1;
            options.measures = mode > 2;
            options.decision_ns = mode * kMs;
            dt_intra_result a = Measure(options), b = Measure(options);
            EXPECT_EQ(a.mean_ns, b.mean_ns);
            EXPECT_EQ(a.replans, b.replans);
            EXPECT_EQ(a.replans > 0, options.replans);
            EXPECT_LE(a.bound_ns, a.mean_ns);
        }
    }
}

class Links : public ::testing::Test
{
  protected:
    dt_delay_rule rule = Rule("latency=uniform(0ms,80ms) every=uniform(20ms,300ms)");
    std::unique_ptr<dt_changing_links, decltype(&dt_changing_links_destroy)> links{
        dt_changing_links_create(&rule, 3, 7), dt_changing_links_destroy};
};

TEST_F(Links, DelaysChangeWhenTheyAreSaidToChangeAndNotBetween)
{
    int64_t at_ns = 0;

    for (int i = 0; i < 200; i++) {
        int64_t change_ns = dt_changing_links_change_ns(links.get(), at_ns);
        bool differs = false;

        ASSERT_GT(change_ns, at_ns);
        for (int32_t link = 0; link < 3; link++) {
            int64_t delay_ns = dt_changing_links_delay_ns(links.get(), link, at_ns);
            EXPECT_EQ(delay_ns, dt_changing_links_delay_ns(links.get(), link, change_ns - 1));
            differs |= delay_ns != dt_changing_links_delay_ns(links.get(), link, change_ns);
        }
        EXPECT_TRUE(differs);
        at_ns = change_ns;
    }
}

TEST_F(Links, TheEarliestArrivalIsThatOfTheBestTimeToLeave)
{
    for (int64_t at_ms = 0; at_ms < 2000; at_ms += 7) {
        int64_t earliest_ns = dt_changing_links_earliest_ns(links.get(), 1, at_ms * kMs);
        int64_t found_ns = INT64_MAX;

        for (int64_t leave_ns = at_ms * kMs; leave_ns < found_ns;
             leave_ns = std::min(found_ns, leave_ns + kMs / 10)) {
            int64_t arrival_ns = leave_ns + dt_changing_links_delay_ns(links.get(), 1, leave_ns);
            found_ns = std::min(found_ns, arrival_ns);
        }
        EXPECT_LE(earliest_ns, found_ns);
        EXPECT_GE(earliest_ns, found_ns - kMs / 10); /* the search has steps of that size */
    }
}
} // namespace
