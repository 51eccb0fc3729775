// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "tests/harness/harness.h"
#include "tests/sched/slow_simulator.h"

using namespace sched_test;

namespace
{
Profile Anchor(int64_t c0_ms)
{
    Profile profile = Profile::Uniform(4, 12, 10 * kMs, 10 * kMs, 10 * kMs);
    profile.Delay(0, c0_ms * kMs);
    return profile;
}

/* The schedule of figure 5 and one call after the other. */
class Adapter
{
  public:
    Adapter() : planned_(Anchor(0))
    {
        options_.generate.algorithm = DETOUR_ALGORITHM_ADAPTRA;
        present_ = Generate(arena_, planned_, DETOUR_ALGORITHM_ADAPTRA)->schedule;
    }

    const struct detour_adaptation *Measure(Profile measured)
    {
        struct detour_adaptation *adaptation = nullptr;
        struct detour_error error = {};
        measured_ = measured;
        EXPECT_EQ(detour_adapt(arena_, planned_.get(), measured_.get(), present_, &options_, &state_,
                               &adaptation, &error),
                  DETOUR_OK)
            << error.text;
        return adaptation;
    }

    Arena arena_;
    Profile planned_;
    Profile measured_;
    struct detour_schedule *present_;
    struct detour_adapt_options options_ = {};
    struct detour_adapt_state state_ = {};
};
} // namespace

TEST(Adapt, ChangesWhenItPays)
{
    Adapter adapter;
    const struct detour_adaptation *a = adapter.Measure(Anchor(20));
    EXPECT_EQ(a->verdict, DETOUR_ADAPT_CHANGE);
    EXPECT_EQ(a->planned_makespan_ns, 390 * kMs);
    EXPECT_EQ(a->present_makespan_ns, 440 * kMs);
    EXPECT_EQ(a->candidate_makespan_ns, 410 * kMs);
    ASSERT_NE(a->plan, nullptr);
    EXPECT_EQ(a->plan->makespan_ns, 410 * kMs);
    EXPECT_EQ(adapter.state_.changed_count, 0);
}

TEST(Adapt, LeavesSmallChangesAlone)
{
    Adapter adapter;
    const struct detour_adaptation *a = adapter.Measure(Anchor(0));
    EXPECT_EQ(a->verdict, DETOUR_ADAPT_KEEP_UNCHANGED);
    EXPECT_EQ(a->candidate_makespan_ns, 0);
    Profile slightly = Anchor(0);
    slightly.links[2].forward_ns = kMs / 2; /* 50 permille of 10 ms, not more */
    EXPECT_EQ(adapter.Measure(slightly)->verdict, DETOUR_ADAPT_KEEP_UNCHANGED);
    slightly.links[2].forward_ns++;
    EXPECT_EQ(adapter.Measure(slightly)->verdict, DETOUR_ADAPT_KEEP_NO_GAIN);
    adapter.options_.change_ns_min = kMs;
    EXPECT_EQ(adapter.Measure(slightly)->verdict, DETOUR_ADAPT_KEEP_UNCHANGED);
    /* 400 ms either way */
    const struct detour_adaptation *b = adapter.Measure(Anchor(10));
    EXPECT_EQ(b->verdict, DETOUR_ADAPT_KEEP_NO_GAIN);
    EXPECT_EQ(b->present_makespan_ns, 400 * kMs);
    EXPECT_EQ(b->candidate_makespan_ns, 400 * kMs);
    EXPECT_EQ(b->plan, nullptr);
}

