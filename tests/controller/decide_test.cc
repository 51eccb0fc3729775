// SPDX-License-Identifier: Apache-2.0
#include "controller/decide.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/clock.h"

namespace
{
const uint64_t kMs = DT_NS_PER_MS;

class Decide : public ::testing::Test
{
  protected:
    Decide()
    {
        options = dt_decide_defaults();
        options.hostpath = true;
        Restart();
    }
    ~Decide() override
    {
        dt_decide_destroy(decide);
    }
    void Restart()
    {
        dt_decide_destroy(decide);
        decide = dt_decide_create(&options);
    }
    /* One finding, about the link from rank 2 to rank 3 or the RNIC n0 of host c. */
    void Find(dt_finding_kind kind, uint64_t delay_ms)
    {
        dt_finding finding = {};

        finding.number = 1;
        finding.kind = kind;
        finding.delay_ns = delay_ms * kMs;
        finding.state = DT_FINDING_GOES_ON;
        finding.rank = 2;
        finding.peer_rank = kind == DT_FINDING_LINK ? 3 : DT_JUDGE_UNKNOWN;
        strcpy(finding.host, "c");
        strcpy(finding.nic, "n0");
        strcpy(finding.reason, "it is slow");
        findings = {finding};
        slow = {{2, 3, 2.0, delay_ms * kMs, 1}};
    }
    void Link(int32_t from, int32_t to, uint64_t connection, const char *nic, uint64_t service_ns)
    {
        dt_known_link link = {from, to, connection, "c", "", service_ns, 1000};

        strcpy(link.nic, nic);
        links.push_back(link);
    }
    /* Decides every 100 ms until `until_ms`; the decisions as "MS KIND". */
    std::vector<std::string> Until(uint64_t until_ms)
    {
        std::vector<std::string> made;

        for (; now_ms <= until_ms; now_ms += 100) {
            const dt_situation situation = {findings.data(), findings.size(), slow.data(), slow.size(),
                                            links.data(),    links.size(),    job_starts};
            dt_decision decisions[4];
            size_t count = dt_decide(decide, &situation, now_ms * kMs, decisions, 4);

            for (size_t i = 0; i < count; i++) {
                made.push_back(std::to_string(now_ms) + " " +
                               dt_decision_kind_text((dt_decision_kind)decisions[i].kind));
                last = decisions[i];
            }
        }
        return made;
    }

