// SPDX-License-Identifier: Apache-2.0
#include "cli/pipeline/replan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/execute.h"
#include "tests/obs/folder.h"

namespace
{
constexpr int64_t kMs = 1000000;
constexpr unsigned kDevices = 3, kRanks = 2 * kDevices;

using Nodes = std::vector<int32_t>;

const Nodes kHome = {0, 1, 2, 3, 4, 5};

/*
 * Two replicas of three devices with six microbatches each, which follow a controller: six ranks in rounds,
 * in virtual time. The links between ranks 3, 4 and 5, the devices of replica 1, take 40 ms longer.
 */
class PipelineReplan : public ::testing::Test
{
  protected:
    PipelineReplan()
    {
        detour_error reason;

        setenv("DETOUR_RUNTIME_DIR", folder.path.c_str(), 1);
        options.devices = kDevices;
        options.replicas = 2;
        options.microbatches = 6;
        options.algorithm = DETOUR_ALGORITHM_ZB_H1;
        options.f_ns = options.b_ns = options.w_ns = 4 * kMs;
        options.adapt = DT_PIPELINE_ADAPT_CONTROL;
        options.mode = DT_PIPELINE_DELEGATED;
        options.gradient_bytes = 4096;
        options.job.ranks = kRanks;
        EXPECT_TRUE(dt_pipeline_slow_add_link(&options.slow, "0@1-1@1=40ms"));
        EXPECT_TRUE(dt_pipeline_slow_add_link(&options.slow, "1@1-2@1=40ms"));
        EXPECT_TRUE(dt_pipeline_plan_make(&plan, &options, &reason)) << reason.text;
        for (unsigned i = 0; i < kRanks; i++) {
            places[i] = i;
            ranks[i].options = &options;
            ranks[i].plan = &plan;
            ranks[i].ranks = places;
            ranks[i].processes = processes;
            ranks[i].rank_count = kRanks;
            ranks[i].rank = i;
        }
        dt_pipeline_follow_start(&ranks[0].follow, INT64_MAX, false);
        ranks[0].follow.ranks = places;
    }
    ~PipelineReplan() override
    {
        for (dt_pipeline_replan &rank : ranks)
            dt_pipeline_replan_free(&rank);
        dt_pipeline_plan_free(&plan);
        unsetenv("DETOUR_RUNTIME_DIR");
    }

    /* As the agent of rank 0 writes it: messages between these ranks are slow, in both directions. */
    void Decide(int64_t number, std::vector<std::pair<int32_t, int32_t>> links, double delay_ms = 40)
    {
        auto decision = std::make_unique<dt_decision>();
        char text[DT_RECORD_TEXT_BYTES];

        decision->number = number;
        decision->fence = 1;
        decision->kind = DT_DECISION_REPLAN;
        for (const auto &link : links) {
            const int64_t delay_ns = (int64_t)(delay_ms * kMs);
            decision->links[decision->link_count++] = {link.first, link.second, delay_ns};
            decision->links[decision->link_count++] = {link.second, link.first, delay_ns};
        }
        ASSERT_EQ(dt_execute(folder.path.c_str(), decision.get(), text), DT_OK) << text;
    }

    /* An iteration with these counts is over; the ranks compare and go on. */
    std::vector<dt_pipeline_result> Results()
    {
        std::vector<dt_pipeline_result> results(kRanks);
        dt_pipeline_used used[kRanks];
        dt_job_error error = {};

        for (unsigned i = 0; i < kRanks; i++) {
            const int32_t replica = (int32_t)(i / kDevices);
            const dt_pipeline_variant variant = dt_pipeline_replan_of(&ranks[i], replica, iteration);

            EXPECT_EQ(variant.profile.microbatch_count,
                      dt_pipeline_options_share(&options, replica, iteration).count);
            EXPECT_EQ(variant.schedule->op_count, variant.profile.microbatch_count * kDevices * 3u);
            used[i] = {ranks[i].schedule, replica, dt_pipeline_schedule_digest(variant.schedule)};
            results[i].part = ranks[i].agreement.own;
            results[i].proposed = ranks[i].proposed;
        }
        EXPECT_TRUE(dt_pipeline_adapt_check(used, kRanks, iteration, &error)) << error.text;
        return results;
    }

    void Round()
    {
        const std::vector<dt_pipeline_result> results = Results();
        dt_job_error error = {};

        iteration++;
        for (unsigned i = 0; i < kRanks; i++)
            ASSERT_TRUE(dt_pipeline_replan_round(&ranks[i], i, results.data(), iteration, &error));
    }

    /* The remedy that rank 0 has read before this iteration. */
    void Remedy(std::vector<int32_t> counts, const Nodes &nodes)
    {
        dt_pipeline_remedy remedy = {};
        dt_job_error error = {};

        std::copy(counts.begin(), counts.end(), remedy.counts);
        std::copy(nodes.begin(), nodes.end(), remedy.ranks);
        dt_pipeline_replan_offer(&ranks[0], &remedy);
        const std::vector<dt_pipeline_result> results = Results();
        iteration++;
        ASSERT_TRUE(dt_pipeline_remedy_set(&remedy, iteration, &options, &plan, &error)) << error.text;
        std::copy(nodes.begin(), nodes.end(), places);
        for (dt_pipeline_replan &rank : ranks)
            dt_pipeline_replan_remedied(&rank, &results[0].proposed, iteration);
    }