TEST(Adapt, WaitsForConfirmation)
{
    Adapter adapter;
    adapter.options_.confirm_count = 3;
    EXPECT_EQ(adapter.Measure(Anchor(20))->verdict, DETOUR_ADAPT_KEEP_UNCONFIRMED);
    EXPECT_EQ(adapter.Measure(Anchor(30))->verdict, DETOUR_ADAPT_KEEP_UNCONFIRMED);
    EXPECT_EQ(adapter.Measure(Anchor(0))->verdict, DETOUR_ADAPT_KEEP_UNCHANGED);
    EXPECT_EQ(adapter.Measure(Anchor(20))->verdict, DETOUR_ADAPT_KEEP_UNCONFIRMED);
    EXPECT_EQ(adapter.Measure(Anchor(20))->verdict, DETOUR_ADAPT_KEEP_UNCONFIRMED);
    EXPECT_EQ(adapter.Measure(Anchor(20))->verdict, DETOUR_ADAPT_CHANGE);
}

TEST(Adapt, WeighsGainAgainstCost)
{
    Adapter adapter;
    adapter.options_.gain_permille_min = 69; /* of 440 ms: 30.36 ms; the gain is 30 ms */
    EXPECT_EQ(adapter.Measure(Anchor(20))->verdict, DETOUR_ADAPT_KEEP_NO_GAIN);
    adapter.options_.gain_permille_min = 68;
    EXPECT_EQ(adapter.Measure(Anchor(20))->verdict, DETOUR_ADAPT_CHANGE);
    adapter.options_.switch_cost_ns = 90 * kMs;
    adapter.options_.horizon_iterations = 3;
    EXPECT_EQ(adapter.Measure(Anchor(20))->verdict, DETOUR_ADAPT_KEEP_NO_GAIN);
    adapter.options_.horizon_iterations = 4;
    EXPECT_EQ(adapter.Measure(Anchor(20))->verdict, DETOUR_ADAPT_CHANGE);
}

/* Memory for 4, 3, 2, 1 microbatches: 430 ms at c0 = 20 ms; without that limit it would be 410. */
TEST(Adapt, OffloadsWhereMemoryLimits)
{
    Adapter adapter;
    adapter.planned_.MaxInflight({4, 3, 2, 1});
    adapter.present_ = Generate(adapter.arena_, adapter.planned_, DETOUR_ALGORITHM_ADAPTRA)->schedule;
    Profile slow = Anchor(20).MaxInflight({4, 3, 2, 1});
    EXPECT_EQ(adapter.Measure(slow)->candidate_makespan_ns, 430 * kMs);
    adapter.options_.allow_offload = true;
    EXPECT_EQ(adapter.Measure(slow)->candidate_makespan_ns, 430 * kMs); /* no stage can offload */
    for (struct detour_stage &stage : slow.stages)
        stage.offload_ns = 2 * kMs;
    const struct detour_adaptation *a = adapter.Measure(slow);
    ASSERT_EQ(a->verdict, DETOUR_ADAPT_CHANGE);
    EXPECT_EQ(a->candidate_makespan_ns, 410 * kMs);
    EXPECT_GT(a->offloaded, 0);
    struct detour_error error = {};
    EXPECT_EQ(detour_validate(adapter.arena_, slow.get(), a->plan->schedule, &error), DETOUR_OK)
        << error.text;
}

