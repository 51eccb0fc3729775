// SPDX-License-Identifier: Apache-2.0
#include "cli/pipeline/remedy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "cli/pipeline/claim.h"
#include "controller/execute.h"
#include "detour/mitigate.h"
#include "tests/obs/folder.h"

namespace
{
/* Two replicas of two devices with 8 microbatches each. */
class PipelineRemedy : public ::testing::Test
{
  protected:
    PipelineRemedy()
    {
        setenv("DETOUR_RUNTIME_DIR", folder.path.c_str(), 1);
        options.devices = options.replicas = 2;
        options.microbatches = 8;
        options.job.ranks = 4;
    }
    ~PipelineRemedy() override
    {
        unsetenv("DETOUR_RUNTIME_DIR");
    }
    /* As the agent of this host writes it. */
    void Decide(int64_t number, std::vector<int32_t> counts, std::vector<int32_t> nodes, int64_t fence = 1,
                int32_t step = 2)
    {
        auto decision = std::make_unique<dt_decision>();
        char text[DT_RECORD_TEXT_BYTES];

        decision->number = number;
        decision->fence = fence;
        decision->time_ns = time_ns;
        decision->kind = DT_DECISION_REMEDY;
        decision->step = step;
        decision->replica_count = counts.size();
        std::copy(counts.begin(), counts.end(), decision->counts);
        decision->node_count = nodes.size();
        std::copy(nodes.begin(), nodes.end(), decision->nodes);
        ASSERT_EQ(dt_execute(folder.path.c_str(), decision.get(), text), DT_OK) << text;
    }
    /* The number of the remedy that is read; 0: none that fits is new. */
    int64_t Read()
    {
        dt_pipeline_remedy before = remedy;

        dt_pipeline_remedy_read(&options, &remedy);
        EXPECT_EQ(dt_pipeline_remedy_is_new(&before, &remedy), remedy.number != before.number ||
                                                                   remedy.fence != before.fence ||
                                                                   remedy.time_ns != before.time_ns);
        return dt_pipeline_remedy_is_new(&before, &remedy) ? remedy.number : 0;
    }

    /* The checkpoints have a folder of their own. */
    void Resume()
    {
        options.checkpoints.resumes = true;
        options.checkpoints.directory = checkpoints.path.c_str();
    }

    Folder folder, checkpoints;
    int64_t time_ns = 0; /* of decisions */
    dt_pipeline_options options = {};
    dt_pipeline_remedy remedy = {};
};

TEST_F(PipelineRemedy, OneThatWasThereBeforeTheRunIsNone)
{
    Decide(4, {6, 10}, {0, 1, 2, 3});
    dt_pipeline_remedy_start(&options, 0, &remedy);
    EXPECT_EQ(Read(), 0);
    EXPECT_EQ(remedy.counts[0], 0);
    Decide(5, {6, 10}, {0, 1, 2, 3});
    EXPECT_EQ(Read(), 5);
    EXPECT_EQ(Read(), 0);
    Decide(3, {7, 9}, {0, 1, 2, 3});
    EXPECT_EQ(Read(), 0) << "an older one";
    Decide(1, {7, 9}, {0, 1, 2, 3}, 2);
    EXPECT_EQ(Read(), 1) << "of a later controller, whose numbers begin anew";
}

TEST_F(PipelineRemedy, AResumedRunTakesTheOneOfItsJob)
{
    Resume();
    dt_pipeline_claim_set(options.checkpoints.directory);
    Decide(4, {6, 10}, {0, 1, 2, 3}, 1, DETOUR_STEP_S2);
    dt_pipeline_remedy_start(&options, 7, &remedy);
    EXPECT_EQ(Read(), 4);
    EXPECT_EQ(remedy.counts[0], 6);
    for (int32_t step : {DETOUR_STEP_S1, DETOUR_STEP_S4}) {
        Decide(5 + step, {8, 8}, {0, 1, 2, 3}, 1, step);
        dt_pipeline_remedy_start(&options, 7, &remedy);
        EXPECT_EQ(Read(), 0) << "the run begins like that";
    }
    Decide(10, {8, 8}, {2, 1, 0, 3}, 1, DETOUR_STEP_S1);
    dt_pipeline_remedy_start(&options, 7, &remedy);
    EXPECT_EQ(Read(), 10) << "the ranks stay where S3 has put them";
    EXPECT_EQ(remedy.ranks[0], 2);
}

TEST_F(PipelineRemedy, AResumedRunTakesNoneOfAnotherJob)
{
    Resume();
    Decide(4, {6, 10}, {0, 1, 2, 3}, 1, DETOUR_STEP_S2);
    testing::internal::CaptureStderr();
    dt_pipeline_remedy_start(&options, 7, &remedy);
    EXPECT_EQ(Read(), 0);
    dt_pipeline_claim_set(options.checkpoints.directory); /* by a job of before, in the same folder */
    dt_pipeline_remedy_start(&options, 0, &remedy);
    EXPECT_EQ(Read(), 0);
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "detour pipeline: remedy 4 of the controller (S2) is not taken: another job has used this "
              "runtime directory\n"
              "detour pipeline: remedy 4 of the controller (S2) is not taken: it is older than this job, "
              "which has no checkpoint\n");
    Decide(5, {6, 10}, {0, 1, 2, 3}, 1, DETOUR_STEP_S2);
    EXPECT_EQ(Read(), 5);
}

