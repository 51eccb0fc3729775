/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/plan.h"

#include <gtest/gtest.h>

namespace
{
struct Plan {
    struct dt_pipeline_options options = {};
    struct dt_pipeline_plan plan = {};
    struct detour_error error = {};

    explicit Plan(enum detour_algorithm algorithm)
    {
        options.devices = 4;
        options.replicas = 1;
        options.microbatches = 16;
        options.algorithm = algorithm;
        options.f_ns = options.b_ns = options.w_ns = 10000000;
    }

    bool Make()
    {
        return dt_pipeline_plan_make(&plan, &options, &error);
    }

    ~Plan()
    {
        dt_pipeline_plan_free(&plan);
    }
};
} // namespace

TEST(PipelinePlan, PredictsWhatTheModelComputes)
{
    Plan p(DETOUR_ALGORITHM_ZB_H1);
    ASSERT_TRUE(p.Make()) << p.error.text;
    EXPECT_EQ(dt_pipeline_plan_predict_ns(&p.plan, NULL, 0), 510000000)
        << "16 times 30 ms, and 30 ms of bubbles";
}

TEST(PipelinePlan, KnowsWhatIsSlowInAnIteration)
{
    Plan p(DETOUR_ALGORITHM_1F1B);
    ASSERT_TRUE(dt_pipeline_slow_add_link(&p.options.slow, "2-3=20ms,from=1,to=2"));
    ASSERT_TRUE(dt_pipeline_slow_add_device(&p.options.slow, "1=2x,from=3"));
    ASSERT_TRUE(p.Make()) << p.error.text;
    int64_t healthy_ns = dt_pipeline_plan_predict_ns(&p.plan, NULL, 0);
    EXPECT_GT(dt_pipeline_plan_predict_ns(&p.plan, NULL, 1), healthy_ns + 40000000);
    EXPECT_EQ(dt_pipeline_plan_predict_ns(&p.plan, NULL, 2), healthy_ns);
    EXPECT_GT(dt_pipeline_plan_predict_ns(&p.plan, NULL, 3), healthy_ns + 400000000);
    EXPECT_EQ(p.plan.profile.stages[1].f_ns, 10000000) << "the planned profile is left as it is";
}

/* Replicas without anything slow cost nothing in the model; the slowest replica decides, and then the ring.
 */
TEST(PipelinePlan, AddsTheGradientsOfReplicas)
{
    Plan p(DETOUR_ALGORITHM_ZB_H1);
    p.options.replicas = 2;
    p.options.gradient_bytes = 4096;
    ASSERT_TRUE(dt_pipeline_slow_add_link(&p.options.slow, "3@0-3@1=20ms,from=1,to=2"));
    ASSERT_TRUE(dt_pipeline_slow_add_device(&p.options.slow, "0@1=2x,from=2"));
    ASSERT_TRUE(p.Make()) << p.error.text;
    EXPECT_EQ(dt_pipeline_plan_predict_ns(&p.plan, NULL, 0), 510000000);
    EXPECT_EQ(dt_pipeline_plan_predict_ns(&p.plan, NULL, 1), 510000000 + 2 * 20000000)
        << "the last device ends with the pipeline; two steps";
    EXPECT_GT(dt_pipeline_plan_predict_ns(&p.plan, NULL, 2), 510000000 + 400000000);
}

/* Fewer microbatches for a slow replica: a schedule for each number, and the model follows. */
TEST(PipelinePlan, HasAScheduleForEachNumberOfMicrobatches)
{
    Plan p(DETOUR_ALGORITHM_ZB_H1);
    p.options.replicas = 2;
    p.options.gradient_bytes = 4096;
    ASSERT_TRUE(dt_pipeline_shares_add(&p.options.shares, "16,16@1"));
    ASSERT_TRUE(dt_pipeline_shares_add(&p.options.shares, "21,11@2"));
    ASSERT_TRUE(dt_pipeline_slow_add_device(&p.options.slow, "0@1=2x,from=1"));
    ASSERT_TRUE(p.Make()) << p.error.text;
    EXPECT_EQ(p.plan.variant_count, 2u);
    EXPECT_EQ(dt_pipeline_plan_of(&p.plan, 1, 0).program, p.plan.program);
    struct dt_pipeline_variant fewer = dt_pipeline_plan_of(&p.plan, 1, 2);
    EXPECT_EQ(fewer.profile.microbatch_count, 11);
    EXPECT_EQ(fewer.schedule->op_count, 3u * 4 * 11);
    EXPECT_EQ(dt_pipeline_plan_of(&p.plan, 0, 2).schedule->op_count, 3u * 4 * 21);
    EXPECT_EQ(dt_pipeline_plan_predict_ns(&p.plan, NULL, 0), 510000000);
    EXPECT_GE(dt_pipeline_plan_predict_ns(&p.plan, NULL, 1), 16 * 60000000);
    EXPECT_GE(dt_pipeline_plan_predict_ns(&p.plan, NULL, 2), 11 * 60000000);
    EXPECT_LT(dt_pipeline_plan_predict_ns(&p.plan, NULL, 2), 12 * 60000000) << "21 x 30 ms fit as well";
    struct detour_profile profile;
    ASSERT_TRUE(dt_pipeline_profile_make(&p.options, 1, 2, &profile));
    EXPECT_EQ(profile.microbatch_count, 11);
    dt_pipeline_profile_free(&profile);
}

TEST(PipelinePlan, NamesTheNumberForWhichThereIsNoSchedule)
{
    Plan p(DETOUR_ALGORITHM_1F1B);
    p.options.replicas = 2;
    p.options.shares.set_count = 1;
    p.options.shares.sets[0] = {0, 2, {32, 0}};
    EXPECT_FALSE(p.Make());
    EXPECT_NE(std::string(p.error.text).find("0 microbatches: microbatch_count is 0"), std::string::npos)
        << p.error.text;
}

TEST(PipelinePlan, PlacesTwoStagesOnADevice)
{
    Plan v(DETOUR_ALGORITHM_ZB_V), interleaved(DETOUR_ALGORITHM_INTERLEAVED);
    ASSERT_TRUE(v.Make()) << v.error.text;
    ASSERT_TRUE(interleaved.Make()) << interleaved.error.text;
    ASSERT_EQ(v.plan.profile.stage_count, 8);
    EXPECT_EQ(v.plan.profile.stages[7].device, 0);
    EXPECT_EQ(interleaved.plan.profile.stages[7].device, 3);
}

TEST(PipelinePlan, ReportsAProfileThatDoesNotExist)
{
    Plan p(DETOUR_ALGORITHM_1F1B);
    p.options.microbatches = 0;
    EXPECT_FALSE(p.Make());
    EXPECT_NE(std::string(p.error.text).find("microbatch_count"), std::string::npos) << p.error.text;
}
