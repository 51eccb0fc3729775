/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/replicas.h"

#include <gtest/gtest.h>

#include <vector>

#include "cli/pipeline/plan.h"

namespace
{
constexpr int64_t kMs = 1000000;

class PipelineReplicas : public ::testing::Test
{
  protected:
    PipelineReplicas()
    {
        options.devices = 2;
        options.replicas = 3;
        options.microbatches = 4;
        options.gradient_bytes = 65536;
        options.algorithm = DETOUR_ALGORITHM_ZB_V; /* two stages on each device */
        options.f_ns = options.b_ns = options.w_ns = kMs;
        struct detour_error error;
        EXPECT_TRUE(dt_pipeline_plan_make(&plan, &options, &error)) << error.text;
    }

    ~PipelineReplicas() override
    {
        dt_pipeline_plan_free(&plan);
    }

    int64_t EndNs(const std::vector<int64_t> &ended_ns, uint32_t iteration = 0)
    {
        return dt_pipeline_replicas_end_ns(&options, &plan.profile, iteration, ended_ns.data());
    }

    struct dt_pipeline_options options = {};
    struct dt_pipeline_plan plan = {};
};
} // namespace

TEST_F(PipelineReplicas, ADeviceSumsUpItsStages)
{
    struct dt_gradients_options made = dt_pipeline_replicas_gradients(&options, &plan.profile, {1, 2});
    EXPECT_EQ(made.places * made.place_bytes, 2u * 65536);
    EXPECT_EQ(made.kept_bytes, made.place_bytes) << "every byte is kept";
    EXPECT_EQ(made.device, 1);
    EXPECT_EQ(made.replica, 2);
    EXPECT_EQ(made.replicas, 3);
    EXPECT_EQ(dt_gradients_slices(&made), 1u);
    options.gradient_bytes = 4 << 20;
    made = dt_pipeline_replicas_gradients(&options, &plan.profile, {1, 2});
    EXPECT_EQ(dt_gradients_slices(&made), 6u) << "a third of 8 MiB in slices of 512 KiB";
}

/* Ranks are replica by replica: the devices 0 end at 1, 3 and 5 ms. */
TEST_F(PipelineReplicas, EachDeviceWaitsForItsOwnRing)
{
    const std::vector<int64_t> ended = {1 * kMs, 2 * kMs, 3 * kMs, 4 * kMs, 5 * kMs, 1 * kMs};
    EXPECT_EQ(EndNs(ended), 5 * kMs) << "links cost nothing";
    ASSERT_TRUE(dt_pipeline_slow_add_link(&options.slow, "1@1-1@2=10ms,from=1,to=2"));
    ASSERT_TRUE(dt_pipeline_slow_add_link(&options.slow, "0@2-0@0=7ms,serial,from=2,to=3"));
    EXPECT_EQ(EndNs(ended), 5 * kMs);
    /* Of the four steps of a chunk, every third crosses the slow link; the link itself carries four slices.
     */
    EXPECT_EQ(EndNs(ended, 1), 4 * kMs + 2 * 10 * kMs);
    EXPECT_EQ(EndNs(ended, 2), 5 * kMs + 4 * 7 * kMs);
    EXPECT_EQ(EndNs(ended, 3), 5 * kMs);
}

TEST_F(PipelineReplicas, OneReplicaHasNothingToSumUp)
{
    options.replicas = 1;
    EXPECT_EQ(EndNs({4 * kMs, 2 * kMs}), 4 * kMs);
}