/* A controller without Redis numbers its decisions from 1. */
TEST_F(PipelineRemedy, TheNumbersOfAnotherControllerBeginAnew)
{
    Decide(4, {6, 10}, {0, 1, 2, 3}, 2);
    dt_pipeline_remedy_start(&options, 0, &remedy);
    time_ns = 1;
    Decide(1, {6, 10}, {0, 1, 2, 3});
    EXPECT_EQ(Read(), 1);
    time_ns = 2;
    Decide(1, {7, 9}, {0, 1, 2, 3});
    EXPECT_EQ(Read(), 1);
    EXPECT_EQ(remedy.counts[0], 7);
    EXPECT_EQ(Read(), 0);
}

TEST_F(PipelineRemedy, TheReasonOfAMisfitIsOneLine)
{
    testing::internal::CaptureStderr();
    Decide(1, {6, 11}, {0, 1, 2, 3}, 1, DETOUR_STEP_S2);
    EXPECT_EQ(Read(), 0);
    EXPECT_EQ(Read(), 0);
    Decide(2, {6, 10}, {0, 1, 2, 3});
    EXPECT_EQ(Read(), 2);
    Decide(3, {16}, {0, 1, 2, 3});
    EXPECT_EQ(Read(), 0);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "detour pipeline: remedy 1 of the controller (S2) is "
                                                      "not taken: the run has another sum of microbatches\n"
                                                      "detour pipeline: remedy 3 of the controller (S3) is "
                                                      "not taken: the run has another number of replicas\n");
}

TEST_F(PipelineRemedy, OneThatDoesNotFitTheRunIsNone)
{
    Decide(1, {6, 11}, {0, 1, 2, 3}); /* 17 microbatches */
    EXPECT_EQ(Read(), 0);
    Decide(2, {16}, {0, 1, 2, 3});
    EXPECT_EQ(Read(), 0);
    Decide(3, {8, 8}, {0, 1, 2, 3, 4, 5});
    EXPECT_EQ(Read(), 0);
    options.slow.kill.nic[0] = 'x'; /* --exchange goes without --kill */
    Decide(4, {8, 8}, {1, 0, 2, 3});
    EXPECT_EQ(Read(), 0);
    Decide(5, {7, 9}, {0, 1, 2, 3});
    EXPECT_EQ(Read(), 5);
    options.svg_path = "run.svg"; /* of a schedule for equal replicas */
    Decide(6, {6, 10}, {0, 1, 2, 3});
    EXPECT_EQ(Read(), 0);
    options.svg_path = nullptr;
    options.replicas = 1;
    Decide(6, {16}, {0, 1, 2, 3});
    EXPECT_EQ(Read(), 0);
}

TEST_F(PipelineRemedy, StepFourEndsTheRun)
{
    dt_pipeline_remedy present = {};

    Decide(1, {8, 8}, {0, 1, 2, 3}, 1, 3);
    EXPECT_EQ(Read(), 1);
    EXPECT_TRUE(dt_pipeline_remedy_ends_run(&present, &remedy));
    present = remedy;
    EXPECT_FALSE(dt_pipeline_remedy_ends_run(&present, &remedy)) << "it is no news";
    Decide(2, {8, 8}, {1, 0, 2, 3}, 1, 2);
    EXPECT_EQ(Read(), 2);
    EXPECT_FALSE(dt_pipeline_remedy_ends_run(&present, &remedy));
}

/* All 24 arrangements of four ranks: the exchanges lead to it from the start. */
TEST_F(PipelineRemedy, ExchangesLeadToThePositions)
{
    std::vector<int32_t> ranks = {0, 1, 2, 3};

    dt_pipeline_plan plan = {};
    dt_job_error error = {};
    detour_error reason;
    options.algorithm = DETOUR_ALGORITHM_1F1B;
    options.f_ns = options.b_ns = options.w_ns = 1000000;
    ASSERT_TRUE(dt_pipeline_plan_make(&plan, &options, &reason)) << reason.text;
    do {
        remedy = {};
        remedy.counts[0] = 5;
        remedy.counts[1] = 11;
        std::copy(ranks.begin(), ranks.end(), remedy.ranks);
        ASSERT_TRUE(dt_pipeline_remedy_set(&remedy, 7, &options, &plan, &error)) << error.text;
        for (unsigned position = 0; position < 4; position++) {
            EXPECT_EQ(dt_pipeline_exchanges_rank_at(&options.exchanges, position, 7),
                      (unsigned)ranks[position]);
            EXPECT_EQ(dt_pipeline_exchanges_rank_at(&options.exchanges, position, 6), position);
        }
        EXPECT_EQ(dt_pipeline_options_share(&options, 1, 7).count, 11);
        EXPECT_EQ(dt_pipeline_plan_of(&plan, 1, 7).profile.microbatch_count, 11);
    } while (std::next_permutation(ranks.begin(), ranks.end()));
    remedy.counts[0] = remedy.counts[1] = 8;
    ASSERT_TRUE(dt_pipeline_remedy_set(&remedy, 9, &options, &plan, &error)) << error.text;
    EXPECT_EQ(dt_pipeline_plan_of(&plan, 1, 9).profile.microbatch_count, 8);
    dt_pipeline_plan_free(&plan);
}
} // namespace
