/* SPDX-License-Identifier: Apache-2.0 */
/* The host path by order: which flows need it, and when the loop asks for a change. */
#include "cli/pipeline/staging.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "cli/pipeline/plan.h"

namespace
{
class PipelineStaging : public ::testing::Test
{
  protected:
    PipelineStaging()
    {
        options.devices = 4;
        options.replicas = 1;
        options.payload_bytes = 65536;
        options.microbatches = 8;
        options.algorithm = DETOUR_ALGORITHM_ZB_H1;
        options.f_ns = options.b_ns = options.w_ns = 10000000;
        struct detour_error reason;
        EXPECT_TRUE(dt_pipeline_plan_make(&plan, &options, &reason)) << reason.text;
        none.link_count = slow.link_count = 3;
        slow.forward_ns[2] = 20000000;
        Unset();
        unsetenv("DETOUR_RUNTIME_DIR");
    }
    ~PipelineStaging() override
    {
        dt_pipeline_plan_free(&plan);
        Unset();
    }
    static void Unset()
    {
        for (const char *name : {"DETOUR_HOSTPATH", "DETOUR_HOSTPATH_BYTES", "DETOUR_HOSTPATH_QUEUES"})
            unsetenv(name);
    }
    bool Needs(int32_t from, int32_t to)
    {
        return dt_pipeline_staging_needs(&plan.profile, &slow, from, to);
    }
    /* The setting of the ranks in this mode. */
    std::string Prepare(enum dt_pipeline_mode mode, bool adapt)
    {
        options.mode = mode;
        options.adapt = adapt ? DT_PIPELINE_ADAPT_ITERATION : DT_PIPELINE_ADAPT_OFF;
        EXPECT_TRUE(dt_pipeline_staging_prepare(&staging, &options, {0, 0}));
        const char *setting = getenv("DETOUR_HOSTPATH");
        return setting ? setting : "";
    }

    struct dt_pipeline_options options = {};
    struct dt_pipeline_plan plan = {};
    struct dt_pipeline_delays none = {}, slow = {};
    struct dt_pipeline_staging staging = {};
    struct dt_job_error error = {};
};
} // namespace

TEST_F(PipelineStaging, MemoryAndThreadsAreThoseOfTheLinksUnlessTheUserHasSetThem)
{
    options.payload_bytes = 64 << 20;
    Prepare(DT_PIPELINE_DELEGATED, false);
    EXPECT_GT(strtoull(getenv("DETOUR_HOSTPATH_BYTES"), nullptr, 10), 5u * (64 << 20))
        << "the depth, and one";
    EXPECT_GE(atoi(getenv("DETOUR_HOSTPATH_QUEUES")), 1);
    setenv("DETOUR_HOSTPATH_BYTES", "4K", 1);
    setenv("DETOUR_HOSTPATH_QUEUES", "3", 1);
    Prepare(DT_PIPELINE_DELEGATED, false);
    EXPECT_STREQ("4K", getenv("DETOUR_HOSTPATH_BYTES"));
    EXPECT_STREQ("3", getenv("DETOUR_HOSTPATH_QUEUES"));
}

TEST_F(PipelineStaging, OnlyTheModeNcclSwitchesAndOnlyWhatTheUserHasNotSet)
{
    EXPECT_EQ("on", Prepare(DT_PIPELINE_DELEGATED, true));
    EXPECT_FALSE(staging.is_switched);
    unsetenv("DETOUR_HOSTPATH");
    EXPECT_EQ("", Prepare(DT_PIPELINE_NCCL, false));
    EXPECT_FALSE(staging.is_switched);
    EXPECT_EQ("auto", Prepare(DT_PIPELINE_NCCL, true));
    EXPECT_TRUE(staging.is_switched);
    setenv("DETOUR_HOSTPATH", "off", 1);
    EXPECT_EQ("off", Prepare(DT_PIPELINE_NCCL, true));
    EXPECT_FALSE(staging.is_switched);
}