/* Offloaded schedules on random profiles: the limits hold, and the times are those of the slow simulator. */
TEST(Adapt, OffloadingAgreesWithSlowSimulation)
{
    struct dt_prng prng;
    RandomLimits limits;
    int offloaded = 0;
    printf("seed 11\n");
    dt_prng_init(&prng, 11);
    for (int round = 0; round < 400 && !testing::Test::HasFailure(); round++) {
        Adapter adapter;
        adapter.planned_ = RandomProfile(&prng, limits);
        for (struct detour_stage &stage : adapter.planned_.stages)
            stage.offload_ns = static_cast<int64_t>(dt_prng_below(&prng, 6));
        struct detour_plan *plan = Generate(adapter.arena_, adapter.planned_, DETOUR_ALGORITHM_ADAPTRA);
        adapter.present_ = plan->schedule;
        adapter.options_.allow_offload = true;
        adapter.options_.gain_permille_min = -1;
        Profile slow = adapter.planned_;
        for (struct detour_link &link : slow.links)
            link.backward_ns += static_cast<int64_t>(dt_prng_below(&prng, 60));
        SCOPED_TRACE("round " + std::to_string(round) + ": " + Describe(slow));
        const struct detour_adaptation *a = adapter.Measure(slow);
        if (!a->plan)
            continue;
        struct detour_error error = {};
        EXPECT_EQ(detour_validate(adapter.arena_, slow.get(), a->plan->schedule, &error), DETOUR_OK)
            << error.text;
        SlowResult expected = SlowSimulate(slow, a->plan->schedule);
        struct detour_report *report = nullptr;
        ASSERT_TRUE(expected.finished);
        EXPECT_EQ(a->plan->makespan_ns, expected.makespan_ns);
        ASSERT_EQ(detour_simulate(adapter.arena_, slow.get(), a->plan->schedule, &report, nullptr),
                  DETOUR_OK);
        EXPECT_EQ(report->makespan_ns, expected.makespan_ns);
        for (size_t i = 0; i < slow.stages.size(); i++)
            EXPECT_GE(report->stages[i].peak_inflight, expected.peak_inflight[i]);
        for (size_t d = 0; d < slow.devices.size(); d++)
            EXPECT_GE(report->devices[d].peak_bytes, expected.peak_bytes[d]);
        offloaded += a->offloaded > 0;
    }
    printf("%d schedules offload\n", offloaded);
    EXPECT_GT(offloaded, 10);
}

TEST(Adapt, RefusesBadArguments)
{
    Adapter adapter;
    struct detour_adaptation *adaptation = nullptr;
    struct detour_error error = {};
    auto call = [&](Profile &measured) {
        return detour_adapt(adapter.arena_, adapter.planned_.get(), measured.get(), adapter.present_,
                            &adapter.options_, &adapter.state_, &adaptation, &error);
    };
    Profile other = Profile::Uniform(4, 11, 10, 10, 10);
    EXPECT_EQ(call(other), DETOUR_INVALID);
    EXPECT_STREQ(error.text,
                 "planned profile has 4 stages, 12 microbatches, 4 devices, the measured one 4, 11, 4; "
                 "they must agree");
    Profile moved = Anchor(0);
    std::swap(moved.stages[0].device, moved.stages[1].device);
    EXPECT_EQ(call(moved), DETOUR_INVALID);
    Profile same = Anchor(0);
    adapter.options_.confirm_count = -1;
    EXPECT_EQ(call(same), DETOUR_INVALID);
    EXPECT_EQ(detour_adapt(adapter.arena_, same.get(), same.get(), adapter.present_, nullptr, nullptr,
                           &adaptation, &error),
              DETOUR_INVALID);
    EXPECT_EQ(adaptation, nullptr);
}

TEST(Adapt, ReportsFailedAllocations)
{
    Profile planned = Profile::Uniform(8, 48, 10, 10, 10);
    planned.MaxInflight({8, 7, 6, 5, 4, 3, 2, 1});
    Profile measured = planned;
    measured.Delay(0, 35);
    for (struct detour_stage &stage : measured.stages)
        stage.offload_ns = 3;
    Arena keep;
    struct detour_plan *plan = Generate(keep, planned, DETOUR_ALGORITHM_ADAPTRA);
    for (int index = 0;; index++) {
        Arena arena;
        struct detour_adaptation *adaptation = nullptr;
        struct detour_adapt_state state = {};
        struct detour_adapt_options options = {};
        options.generate.algorithm = DETOUR_ALGORITHM_ADAPTRA;
        options.allow_offload = true;
        detour_test_fail_alloc(index);
        enum detour_status status = detour_adapt(arena, planned.get(), measured.get(), plan->schedule,
                                                 &options, &state, &adaptation, nullptr);
        bool failed = detour_test_alloc_failed();
        detour_test_fail_alloc(-1);
        if (!failed) {
            EXPECT_EQ(status, DETOUR_OK);
            EXPECT_GT(index, 0);
            break;
        }
        EXPECT_EQ(status, DETOUR_NO_MEMORY);
    }
}