    dt_decide_options options;
    dt_decider *decide = nullptr;
    std::vector<dt_finding> findings;
    std::vector<dt_slow_link> slow;
    std::vector<dt_known_link> links;
    uint64_t now_ms = 0;
    uint32_t job_starts = 0;
    dt_decision last = {};
};

using Made = std::vector<std::string>;

TEST_F(Decide, NothingIsDecidedWithoutAFinding)
{
    Link(2, 3, 7, "n0", 1000);
    EXPECT_EQ(Until(60000), Made());
}

TEST_F(Decide, ASlowLinkIsPlannedForOnceItIsConfirmed)
{
    Find(DT_FINDING_LINK, 20);
    EXPECT_EQ(Until(60000), Made{"300 replan"});
    ASSERT_EQ(last.link_count, 1u);
    EXPECT_EQ(last.links[0].from_rank, 2);
    EXPECT_EQ(last.links[0].to_rank, 3);
    EXPECT_EQ(last.links[0].delay_ns, 20 * (int64_t)kMs);
    EXPECT_STREQ(last.reason, "it is slow");
}

TEST_F(Decide, ABurstChangesNothing)
{
    for (int i = 0; i < 20; i++) {
        Find(DT_FINDING_LINK, 20);
        EXPECT_EQ(Until(now_ms + 100), Made());
        findings.clear();
        slow.clear();
        EXPECT_EQ(Until(now_ms + 100), Made());
    }
}

TEST_F(Decide, ALinkThatIsHealthyAgainGetsThePlannedScheduleBack)
{
    Find(DT_FINDING_LINK, 20);
    Until(5000);
    findings.clear();
    slow.clear();
    EXPECT_EQ(Until(20000), Made{"10100 replan"}); /* 5 s after the first round without the finding */
    EXPECT_EQ(last.link_count, 0u);
}

TEST_F(Decide, ThePlanInForceIsDecidedAgainForAJobThatStartsAgain)
{
    Find(DT_FINDING_LINK, 20);
    EXPECT_EQ(Until(5000), Made{"300 replan"});
    job_starts = 1; /* it is known now: no new job */
    EXPECT_EQ(Until(9900), Made());
    job_starts = 2;
    EXPECT_EQ(Until(20000), Made{"10000 replan"});
    EXPECT_EQ(last.link_count, 1u);
    /* The job starts while nothing measures the link. */
    slow.clear();
    job_starts = 3;
    EXPECT_EQ(Until(22000), Made{"20100 replan"});
    EXPECT_EQ(last.link_count, 1u);
    Find(DT_FINDING_LINK, 20);
    EXPECT_EQ(Until(29900), Made());
    findings.clear();
    slow.clear();
    EXPECT_EQ(Until(39900), Made{"35000 replan"});
    job_starts = 4; /* no plan is in force */
    EXPECT_EQ(Until(60000), Made());
}

TEST_F(Decide, ANewControllerDoesNotRepeatThePlanOfARunningJob)
{
    dt_decision earlier = {};

    earlier.kind = DT_DECISION_REPLAN;
    earlier.link_count = 1;
    earlier.links[0] = {2, 3, 20 * (int64_t)kMs};
    job_starts = 1;
    dt_decide_adopt(decide, &earlier, false, 0);
    Find(DT_FINDING_LINK, 20);
    EXPECT_EQ(Until(60000), Made());
}

TEST_F(Decide, ANewControllerRepeatsThePlanForAJobThatHasStartedAgain)
{
    dt_decision earlier = {};

    earlier.kind = DT_DECISION_REPLAN;
    earlier.link_count = 1;
    earlier.links[0] = {2, 3, 20 * (int64_t)kMs};
    dt_decide_adopt(decide, &earlier, true, 0);
    dt_decide_adopt_job(decide, 1);
    EXPECT_TRUE(dt_decide_is_for_job(decide, 1));
    job_starts = 2;
    EXPECT_FALSE(dt_decide_is_for_job(decide, 2));
    EXPECT_EQ(Until(1000), Made{"0 replan"});
    EXPECT_EQ(last.link_count, 1u);
    EXPECT_TRUE(dt_decide_is_for_job(decide, 2));
    EXPECT_EQ(Until(10000), Made{"5000 replan"}); /* nothing has found the link slow since */
    EXPECT_EQ(last.link_count, 0u);
}

TEST_F(Decide, OnlyADifferentDelayIsANewPlanAndNotTooOften)
{
    Find(DT_FINDING_LINK, 20);
    Until(5000);
    Find(DT_FINDING_LINK, 23); /* less than a fifth */
    EXPECT_EQ(Until(10000), Made());
    Find(DT_FINDING_LINK, 40);
    EXPECT_EQ(Until(10500), Made{"10400 replan"});
    Find(DT_FINDING_LINK, 80);
    EXPECT_EQ(Until(20000), Made{"13400 replan"}); /* replan_gap_ns after the last */
}

TEST_F(Decide, NothingIsDoneAboutABusyProcessorOrASlowDevice)
{
    Link(2, 3, 7, "n0", 1000);
    for (dt_finding_kind kind : {DT_FINDING_PROCESSOR, DT_FINDING_DEVICE}) {
        Find(kind, 20);
        EXPECT_EQ(Until(now_ms + 30000), Made());
    }
}

TEST_F(Decide, ADelayBelowTheLeastChangesNoSchedule)
{
    Find(DT_FINDING_LINK, 0);
    EXPECT_EQ(Until(30000), Made());
}

TEST_F(Decide, TheHostPathOfBothDirectionsIsSwitchedOnAndBack)
{
    options.replan = false;
    Restart();
    Link(2, 3, 7, "n0", 1000);
    Link(3, 2, 8, "n0", 1000);
    Link(2, 1, 9, "n0", 1000);
    Find(DT_FINDING_LINK, 20);
    EXPECT_EQ(Until(5000), (Made{"300 hostpath-on", "300 hostpath-on"}));
    EXPECT_EQ(last.connection, 8u);
    EXPECT_STREQ(last.host, "c");
    findings.clear();
    EXPECT_EQ(Until(9000), Made());
    Find(DT_FINDING_LINK, 20); /* back before clear_ns */
    EXPECT_EQ(Until(20000), Made());
    findings.clear();
    EXPECT_EQ(Until(40000), (Made{"25100 hostpath-off", "25100 hostpath-off"}));
}

TEST_F(Decide, AnRnicIsDrainedOnlyIfAnotherIsMeasuredAndFaster)
{
    options.replan = options.hostpath = false;
    Restart();
    Find(DT_FINDING_NIC, 20);
    Link(2, 3, 7, "n0", 100000);
    EXPECT_EQ(Until(5000), Made()); /* no other RNIC */
    Link(4, 5, 8, "n1", 95000);
    EXPECT_EQ(Until(10000), Made()); /* not faster */
    links[1].service_ns = 20000;
    links[1].message_bytes = 100000;
    EXPECT_EQ(Until(15000), Made()); /* other messages: no comparison */
    links[1].message_bytes = 1000;
    EXPECT_EQ(Until(20000), Made{"15400 migrate"});
    EXPECT_STREQ(last.nic, "n0");
    EXPECT_STREQ(last.host, "c");
    EXPECT_NE(strstr(last.reason, "5.0 times less"), nullptr) << last.reason;
}

TEST_F(Decide, ADrainIsTriedAgainEachTimeAfterTwiceTheTime)
{
    options.replan = options.hostpath = false;
    options.drained_ns = 10000 * kMs;
    Restart();
    Link(2, 3, 7, "n0", 100000);
    Link(4, 5, 8, "n1", 20000);
    Find(DT_FINDING_NIC, 20);
    EXPECT_EQ(Until(1000), Made{"300 migrate"});
    findings.clear(); /* without traffic it is not slow */
    EXPECT_EQ(Until(12000), Made{"11100 back"});
    Find(DT_FINDING_NIC, 20);
    EXPECT_EQ(Until(13000), Made{"12400 migrate"});
    findings.clear();
    EXPECT_EQ(Until(60000), Made{"33100 back"});
}

/* Two connections of the same ranks, over an RNIC each, and those of another rank. */
class DecideMove : public Decide
{
  protected:
    DecideMove()
    {
        options.replan = options.hostpath = false;
        options.drained_ns = 10000 * kMs;
        Restart();
        Link(2, 3, 7, "n0", 100000);
        Link(2, 3, 8, "n1", 20000);
        Link(2, 5, 9, "n0", 20000);
        Link(2, 6, 10, "n1", 20000);
    }
};

TEST_F(DecideMove, OnlyTheSlowConnectionOfALinkMoves)
{
    Find(DT_FINDING_LINK, 20);
    EXPECT_EQ(Until(9000), Made{"300 migrate"});
    EXPECT_EQ(last.connection, 7u);
    EXPECT_STREQ(last.nic, "n0");
    EXPECT_STREQ(last.host, "c");
    EXPECT_EQ(last.from_rank, 2);
    EXPECT_EQ(last.to_rank, 3);
    EXPECT_NE(strstr(last.reason, "5.0 times less"), nullptr) << last.reason;
    EXPECT_EQ(dt_decide_in_force(decide).migrations, 1u);
}

TEST_F(DecideMove, NothingMovesToAnRnicThatIsNotFaster)
{
    Find(DT_FINDING_LINK, 20);
    links[1].service_ns = links[3].service_ns = 95000;
    EXPECT_EQ(Until(9000), Made());
}

TEST_F(DecideMove, ItMovesBackAfterTheTimeAndStaysWhereTheLinkIsHealthy)
{
    Find(DT_FINDING_LINK, 20);
    EXPECT_EQ(Until(1000), Made{"300 migrate"});
    strcpy(links[0].nic, "n1");
    links[0].service_ns = 20000;
    findings.clear();
    EXPECT_EQ(Until(12000), Made{"11100 back"});
    EXPECT_EQ(last.connection, 7u);
    EXPECT_STREQ(last.nic, "n0");
    strcpy(links[0].nic, "n0");
    EXPECT_EQ(Until(60000), Made());
    EXPECT_EQ(dt_decide_in_force(decide).migrations, 0u);
}

/* Over the other RNIC it may be another link to the judge, without a healthy time. */
TEST_F(DecideMove, AConnectionThatIsNotFasterThereReturnsAndStays)
{
    Find(DT_FINDING_LINK, 20);
    EXPECT_EQ(Until(1000), Made{"300 migrate"});
    strcpy(links[0].nic, "n1");
    links[0].service_ns = 95000;
    EXPECT_EQ(Until(6000), Made{"5300 back"});
    EXPECT_NE(strstr(last.reason, "not faster"), nullptr) << last.reason;
    EXPECT_EQ(dt_decide_in_force(decide).migrations, 0u);
    strcpy(links[0].nic, "n0");
    EXPECT_EQ(Until(15200), Made()) << "as long as after a drain";
    EXPECT_EQ(Until(16000), Made{"15600 migrate"});
}

TEST_F(DecideMove, AConnectionThatHasMovedDoesNotMoveOn)
{
    Find(DT_FINDING_LINK, 20);
    EXPECT_EQ(Until(1000), Made{"300 migrate"});
    strcpy(links[0].nic, "n1");
    strcpy(findings[0].nic, "n1");
    links[0].service_ns = 80000;
    links[2].service_ns = 20000;
    EXPECT_EQ(Until(9000), Made());
}

TEST_F(DecideMove, ANewControllerGoesOnFromIt)
{
    Find(DT_FINDING_LINK, 20);
    EXPECT_EQ(Until(1000), Made{"300 migrate"});
    Restart();
    dt_decide_adopt(decide, &last, false, now_ms * kMs);
    findings.clear();
    EXPECT_EQ(Until(12000), Made{"11100 back"});
    EXPECT_EQ(last.connection, 7u);
}

TEST_F(Decide, ANewControllerDoesNotDecideTheSameAgain)
{
    Link(2, 3, 7, "n0", 1000);
    Find(DT_FINDING_LINK, 20);
    dt_decision made[2];
    const dt_situation situation = {findings.data(), 1, slow.data(), 1, links.data(), 1, 0};

    dt_decide(decide, &situation, 0, made, 2);
    ASSERT_EQ(dt_decide(decide, &situation, 300 * kMs, made, 2), 2u);
    Restart();
    for (const dt_decision &decision : made)
        dt_decide_adopt(decide, &decision, false, 400 * kMs);
    now_ms = 400;
    EXPECT_EQ(Until(10000), Made());
    findings.clear();
    slow.clear();
    EXPECT_EQ(Until(30000), (Made{"15100 replan", "15100 hostpath-off"}));
}

/* A controller that has begun during the incident. */
class DecideAdopted : public Decide
{
  protected:
    DecideAdopted()
    {
        Link(2, 3, 7, "n0", 21 * kMs);
        Find(DT_FINDING_LINK, 20);
        Until(300);
        dt_decision made[2] = {last, last};
        made[0].kind = DT_DECISION_REPLAN;
        made[0].link_count = 1;
        made[0].links[0] = {2, 3, 20 * (int64_t)kMs};
        made[1].kind = DT_DECISION_HOSTPATH_ON;
        Restart();
        findings.clear();
        slow.clear();
        for (const dt_decision &decision : made)
            dt_decide_adopt(decide, &decision, false, 400 * kMs);
        now_ms = 400;
    }
};

TEST_F(DecideAdopted, APartThatIsNotFoundSlowKeepsItsMeasuresForTheRecheckTime)
{
    EXPECT_EQ(Until(600000), Made());
    EXPECT_EQ(Until(620000), (Made{"605400 replan", "605400 hostpath-off"}));
    EXPECT_STREQ(last.reason, "over: it is slow");
}

TEST_F(DecideAdopted, APartThatIsFoundSlowAndThenHealthyLosesItsMeasures)
{
    Find(DT_FINDING_LINK, 20);
    EXPECT_EQ(Until(10000), Made());
    findings.clear();
    slow.clear();
    EXPECT_EQ(Until(30000), (Made{"15100 replan", "15100 hostpath-off"}));
    EXPECT_STREQ(last.reason, "over: it is slow");
}

TEST_F(DecideAdopted, ALinkWhoseMessagesTakeLessThanHalfOfTheDelayIsNotSlow)
{
    EXPECT_EQ(Until(10000), Made());
    links[0].service_ns = 9 * kMs;
    Link(2, 3, 8, "n1", 21 * kMs);
    EXPECT_EQ(Until(20000), Made{"15100 hostpath-off"}) << "another connection of these ranks has the delay";
    links[1].service_ns = 1 * kMs;
    Until(22000);
    links[1].service_ns = 21 * kMs; /* it was a burst of fast messages */
    EXPECT_EQ(Until(30000), Made());
    links[1].service_ns = 1 * kMs;
    EXPECT_EQ(Until(40000), Made{"35100 replan"});
    EXPECT_EQ(last.link_count, 0u);
    EXPECT_STREQ(last.reason, "no link is slow any more");
}

TEST_F(DecideAdopted, AHostPathStaysOverABurstOfFastMessages)
{
    EXPECT_EQ(Until(10000), Made());
    links[0].service_ns = 1 * kMs;
    EXPECT_EQ(Until(14000), Made());
    links[0].service_ns = 21 * kMs;
    EXPECT_EQ(Until(60000), Made());
}

TEST_F(DecideAdopted, APartOfTheDelayIsNoReasonForANewPlan)
{
    Find(DT_FINDING_LINK, 8);
    EXPECT_EQ(Until(10000), Made());
    findings.clear();
    slow.clear();
    EXPECT_EQ(Until(30000), Made{"15100 hostpath-off"});
}

TEST_F(DecideAdopted, AnotherSlowLinkIsPlannedForTogetherWithIt)
{
    Find(DT_FINDING_LINK, 30);
    slow[0].from_rank = 3;
    slow[0].to_rank = 2;
    EXPECT_EQ(Until(10000)[0], "3400 replan");
    EXPECT_EQ(last.link_count, 2u);
    findings.clear();
    slow.clear();
    EXPECT_EQ(Until(30000)[0], "15100 replan");
    EXPECT_EQ(dt_decide_in_force(decide).links, 1u);
}

TEST_F(Decide, MeasuresWithoutRoomInOneCallFollowInTheNext)
{
    options.replan = false;
    Restart();
    Find(DT_FINDING_NIC, 20);
    for (uint64_t i = 0; i < 10; i++)
        Link(2, 10 + (int32_t)i, 100 + i, "n0", 1000);
    EXPECT_EQ(Until(300).size(), 4u);
    EXPECT_EQ(Until(500).size(), 6u);
}

TEST_F(Decide, WhatIsInForceFollowsTheDecisions)
{
    dt_decision migrate = {};

    Link(2, 3, 7, "n0", 1000);
    Find(DT_FINDING_LINK, 20);
    EXPECT_EQ(dt_decide_in_force(decide).links, 0u);
    Until(0);
    EXPECT_EQ(dt_decide_in_force(decide).connections, 0u) << "not confirmed";
    Until(1000);
    EXPECT_EQ(dt_decide_in_force(decide).links, 1u);
    EXPECT_EQ(dt_decide_in_force(decide).connections, 1u);
    EXPECT_EQ(dt_decide_in_force(decide).migrations, 0u);
    findings.clear();
    slow.clear();
    Until(2000);
    EXPECT_EQ(dt_decide_in_force(decide).connections, 1u) << "until it is undone";
    Until(20000);
    EXPECT_EQ(dt_decide_in_force(decide).links, 0u);
    EXPECT_EQ(dt_decide_in_force(decide).connections, 0u);
    migrate.kind = DT_DECISION_MIGRATE;
    dt_decide_adopt(decide, &migrate, false, now_ms * kMs);
    EXPECT_EQ(dt_decide_in_force(decide).migrations, 1u);
}
} // namespace
