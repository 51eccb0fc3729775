// SPDX-License-Identifier: Apache-2.0
#include "controller/remedy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/controller/slow_job.h"

namespace
{
class Remedy : public SlowJob
{
  protected:
    Remedy() : SlowJob(60000 * kMs)
    {
        Restart();
    }
    ~Remedy() override
    {
        dt_remedy_destroy(remedy);
    }
    void Restart()
    {
        char reason[DT_RECORD_REASON_BYTES];

        dt_remedy_destroy(remedy);
        remedy = nullptr;
        ASSERT_EQ(dt_remedy_create(&cluster, 600 * DT_NS_PER_S, &remedy, reason), DT_OK) << reason;
    }
    std::string Refused()
    {
        char reason[DT_RECORD_REASON_BYTES] = "";
        dt_remedy *made = nullptr;

        EXPECT_EQ(dt_remedy_create(&cluster, 1, &made, reason), DT_INVALID);
        dt_remedy_destroy(made);
        return reason;
    }
    /* One iteration, and a round. True: *decision is made; it is done at once. */
    bool Iterate(int64_t iteration_ms, bool success = true)
    {
        const dt_situation situation = Situation();

        observation = {};
        observation.iteration_ns = iteration_ms * kMs;
        observation.compute_ns = 80 * kMs;
        observation.iterations = 1;
        dt_remedy_observe(remedy, &observation);
        now_ns += (uint64_t)(iteration_ms * kMs);
        if (!dt_remedy_decide(remedy, &situation, now_ns, &decision))
            return false;
        dt_remedy_done(remedy, now_ns, success);
        return true;
    }
    /* Iterations until a decision, at most `count`; their number, or -1. */
    int Until(int64_t iteration_ms, int count)
    {
        for (int i = 0; i < count; i++) {
            if (Iterate(iteration_ms))
                return i;
        }
        return -1;
    }
    std::vector<int32_t> Counts() const
    {
        return {decision.counts, decision.counts + decision.replica_count};
    }
    std::vector<int32_t> Nodes() const
    {
        return {decision.nodes, decision.nodes + decision.node_count};
    }

    dt_remedy *remedy = nullptr;
    dt_observation observation = {};
    dt_decision decision = {};
};

using Numbers = std::vector<int32_t>;

TEST_F(Remedy, NothingIsDecidedWhileNothingIsSlow)
{
    EXPECT_EQ(Until(90, 10000), -1);
    EXPECT_EQ(Until(200, 10000), -1); /* slow for a reason that no finding names */
}

TEST_F(Remedy, ASlowRankHasFewerMicrobatchesAndItsRecoveryBringsThemBack)
{
    ASSERT_EQ(Until(90, 100), -1);
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN, 2.0, 0);
    /* 170 ms instead of 130 ms with S2 lose 40 ms an iteration: some 50 iterations make 2 s. */
    int waited = Until(170, 1000);
    EXPECT_GT(waited, 20);
    EXPECT_LT(waited, 60);
    EXPECT_EQ(decision.kind, DT_DECISION_REMEDY);
    EXPECT_EQ(decision.step, DETOUR_STEP_S2);
    EXPECT_LT(Counts()[1], Counts()[0]);
    EXPECT_EQ(Counts()[0] + Counts()[1], 16);
    EXPECT_EQ(Nodes(), (Numbers{0, 1, 2, 3}));
    EXPECT_EQ(Until(125, 100), -1) << decision.reason; /* S3 would bring no more */
    findings.clear();
    ASSERT_GE(Until(125, 1000), 0);
    EXPECT_EQ(decision.step, DETOUR_STEP_S1);
    EXPECT_EQ(Counts(), (Numbers{8, 8}));
    EXPECT_EQ(Until(90, 1000), -1);
}

TEST_F(Remedy, ComputingIsThatOfEqualMicrobatches)
{
    ASSERT_EQ(Until(90, 100), -1);
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN, 2.0, 0);
    ASSERT_GE(Until(170, 1000), 0);
    observation.rank = 2;
    observation.iterations = 1;
    observation.compute_ns = decision.counts[1] * 20 * kMs;
    dt_remedy_observe(remedy, &observation);
    EXPECT_EQ(observation.compute_ns, 160 * kMs);
}