    void Rounds(int count)
    {
        for (int i = 0; i < count; i++)
            Round();
    }

    double NowMs() const
    {
        return (double)dt_pipeline_replan_predict_ns(&ranks[kRanks - 1], iteration) / kMs;
    }
    double PlannedMs() const
    {
        return (double)dt_pipeline_plan_predict_ns(&plan, nullptr, iteration) / kMs;
    }

    Folder folder;
    dt_pipeline_options options = {};
    dt_pipeline_plan plan = {};
    unsigned places[DT_PIPELINE_RANKS_MAX] = {};
    dt_pipeline_process processes[DT_PIPELINE_RANKS_MAX] = {};
    dt_pipeline_replan ranks[kRanks] = {};
    uint32_t iteration = 0;
};

TEST_F(PipelineReplan, ADecisionIsInForceThreeIterationsLater)
{
    Decide(1, {{3, 4}});
    Rounds(2);
    EXPECT_EQ(ranks[0].schedule, 0u);
    EXPECT_EQ(NowMs(), PlannedMs());
    Round();
    for (const dt_pipeline_replan &rank : ranks)
        EXPECT_EQ(rank.schedule, 1u);
    EXPECT_LT(NowMs(), PlannedMs());
}

/* A re-plan, S2, a re-plan, and S1: from each boundary on all ranks have the schedules for the delays. */
TEST_F(PipelineReplan, AReplanStaysWithEveryRemedy)
{
    Decide(1, {{3, 4}});
    Rounds(4);
    EXPECT_EQ(ranks[3].schedule, 1u);
    Remedy({8, 4}, kHome);
    EXPECT_EQ(ranks[3].schedule, 2u) << "from the first iteration on";
    const double first_ms = NowMs();
    EXPECT_LT(first_ms, PlannedMs());
    Rounds(2);
    Decide(2, {{3, 4}, {4, 5}});
    Rounds(2);
    EXPECT_EQ(NowMs(), first_ms) << "not agreed yet";
    Round();
    for (const dt_pipeline_replan &rank : ranks)
        EXPECT_EQ(rank.schedule, 3u) << "a re-plan while the numbers are uneven";
    EXPECT_LT(NowMs(), first_ms);
    Remedy({6, 6}, kHome);
    for (const dt_pipeline_replan &rank : ranks)
        EXPECT_EQ(rank.schedule, 4u);
    EXPECT_LT(NowMs(), PlannedMs());
    Decide(3, {});
    Rounds(1);
    testing::internal::CaptureStderr();
    Rounds(7);
    testing::internal::GetCapturedStderr(); /* the same schedule may be as short without delays */
    Remedy({8, 4}, kHome);
    EXPECT_EQ(ranks[3].schedule, 0u) << "healthy again";
    EXPECT_EQ(NowMs(), PlannedMs());
}

/* Delays belong to ranks. An exchange takes the slow link out of the pipelines, and another one back. */
TEST_F(PipelineReplan, DelaysFollowTheRanks)
{
    Decide(1, {{3, 4}});
    Rounds(4);
    Remedy({6, 6}, {0, 4, 2, 3, 1, 5}); /* rank 4 is in the other replica */
    EXPECT_EQ(ranks[3].schedule, 0u);
    EXPECT_EQ(ranks[3].staged.forward_ns[0], 0);
    Remedy({8, 4}, {0, 1, 2, 5, 4, 3});
    EXPECT_EQ(ranks[3].schedule, 2u);
    EXPECT_EQ(ranks[3].planned.forward_ns[0], 0);
    EXPECT_EQ(ranks[3].planned.forward_ns[1], 40 * kMs);
    EXPECT_EQ(ranks[3].planned.backward_ns[1], 40 * kMs);
    EXPECT_EQ(ranks[3].staged.forward_ns[1], 40 * kMs);
}

TEST_F(PipelineReplan, OneThatBringsNothingIsALine)
{
    testing::internal::CaptureStderr();
    Decide(7, {{1, 5}}); /* of different replicas */
    Rounds(8);
    EXPECT_EQ(ranks[0].schedule, 0u);
    Decide(8, {{3, 4}});
    Rounds(4);
    EXPECT_EQ(ranks[0].schedule, 2u) << "proposal 1 was discarded";
    Remedy({8, 4}, kHome);
    Decide(9, {{3, 4}}, 40.1);
    Rounds(8);
    EXPECT_EQ(ranks[0].schedule, 3u);
    const std::string reason =
        " of the controller (replan) is not taken: the schedules in use are for these delays\n";
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "detour pipeline: decision 7" + reason + "detour pipeline: decision 9" + reason);
}

/* A rank is late each time: rank 0 proposes three times. */
TEST_F(PipelineReplan, OneThatTheRanksDoNotConfirmIsALine)
{
    testing::internal::CaptureStderr();
    Decide(7, {{3, 4}});
    for (int i = 0; i < 12; i++) {
        Round();
        ranks[2].agreement.own.digest = 0;
    }
    EXPECT_EQ(ranks[0].schedule, 0u);
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "detour pipeline: decision 7 of the controller (replan) is not taken: the ranks have not "
              "confirmed one schedule before its iteration\n");
}
} // namespace
