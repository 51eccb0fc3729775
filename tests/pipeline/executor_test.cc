// SPDX-License-Identifier: Apache-2.0
#include "pipeline/executor.h"

#include "tests/pipeline/virtual_run.h"
#include "tests/sched/sched_test.h"

using namespace pipeline_test;
using namespace sched_test;

namespace
{
struct Case {
    Arena arena;
    Profile profile;
    struct detour_plan *plan = nullptr;
    struct detour_program *program = nullptr;

    Case(Profile p, enum detour_algorithm algorithm) : profile(std::move(p))
    {
        struct detour_error error = {};
        struct detour_options options = {};
        options.algorithm = algorithm;
        EXPECT_EQ(detour_generate(arena, profile.get(), &options, &plan, &error), DETOUR_OK) << error.text;
        Lower(plan->schedule);
    }

    void Lower(struct detour_schedule *schedule)
    {
        struct detour_error error = {};
        EXPECT_EQ(detour_program_create(arena, profile.get(), schedule, &program, &error), DETOUR_OK)
            << error.text;
        EXPECT_EQ(detour_program_check(arena, profile.get(), program, &error), DETOUR_OK) << error.text;
    }
};

struct dt_executor_options Options(enum dt_pipeline_mode mode, uint64_t bytes = 64, uint64_t slice_bytes = 0)
{
    struct dt_executor_options options = {};
    options.mode = mode;
    options.message_bytes = bytes;
    options.slice_bytes = slice_bytes;
    return options;
}

uint64_t RunOnce(Case &c, const struct dt_executor_options &options)
{
    return VirtualRun(c.profile.get(), options).Run(c.program);
}
} // namespace

/* The executor with prefetched receives is the model of the schedule library, to the nanosecond. */
TEST(Executor, DelegatedTakesTheTimeThatTheSimulatorComputes)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 42);
    for (int i = 0; i < 100; i++) {
        Profile profile = RandomProfile(&prng, RandomLimits{6, 10, 12, true, false, true});
        SCOPED_TRACE(Describe(profile));
        Case c(profile, DETOUR_ALGORITHM_BEAM);
        EXPECT_EQ(RunOnce(c, Options(DT_PIPELINE_DELEGATED)), static_cast<uint64_t>(c.plan->makespan_ns));
    }
}

TEST(Executor, RunsPlacementsWithSeveralStagesPerDevice)
{
    Profile profile = Profile::Uniform(8, 8, 10, 10, 10);
    for (int32_t i = 0; i < 8; i++)
        profile.stages[static_cast<size_t>(i)].device = i % 4;
    Case interleaved(profile, DETOUR_ALGORITHM_INTERLEAVED);
    EXPECT_EQ(RunOnce(interleaved, Options(DT_PIPELINE_DELEGATED)),
              static_cast<uint64_t>(interleaved.plan->makespan_ns));
    for (int32_t i = 4; i < 8; i++)
        profile.stages[static_cast<size_t>(i)].device = 7 - i;
    Case v(profile, DETOUR_ALGORITHM_ZB_V);
    EXPECT_EQ(RunOnce(v, Options(DT_PIPELINE_DELEGATED)), static_cast<uint64_t>(v.plan->makespan_ns));
}

TEST(Executor, CopiesToTheHostAndBack)
{
    Profile profile = Profile::Uniform(2, 3, 10, 10, 10);
    for (struct detour_stage &stage : profile.stages)
        stage.offload_ns = 25;
    Case c(profile, DETOUR_ALGORITHM_GPIPE);
    struct detour_error error = {};
    for (size_t i = 0; i < c.plan->schedule->op_count; i++)
        if (c.plan->schedule->ops[i].kind == DETOUR_OP_F)
            c.plan->schedule->ops[i].flags = DETOUR_OP_OFFLOADED;
    struct detour_report *report = nullptr;
    ASSERT_EQ(detour_simulate(c.arena, c.profile.get(), c.plan->schedule, &report, &error), DETOUR_OK);
    c.Lower(c.plan->schedule);
    VirtualRun run(c.profile.get(), Options(DT_PIPELINE_DELEGATED));
    EXPECT_EQ(run.Run(c.program), static_cast<uint64_t>(report->makespan_ns));
    EXPECT_GT(dt_executor_get_account(run[1]).reload_ns, 0u)
        << "the case is too easy: no backward waits for its copy";
}

TEST(Executor, ASlowDeviceComputesLonger)
{
    Case c(Profile::Uniform(1, 4, 10, 10, 10), DETOUR_ALGORITHM_GPIPE);
    VirtualRun run(c.profile.get(), Options(DT_PIPELINE_HOSTPATH));
    run.permille = {1500};
    EXPECT_EQ(run.Run(c.program), 180u);
}

/* Two stages, 12 forwards of 10; a message takes 100. Eight slots: the ninth send waits for the first. */
TEST(Executor, NcclHoldsTheDeviceWhileNoSlotIsFree)
{
    Profile profile = Profile::Uniform(2, 12, 10, 10, 0);
    profile.links[0].forward_ns = 100;
    Case c(profile, DETOUR_ALGORITHM_GPIPE);
    VirtualRun nccl(c.profile.get(), Options(DT_PIPELINE_NCCL));
    nccl.Run(c.program);
    VirtualRun hostpath(c.profile.get(), Options(DT_PIPELINE_HOSTPATH));
    hostpath.Run(c.program);
    /* F of microbatch 8 ends at 90; its send gets the slot of microbatch 0 at 110. */
    EXPECT_EQ(dt_executor_get_account(nccl[0]).held_ns, 20u);
    EXPECT_EQ(dt_executor_get_account(hostpath[0]).held_ns, 0u);
}

