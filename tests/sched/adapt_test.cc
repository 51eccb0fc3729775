// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "tests/harness/harness.h"
#include "tests/sched/adapter.h"

using namespace sched_test;

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
    enum detour_status status = FailEachAllocation([&](struct detour_arena *arena) {
        struct detour_adaptation *adaptation = nullptr;
        struct detour_adapt_state state = {};
        struct detour_adapt_options options = {};
        options.generate.algorithm = DETOUR_ALGORITHM_ADAPTRA;
        options.allow_offload = true;
        return detour_adapt(arena, planned.get(), measured.get(), plan->schedule, &options, &state,
                            &adaptation, nullptr);
    });
    EXPECT_EQ(status, DETOUR_OK);
}
