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
        dt_pipeline_candidate_free(&present);
        dt_pipeline_plan_free(&plan);
    }

    enum detour_adapt_verdict Prepare(const struct dt_pipeline_delays &measured,
                                      struct dt_pipeline_candidate *candidate, uint32_t iteration = 0)
    {
        return dt_pipeline_adapt_prepare(&plan, &present, iteration, &none, &measured, candidate);
    }

    /* Of what is in use if the candidate is taken. */
    uint64_t Digest(const struct dt_pipeline_candidate &candidate, uint32_t iteration = 0)
    {
        return dt_pipeline_candidate_digest(&plan, &present, &candidate, iteration);
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
    struct dt_pipeline_candidate present = {}; /* the plan's schedules are in use */
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

    struct dt_pipeline_candidate first = {}, second = {};
    ASSERT_EQ(Prepare(slow, &first), DETOUR_ADAPT_CHANGE);
    ASSERT_EQ(Prepare(slow, &second), DETOUR_ADAPT_CHANGE);
    EXPECT_EQ(Digest(first), Digest(second)) << "every rank makes the same one";
    EXPECT_NE(Digest(first), Digest(present));
    ASSERT_TRUE(dt_pipeline_slow_add_link(&options.slow, "2-3=40ms"));
    const struct detour_schedule *schedule = first.orders[0].variant.schedule;
    EXPECT_LT(dt_pipeline_plan_predict_ns(&plan, &schedule, 0), dt_pipeline_plan_predict_ns(&plan, NULL, 0));
    dt_pipeline_candidate_free(&first);
    dt_pipeline_candidate_free(&second);
}

TEST_F(PipelineAdapt, WithoutAChangeThereIsNothingToPrepare)
{
    struct dt_pipeline_candidate candidate = {};
    EXPECT_EQ(Prepare(none, &candidate), DETOUR_ADAPT_KEEP_UNCHANGED);
    EXPECT_EQ(candidate.count, 0u);
    /* Every schedule of one microbatch is as long. */
    dt_pipeline_plan_free(&plan);
    options.microbatches = 1;
    struct detour_error error;
    ASSERT_TRUE(dt_pipeline_plan_make(&plan, &options, &error)) << error.text;
    verdicts[2].slow[0] = {3, 0, 40000000};
    EXPECT_EQ(Prepare(Measured(), &candidate), DETOUR_ADAPT_KEEP_NO_GAIN);
    EXPECT_EQ(candidate.count, 0u);
}

/* Three replicas with two numbers of microbatches: a schedule for each number, which takes the place of the
 * one before for that number alone. */
TEST_F(PipelineAdapt, EachNumberOfMicrobatchesHasASchedule)
{
    struct dt_pipeline_candidate candidate = {};
    struct detour_error error;
    options.replicas = 3;
    ASSERT_TRUE(dt_pipeline_shares_add(&options.shares, "20,8,20@5"));
    ASSERT_TRUE(dt_pipeline_plan_vary(&plan, &error)) << error.text;
    verdicts[2].slow[0] = {3, 0, 40000000};
    verdicts[3].slow[0] = {2, 0, 40000000};
    struct dt_pipeline_delays slow = Measured();
    ASSERT_EQ(Prepare(slow, &candidate, 5), DETOUR_ADAPT_CHANGE);
    ASSERT_EQ(candidate.count, 2u);
    const uint64_t digest = Digest(candidate, 5);
    EXPECT_NE(digest, Digest(present, 5));
    dt_pipeline_candidate_take(&present, &candidate);
    EXPECT_EQ(candidate.count, 0u);
    EXPECT_EQ(present.count, 2u);
    EXPECT_EQ(Digest(candidate, 5), digest) << "what was confirmed is in use";
    for (int32_t replica = 0; replica < 3; replica++) {
        struct dt_pipeline_variant used = dt_pipeline_variant_of(&plan, &present, replica, 5);
        EXPECT_EQ(used.profile.microbatch_count, replica == 1 ? 8 : 20);
        EXPECT_EQ(used.schedule->op_count, used.profile.microbatch_count * 4u * 3u);
        EXPECT_NE(used.program, dt_pipeline_plan_of(&plan, replica, 5).program);
    }
    EXPECT_EQ(dt_pipeline_variant_of(&plan, &present, 0, 4).program, plan.program)
        << "another number: the plan's";
    EXPECT_EQ(dt_pipeline_adapt_prepare(&plan, &present, 5, &slow, &slow, &candidate),
              DETOUR_ADAPT_KEEP_UNCHANGED);
    ASSERT_EQ(dt_pipeline_adapt_prepare(&plan, &present, 5, &slow, &none, &candidate), DETOUR_ADAPT_CHANGE);
    dt_pipeline_candidate_take(&present, &candidate);
    EXPECT_EQ(present.count, 2u);
    EXPECT_NE(Digest(candidate, 5), digest);
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