/* The same with messages of four slices: two messages fill the slots. */
TEST(Executor, NcclCountsSlices)
{
    Profile profile = Profile::Uniform(2, 4, 10, 10, 0);
    profile.links[0].forward_ns = 100;
    Case c(profile, DETOUR_ALGORITHM_GPIPE);
    VirtualRun nccl(c.profile.get(), Options(DT_PIPELINE_NCCL, 1000, 256));
    ASSERT_EQ(dt_executor_slices(nccl[0]), 4u);
    nccl.Run(c.program);
    /* The third send begins at 30 and gets slots at 110, the fourth at 120: after its F, it has them at once.
     */
    EXPECT_EQ(dt_executor_get_account(nccl[0]).held_ns, 80u);
}

TEST(Executor, RunsIterationAfterIteration)
{
    Case c(Profile::Uniform(4, 8, 10, 12, 8), DETOUR_ALGORITHM_ZB_H1);
    VirtualRun run(c.profile.get(), Options(DT_PIPELINE_NCCL, 1001, 100));
    uint64_t first_ns = run.Run(c.program, 0);
    for (uint32_t iteration = 1; iteration < 5; iteration++)
        EXPECT_EQ(run.Run(c.program, iteration), first_ns);
}

TEST(Executor, AForeignMessageIsRefused)
{
    Case c(Profile::Uniform(2, 2, 10, 10, 10), DETOUR_ALGORITHM_1F1B);
    struct dt_executor_options options = Options(DT_PIPELINE_DELEGATED);
    options.device = 1;
    Executor executor(dt_executor_create(&options, c.profile.get()));
    struct dt_executor_work work = {c.profile.get(), c.program, 9, 1000};
    struct dt_executor_order order;
    ASSERT_EQ(dt_executor_flow_count(executor.get()), 2u);
    ASSERT_FALSE(dt_executor_get_flow(executor.get(), 0)->sends);
    ASSERT_TRUE(dt_executor_begin(executor.get(), &work, 0));
    EXPECT_EQ(dt_executor_expected(executor.get(), 0), nullptr) << "nothing is posted";
    while (dt_executor_next(executor.get(), 0, &order)) {
    }
    const struct dt_pipeline_identity *expected = dt_executor_expected(executor.get(), 0);
    ASSERT_NE(expected, nullptr);
    EXPECT_EQ(expected->iteration, 9u);
    struct dt_pipeline_identity stale = *expected;
    stale.iteration = 8;
    EXPECT_FALSE(dt_executor_received(executor.get(), 0, &stale, 5));
    char text[DT_EXECUTOR_TEXT_BYTES];
    EXPECT_STREQ(dt_executor_text(executor.get(), text), "WAIT_F of microbatch 0 on stage 1");
}

/* A driver that calls late moves messages, not computations that need none. */
TEST(Executor, ComputationsFollowEachOtherWhenTheDriverIsLate)
{
    Case c(Profile::Uniform(1, 4, 10, 10, 10), DETOUR_ALGORITHM_GPIPE);
    struct dt_executor_options options = Options(DT_PIPELINE_HOSTPATH);
    Executor executor(dt_executor_create(&options, c.profile.get()));
    struct dt_executor_work work = {c.profile.get(), c.program, 0, 1000};
    struct dt_executor_order order;
    ASSERT_TRUE(dt_executor_begin(executor.get(), &work, 0));
    EXPECT_FALSE(dt_executor_next(executor.get(), 0, &order));
    EXPECT_EQ(dt_executor_due_ns(executor.get()), 10u);
    EXPECT_FALSE(dt_executor_next(executor.get(), 47, &order));
    EXPECT_EQ(dt_executor_due_ns(executor.get()), 60u) << "a backward that began at 40";
    EXPECT_FALSE(dt_executor_next(executor.get(), 500, &order));
    EXPECT_TRUE(dt_executor_is_done(executor.get()));
    EXPECT_EQ(dt_executor_get_account(executor.get()).end_ns, 120u);
}

TEST(Executor, HasAFlowPerDirectionOfEachLink)
{
    Profile profile = Profile::Uniform(4, 1, 10, 10, 10);
    profile.stages[2].device = 1;
    profile.stages[3].device = 0;
    struct dt_executor_options options = Options(DT_PIPELINE_DELEGATED);
    options.device = 1;
    Executor executor(dt_executor_create(&options, profile.get()));
    std::string flows;
    for (size_t i = 0; i < dt_executor_flow_count(executor.get()); i++) {
        const struct dt_executor_flow *flow = dt_executor_get_flow(executor.get(), i);
        EXPECT_EQ(flow->peer, 0);
        flows += std::to_string(flow->link) + (flow->backward ? "B" : "F") + (flow->sends ? "> " : "< ");
    }
    EXPECT_EQ(flows, "0F< 0B> 2F> 2B< ");
}
