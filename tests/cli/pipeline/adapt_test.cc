/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/adapt.h"

#include <gtest/gtest.h>

namespace
{
class PipelineAdapt : public ::testing::Test
{
  protected:
    PipelineAdapt()
    {
        options.devices = 4;
        options.replicas = 1;
        options.microbatches = 16;
        options.algorithm = DETOUR_ALGORITHM_ZB_H1;
        options.f_ns = options.b_ns = options.w_ns = 10000000;
        struct detour_error error;
        EXPECT_TRUE(dt_pipeline_plan_make(&plan, &options, &error)) << error.text;
        for (auto &rank : verdicts)
            for (auto &slow : rank.slow)
                slow.to_rank = -1;
    }

    ~PipelineAdapt() override
    {
        dt_pipeline_plan_free(&plan);
    }

    struct dt_pipeline_delays Measured()
    {
        struct dt_pipeline_delays delays;
        dt_pipeline_delays_from_verdicts(&plan.profile, verdicts, &delays);
        return delays;
    }

    struct dt_pipeline_options options = {};
    struct dt_pipeline_plan plan = {};
    struct dt_pipeline_verdicts verdicts[4] = {};
    struct dt_pipeline_delays none = {};
};
} // namespace

TEST_F(PipelineAdapt, VerdictsBecomeDelaysOfLinks)
{
    verdicts[2].slow[1].to_rank = 3;
    verdicts[2].slow[1].delay_ns = 20;
    verdicts[3].slow[0].to_rank = 2;
    verdicts[3].slow[0].delay_ns = 30;
    verdicts[1].slow[0].to_rank = 3; /* no link of the pipeline */
    verdicts[1].slow[0].delay_ns = 99;
    struct dt_pipeline_delays delays = Measured();
    ASSERT_EQ(delays.link_count, 3);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(delays.forward_ns[i], i == 2 ? 20 : 0);
        EXPECT_EQ(delays.backward_ns[i], i == 2 ? 30 : 0);
    }
}

/* Two replicas of four devices: ranks 4 to 7 are the second one. */
TEST_F(PipelineAdapt, ReplicasCountWithTheSlowestLink)
{
    struct dt_pipeline_verdicts ranks[8];
    struct dt_pipeline_delays delays;
    for (auto &rank : ranks)
        rank = verdicts[0];
    ranks[1].slow[0] = {2, 0, 10};
    ranks[5].slow[0] = {1, 0, 99}; /* between replicas: no link of the pipeline */
    ranks[5].slow[1] = {6, 0, 30};
    ranks[7].slow[0] = {6, 0, 5};
    dt_pipeline_delays_of_replicas(&plan.profile, 2, ranks, &delays);
    ASSERT_EQ(delays.link_count, 3);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(delays.forward_ns[i], i == 1 ? 30 : 0) << i;
        EXPECT_EQ(delays.backward_ns[i], i == 2 ? 5 : 0) << i;
    }
}

TEST_F(PipelineAdapt, AProcessWithoutAPageHasNoVerdicts)
{
    dt_pipeline_verdicts_read(&verdicts[0]);
    for (auto &slow : verdicts[0].slow)
        EXPECT_EQ(slow.to_rank, -1);
}

TEST_F(PipelineAdapt, ChangesTheScheduleForASlowLinkAndBack)
{
    struct detour_adapt_state state = {};
    EXPECT_FALSE(dt_pipeline_adapt_decide(&plan, plan.schedule, &none, &none, &state));
    verdicts[2].slow[0] = {3, 0, 40000000};
    verdicts[3].slow[0] = {2, 0, 40000000};
    struct dt_pipeline_delays slow = Measured();
    EXPECT_FALSE(dt_pipeline_adapt_decide(&plan, plan.schedule, &none, &slow, &state)) << "not confirmed yet";
    EXPECT_TRUE(dt_pipeline_adapt_decide(&plan, plan.schedule, &none, &slow, &state));

    struct dt_pipeline_candidate first, second;
    ASSERT_TRUE(dt_pipeline_adapt_prepare(&plan, plan.schedule, &none, &slow, &first));
    ASSERT_TRUE(dt_pipeline_adapt_prepare(&plan, plan.schedule, &none, &slow, &second));
    EXPECT_EQ(first.digest, second.digest) << "every rank makes the same one";
    ASSERT_TRUE(dt_pipeline_slow_add_link(&options.slow, "2-3=40ms"));
    EXPECT_LT(dt_pipeline_plan_predict_ns(&plan, first.schedule, 0),
              dt_pipeline_plan_predict_ns(&plan, plan.schedule, 0));
    dt_pipeline_candidate_free(&first);
    dt_pipeline_candidate_free(&second);
}

TEST_F(PipelineAdapt, WithoutAChangeThereIsNothingToPrepare)
{
    struct dt_pipeline_candidate candidate;
    EXPECT_FALSE(dt_pipeline_adapt_prepare(&plan, plan.schedule, &none, &none, &candidate));
    EXPECT_EQ(candidate.arena, nullptr);
}

TEST_F(PipelineAdapt, AllRanksExecuteTheSameSchedule)
{
    struct dt_job_error error = {};
    /* Two replicas with orders of their own. */
    dt_pipeline_used used[] = {{1, 0, 7}, {1, 0, 7}, {1, 1, 8}, {1, 1, 8}};

    EXPECT_TRUE(dt_pipeline_adapt_check(used, 4, 5, &error));
    used[3].digest = 7;
    EXPECT_FALSE(dt_pipeline_adapt_check(used, 4, 5, &error));
    EXPECT_STREQ(error.text,
                 "iteration 5: rank 3 has executed schedule 1 (0000000000000007), rank 2 schedule "
                 "1 (0000000000000008)");
    error = {};
    used[2].number = used[3].number = 0;
    used[3].digest = 8;
    EXPECT_FALSE(dt_pipeline_adapt_check(used, 4, 5, &error));
}