/* Stage 1 has three times the work of stage 0. After the exchange rank 2 has it, and rank 1 the other. */
TEST_F(Remedy, AnExchangeOfUnequalStagesIsNoSlowness)
{
    const int64_t unequal_ns[] = {5 * kMs, 15 * kMs};
    const auto observe = [&](int32_t rank, int64_t compute_ns) {
        observation.rank = rank;
        observation.iterations = 1;
        observation.compute_ns = compute_ns;
        EXPECT_EQ(dt_remedy_observe(remedy, &observation), DT_JUDGE_UNKNOWN) << "two replicas";
        return observation.compute_ns;
    };

    cluster.stage_ns = unequal_ns;
    Restart();
    EXPECT_EQ(observe(2, 40 * kMs), 40 * kMs);
    decision = {};
    decision.kind = DT_DECISION_REMEDY;
    decision.step = DETOUR_STEP_S3;
    decision.replica_count = 2;
    decision.node_count = 4;
    decision.counts[0] = decision.counts[1] = 8;
    const int32_t exchanged[] = {0, 2, 1, 3};
    std::copy(exchanged, exchanged + 4, decision.nodes);
    dt_remedy_adopt(remedy, &decision, true, now_ns);
    EXPECT_EQ(observe(2, 120 * kMs), 40 * kMs);
    EXPECT_EQ(observe(1, 40 * kMs), 120 * kMs);
    EXPECT_EQ(observe(3, 120 * kMs), 120 * kMs);
    EXPECT_EQ(observe(9, 120 * kMs), 120 * kMs) << "no rank of the job";
}

TEST_F(Remedy, WithEnoughReplicasARankIsOneOfItsPresentStage)
{
    const auto observe = [&](int32_t rank) {
        observation = {};
        observation.rank = rank;
        observation.iterations = 1;
        observation.compute_ns = 7;
        const uint32_t stage = dt_remedy_observe(remedy, &observation);
        EXPECT_EQ(observation.compute_ns, 7);
        return stage;
    };

    cluster.replica_count = DT_JUDGE_KIND_MIN;
    Restart();
    EXPECT_EQ(observe(2), 0u);
    EXPECT_EQ(observe(15), 1u);
    EXPECT_EQ(observe(16), DT_JUDGE_UNKNOWN);
    EXPECT_EQ(observe(-1), DT_JUDGE_UNKNOWN);
}

TEST_F(Remedy, ASlowLinkBetweenReplicasIsTakenOutOfUseUntilItsRecheck)
{
    ASSERT_EQ(Until(90, 100), -1);
    Find(DT_FINDING_LINK, 2, 0, 0, 500);
    ASSERT_GE(Until(2000, 1000), 0); /* the estimate is 1,090 ms; S2 helps with neither */
    EXPECT_EQ(decision.step, DETOUR_STEP_S3);
    EXPECT_NE(Nodes(), (Numbers{0, 1, 2, 3}));
    EXPECT_EQ(Counts(), (Numbers{8, 8}));
    findings.clear(); /* it has no traffic */
    EXPECT_EQ(Until(95, 100), -1);
    EXPECT_EQ(Until(95, 7000), -1); /* over for 600 s; the exchange costs nothing, so it stays */
}

/* What is slow after an exchange is treated where the ranks are now: another exchange would be one more
 * pause. */
TEST_F(Remedy, ASlowRankAfterAnExchangeHasFewerMicrobatchesWhereItIs)
{
    ASSERT_EQ(Until(90, 100), -1);
    Find(DT_FINDING_LINK, 2, 0, 0, 500);
    ASSERT_GE(Until(2000, 1000), 0);
    ASSERT_EQ(decision.step, DETOUR_STEP_S3);
    const Numbers exchanged = Nodes();
    EXPECT_NE(exchanged, (Numbers{0, 1, 2, 3}));
    findings.clear(); /* the link has no traffic, and counts as slow */
    Find(DT_FINDING_DEVICE, 3, DT_JUDGE_UNKNOWN, 2.0, 0);
    ASSERT_GE(Until(170, 100), 0);
    EXPECT_EQ(decision.step, DETOUR_STEP_S2) << decision.reason;
    EXPECT_EQ(Nodes(), exchanged);
    EXPECT_NE(Counts(), (Numbers{8, 8}));
    EXPECT_EQ(Until(125, 100), -1) << decision.reason;
    findings.clear();
    ASSERT_GE(Until(125, 7000), 0) << "the link counts as slow for 600 s";
    EXPECT_EQ(decision.step, DETOUR_STEP_S1);
    EXPECT_EQ(Nodes(), exchanged) << "as short as with the first positions, and no pause";
    EXPECT_EQ(Counts(), (Numbers{8, 8}));
    EXPECT_EQ(Until(90, 7000), -1);
}

