// SPDX-License-Identifier: Apache-2.0
// Schedules that fit into memory because activations are offloaded to the host for a while.
#include <cstdio>

#include "tests/sched/adapter.h"
#include "tests/sched/slow_simulator.h"

using namespace sched_test;

/* Memory for 4, 3, 2, 1 microbatches: 430 ms at c0 = 20 ms; without that limit it would be 410. */
TEST(Relief, OffloadsWhereMemoryLimits)
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
TEST(Relief, OffloadingAgreesWithSlowSimulation)
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