TEST_F(PipelineStaging, AFlowNeedsItInTheDirectionThatIsSlow)
{
    EXPECT_TRUE(Needs(2, 3));
    EXPECT_FALSE(Needs(3, 2));
    EXPECT_FALSE(Needs(0, 1));
    slow.backward_ns[2] = 1900000;
    EXPECT_FALSE(Needs(3, 2)) << "less than a fifth of a computation";
    slow.backward_ns[2] = 2100000;
    EXPECT_TRUE(Needs(3, 2));
}

TEST_F(PipelineStaging, AChangeIsAskedForWhenTwoIterationsInARowAgree)
{
    staging.is_switched = true;
    auto changes = [&](const struct dt_pipeline_delays &agreed, const struct dt_pipeline_delays &measured) {
        return dt_pipeline_staging_changes(&staging, &plan.profile, &agreed, &measured);
    };
    EXPECT_FALSE(changes(none, slow));
    EXPECT_FALSE(changes(none, none)) << "it flaps";
    EXPECT_FALSE(changes(none, slow));
    EXPECT_TRUE(changes(none, slow));
    struct dt_pipeline_delays slower = slow;
    slower.forward_ns[2] *= 3;
    EXPECT_FALSE(changes(slow, slower) || changes(slow, slower)) << "the same flows";
    EXPECT_FALSE(changes(slow, none));
    EXPECT_TRUE(changes(slow, none)) << "recovered";
    staging.is_switched = false;
    EXPECT_FALSE(changes(none, slow) || changes(none, slow));
}

TEST_F(PipelineStaging, FlowsOfEveryReplicaAreShown)
{
    struct dt_pipeline_flow flows[DT_PIPELINE_FLOWS_SHOWN];
    unsigned ranks[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    EXPECT_EQ(0u, dt_pipeline_staging_flows(&staging, &plan.profile, &slow, ranks, 8, flows));
    staging.is_switched = true;
    ASSERT_EQ(2u, dt_pipeline_staging_flows(&staging, &plan.profile, &slow, ranks, 8, flows));
    EXPECT_EQ(2, flows[0].from);
    EXPECT_EQ(3, flows[0].to);
    EXPECT_EQ(6, flows[1].from);
    EXPECT_EQ(7, flows[1].to);
    std::swap(ranks[3], ranks[6]); /* they have exchanged their positions */
    ASSERT_EQ(2u, dt_pipeline_staging_flows(&staging, &plan.profile, &slow, ranks, 8, flows));
    EXPECT_EQ(2, flows[0].from);
    EXPECT_EQ(6, flows[0].to);
    EXPECT_EQ(3, flows[1].from);
    EXPECT_EQ(7, flows[1].to);
}

/* This process has no command socket: the order that is needed fails, and names itself. */
TEST_F(PipelineStaging, OnlyTheSenderOfASlowFlowGivesAnOrder)
{
    struct dt_pipeline_process processes[4] = {};
    unsigned ranks[4] = {0, 1, 2, 3};
    snprintf(processes[3].name, sizeof processes[3].name, "host:7");
    staging.is_switched = true;
    for (uint32_t rank : {0, 1, 3})
        EXPECT_TRUE(dt_pipeline_staging_set(&staging, &plan.profile, &slow, rank, ranks, processes, &error));
    EXPECT_FALSE(dt_pipeline_staging_set(&staging, &plan.profile, &slow, 2, ranks, processes, &error));
    EXPECT_EQ(0u, std::string(error.text).find("`detour hostpath on peer=host:7` at this rank: "))
        << error.text;
    EXPECT_FALSE(staging.is_on[3]);
    std::swap(ranks[2], ranks[0]);
    std::swap(ranks[3], ranks[1]);
    snprintf(processes[1].name, sizeof processes[1].name, "host:5");
    EXPECT_FALSE(dt_pipeline_staging_set(&staging, &plan.profile, &slow, 2, ranks, processes, &error));
    EXPECT_EQ(0u, std::string(error.text).find("`detour hostpath on peer=host:")) << error.text;
    staging.is_on[1] = true;
    EXPECT_TRUE(dt_pipeline_staging_set(&staging, &plan.profile, &slow, 2, ranks, processes, &error))
        << "rank 1 is the receiver at position 3";
    dt_pipeline_staging_reset(&staging);
    EXPECT_FALSE(staging.is_on[1]);
}