/* With a schedule for the delays an iteration is shorter than the estimate without the step. */
TEST_F(Remedy, TheReasonTellsTheMeasuredIterationFromTheEstimates)
{
    ASSERT_EQ(Until(90, 100), -1);
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN, 2.0, 0);
    ASSERT_GE(Until(140, 1000), 0);
    ASSERT_EQ(decision.step, DETOUR_STEP_S2);
    const std::string reason = decision.reason;
    EXPECT_NE(reason.find("; the last iteration took 140.0 ms, estimated: "), std::string::npos) << reason;
    EXPECT_NE(reason.find(" ms as it is, "), std::string::npos) << reason;
    EXPECT_NE(reason.find(" ms with the step"), std::string::npos) << reason;
}

/* The state that an exchange moves counts: 60 s, and 30 s for two copies of 300 GB. */
TEST_F(Remedy, AnExchangeWaitsForTheMoveOfTheState)
{
    cluster.copy_bytes_per_s = 20000000000;
    cluster.state_bytes = 300000000000;
    ASSERT_EQ(Until(90, 100), -1);
    Find(DT_FINDING_LINK, 2, 0, 0, 500);
    ASSERT_GE(Until(2000, 1000), 40) << "1.9 s in each iteration";
    EXPECT_EQ(decision.step, DETOUR_STEP_S3);
    EXPECT_NE(std::string(decision.reason).find("as much as the step (90.0 s)"), std::string::npos)
        << decision.reason;
}

/* After its recovery an exchange is kept. A link of the new neighbors that is slow is a new incident, and
 * ranks are exchanged again once waiting has cost as much. */
TEST_F(Remedy, ASlowLinkOfTheNewNeighborsIsForAnotherExchange)
{
    cluster.cost_ns[DETOUR_STEP_S1] = kMs;
    ASSERT_EQ(Until(90, 100), -1);
    Find(DT_FINDING_LINK, 2, 0, 0, 500);
    ASSERT_GE(Until(2000, 1000), 0);
    ASSERT_EQ(decision.step, DETOUR_STEP_S3);
    findings.clear();
    EXPECT_EQ(Until(90, 7000), -1) << "kept, and the recheck is over";
    EXPECT_EQ(dt_remedy_step(remedy), DETOUR_STEP_S3);
    Find(DT_FINDING_LINK, 1, 2, 0, 500);
    ASSERT_GE(Until(2000, 1000), 25) << "60 s, 1.9 s in each iteration";
    EXPECT_EQ(decision.step, DETOUR_STEP_S3) << decision.reason;
    const Numbers nodes = Nodes();
    EXPECT_EQ((std::find(nodes.begin(), nodes.end(), 1) - nodes.begin()) +
                  (std::find(nodes.begin(), nodes.end(), 2) - nodes.begin()),
              3)
        << "1 and 2 are no neighbors: positions 0 and 3, or 1 and 2";
    EXPECT_EQ(Until(90, 100), -1);
}

/* Only the link that has no traffic counts as slow without a finding. */
TEST_F(Remedy, ALinkThatIsUsedAfterAnExchangeIsAsItIsFound)
{
    ASSERT_EQ(Until(90, 100), -1);
    Find(DT_FINDING_LINK, 2, 0, 0, 500);
    ASSERT_GE(Until(2000, 1000), 0);
    ASSERT_EQ(decision.step, DETOUR_STEP_S3);
    findings.clear();
    EXPECT_EQ(Until(90, 100), -1);
    Find(DT_FINDING_LINK, 1, 2, 0, 500);
    findings[0].number = 7;
    EXPECT_EQ(Until(2000, 20), -1) << "60 s, 1.9 s in each iteration";
    dt_remedy_validated(remedy, 7, false, now_ns);
    EXPECT_EQ(Until(2000, 100), -1) << "refuted, and yet: " << decision.reason;
    findings[0].number = 8;
    EXPECT_EQ(Until(2000, 20), -1);
    findings.clear();
    EXPECT_EQ(Until(2000, 100), -1) << "over, and yet: " << decision.reason;
}

TEST_F(Remedy, AnExchangeThatDoesNotHelpIsTakenBack)
{
    ASSERT_EQ(Until(90, 100), -1);
    Find(DT_FINDING_LINK, 2, 0, 0, 500);
    ASSERT_GE(Until(2000, 1000), 0);
    ASSERT_EQ(decision.step, DETOUR_STEP_S3);
    EXPECT_EQ(Until(2100, 100), 5);
    EXPECT_EQ(decision.step, DETOUR_STEP_S1);
    EXPECT_EQ(Nodes(), (Numbers{0, 1, 2, 3}));
    EXPECT_EQ(Until(2000, 500), -1);
}

TEST_F(Remedy, ASecondIncidentIsPlannedForWithTheFirst)
{
    ASSERT_EQ(Until(90, 100), -1);
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN, 2.0, 0);
    ASSERT_GE(Until(170, 1000), 0);
    Find(DT_FINDING_LINK, 0, 2, 0, 500);
    ASSERT_GE(Until(2100, 1000), 0);
    EXPECT_EQ(decision.step, DETOUR_STEP_S3);
    EXPECT_EQ(Counts()[0] + Counts()[1], 16);
    EXPECT_NE(Counts(), (Numbers{8, 8})); /* for the slow rank, wherever it is */
}

TEST_F(Remedy, AFailedStepIsPaidForAgain)
{
    ASSERT_EQ(Until(90, 100), -1);
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN, 2.0, 0);
    int first = 0, second = 0;
    while (!Iterate(170, false) && first < 1000)
        first++;
    while (!Iterate(170, false) && second < 1000)
        second++;
    EXPECT_LT(first, 1000);
    EXPECT_GT(second, first / 2);
    EXPECT_LT(second, 1000);
}

TEST_F(Remedy, AnotherControllerTakesBackWhatIsInForce)
{
    ASSERT_EQ(Until(90, 100), -1);
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN, 2.0, 0);
    ASSERT_GE(Until(170, 1000), 0);
    dt_decision taken = decision;
    Restart();
    dt_remedy_adopt(remedy, &taken, true, now_ns);
    EXPECT_EQ(Until(125, 100), -1) << "it is in force";
    EXPECT_EQ(dt_remedy_step(remedy), taken.step);
    findings.clear();
    ASSERT_GE(Until(125, 1000), 0);
    EXPECT_EQ(decision.step, DETOUR_STEP_S1);
}

/* Its judge may take what is slow for healthy. */
TEST_F(Remedy, AControllerThatStartsDuringAnIncidentLeavesWhatIsInForceUntilTheRecheckTime)
{
    ASSERT_EQ(Until(90, 100), -1);
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN, 2.0, 0);
    ASSERT_GE(Until(170, 1000), 0);
    dt_decision taken = decision;
    Restart();
    findings.clear();
    dt_remedy_adopt(remedy, &taken, false, now_ns);
    EXPECT_EQ(Until(125, 4700), -1) << "588 s";
    EXPECT_EQ(dt_remedy_step(remedy), taken.step);
    ASSERT_GE(Until(125, 1000), 0);
    EXPECT_EQ(decision.step, DETOUR_STEP_S1);
    Restart();
    dt_remedy_adopt(remedy, &taken, false, now_ns);
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN, 2.0, 0);
    EXPECT_EQ(Until(125, 100), -1);
    findings.clear();
    EXPECT_GE(Until(125, 1000), 0) << "it was found slow, and is healthy";
}

/* The remedy of an earlier controller for a slow link of replica 1, whose delay is 40 ms. */
class RemedyAdopted : public Remedy
{
  protected:
    RemedyAdopted()
    {
        EXPECT_EQ(Until(90, 100), -1);
        Find(DT_FINDING_LINK, 2, 3, 5.0, 40);
        slow.push_back({2, 3, 5.0, 40 * kMs, 1});
        slow.push_back({0, 1, 5.0, 40 * kMs, 9}); /* of no finding of the job */
    }
    /* The decision, and another controller, whose judge takes the slow link for healthy. */
    void Adopt()
    {
        EXPECT_GE(Until(250, 1000), 0);
        EXPECT_EQ(decision.step, DETOUR_STEP_S2);
        taken = decision;
        Restart();
        findings.clear();
        slow.clear();
        dt_remedy_adopt(remedy, &taken, false, now_ns);
    }
    /* The messages of a connection between these ranks. */
    void Measure(int32_t from, int32_t to, int64_t service_ms)
    {
        dt_known_link link = {};

        link.from_rank = from;
        link.to_rank = to;
        link.connection = 7 + links.size();
        link.service_ns = (uint64_t)(service_ms * kMs);
        links.push_back(link);
    }

    dt_decision taken = {};
};

TEST_F(RemedyAdopted, TheDecisionNamesTheDelaysOfItsLinks)
{
    Adopt();
    ASSERT_EQ(taken.link_count, 1u);
    EXPECT_EQ(taken.links[0].from_rank, 2);
    EXPECT_EQ(taken.links[0].to_rank, 3);
    EXPECT_EQ(taken.links[0].delay_ns, 40 * kMs);
}

TEST_F(RemedyAdopted, ItIsTakenBackOnceMessagesRefuteTheDelay)
{
    Adopt();
    Measure(2, 3, 41);
    EXPECT_EQ(Until(125, 200), -1) << "25 s with the delay";
    links[0].service_ns = 19 * kMs;
    EXPECT_EQ(Until(125, 32), -1) << "4 s";
    links[0].service_ns = 41 * kMs; /* it was a burst of fast messages */
    EXPECT_EQ(Until(125, 200), -1);
    links[0].service_ns = 19 * kMs;
    EXPECT_EQ(Until(125, 38), -1);
    ASSERT_GE(Until(125, 200), 0);
    EXPECT_EQ(decision.step, DETOUR_STEP_S1);
    EXPECT_EQ(Counts(), (Numbers{8, 8}));
    EXPECT_EQ(decision.link_count, 0u);
}

TEST_F(RemedyAdopted, ItStaysWhileALinkOfItIsNotMeasured)
{
    Find(DT_FINDING_LINK, 3, 2, 5.0, 40);
    slow.push_back({3, 2, 5.0, 40 * kMs, 2});
    Adopt();
    ASSERT_EQ(taken.link_count, 2u);
    Measure(2, 3, 1);
    EXPECT_EQ(Until(125, 1000), -1);
    Measure(3, 2, 1);
    EXPECT_GE(Until(125, 1000), 0);
}

TEST_F(RemedyAdopted, NoMessageRefutesASlowDevice)
{
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN, 2.0, 0);
    Adopt();
    EXPECT_EQ(taken.link_count, 0u);
    Measure(2, 3, 1);
    EXPECT_EQ(Until(125, 1000), -1);
}

TEST_F(Remedy, ARemedyThatDoesNotHelpIsTakenBackOnce)
{
    ASSERT_EQ(Until(90, 100), -1);
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN, 2.0, 0);
    ASSERT_GE(Until(170, 1000), 0);
    ASSERT_EQ(decision.step, DETOUR_STEP_S2);
    EXPECT_EQ(dt_remedy_step(remedy), DETOUR_STEP_S2);
    EXPECT_EQ(Until(200, 100), 5);
    EXPECT_EQ(decision.step, DETOUR_STEP_S1);
    EXPECT_EQ(Counts(), (Numbers{8, 8}));
    EXPECT_EQ(std::string(decision.reason),
              "S1: S2 has not made the iterations shorter: 200.0 ms, before it 170.0 ms");
    EXPECT_EQ(Until(170, 500), -1);
    findings.clear();
    EXPECT_EQ(Until(90, 100), -1);
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN, 2.0, 0);
    EXPECT_GE(Until(170, 1000), 0) << "a new incident";
}

TEST_F(Remedy, FindingsThatNameNoRankOfTheJobAreNone)
{
    ASSERT_EQ(Until(90, 100), -1);
    Find(DT_FINDING_DEVICE, 4, DT_JUDGE_UNKNOWN, 2.0, 0);
    Find(DT_FINDING_NIC, DT_JUDGE_UNKNOWN, DT_JUDGE_UNKNOWN, 2.0, 0);
    Find(DT_FINDING_LINK, 0, 4, 2.0, 100);
    Find(DT_FINDING_LINK, 1, 1, 2.0, 100);
    Find(DT_FINDING_PROCESSOR, 2, DT_JUDGE_UNKNOWN, 2.0, 0);
    EXPECT_EQ(Until(170, 1000), -1);
}

TEST_F(Remedy, NodesAreRanks)
{
    const int32_t beyond[] = {0, 1, 2, 4};

    cluster.nodes = beyond;
    EXPECT_NE(Refused(), "");
    cluster.nodes = nullptr;
    cluster.microbatch_count = 1;
    EXPECT_NE(Refused(), "");
}
} // namespace
