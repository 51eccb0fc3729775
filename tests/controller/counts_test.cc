// SPDX-License-Identifier: Apache-2.0
#include "controller/counts.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace
{
const int64_t kS = 1000000000;

dt_decision Decision(dt_decision_kind kind, int64_t time_ns, const char *host = "", int64_t hold_ns = 0)
{
    dt_decision decision = {};

    decision.kind = kind;
    decision.time_ns = time_ns;
    decision.hold_ns = hold_ns;
    strcpy(decision.host, host);
    return decision;
}

TEST(Counts, AFindingCountsWhenItIsNew)
{
    dt_counts counts = {};
    dt_finding findings[3] = {};

    findings[0].kind = DT_FINDING_LINK;
    findings[1].kind = DT_FINDING_DEVICE;
    findings[1].state = DT_FINDING_GOES_ON;
    findings[2].kind = DT_FINDING_LINK;
    findings[2].state = DT_FINDING_ENDED;
    dt_counts_findings(&counts, findings, 3);
    EXPECT_EQ(counts.found[DT_FINDING_LINK], 1u);
    EXPECT_EQ(counts.found[DT_FINDING_DEVICE], 0u);
}

TEST(Counts, ARemedyCountsUnderItsStepAndAnEarlierControllersDecisionDoesNot)
{
    dt_counts counts = {};
    dt_decision remedy = Decision(DT_DECISION_REMEDY, 7), replan = Decision(DT_DECISION_REPLAN, 8);

    remedy.step = DETOUR_STEP_S3;
    dt_counts_decision(&counts, &remedy);
    EXPECT_EQ(counts.remedied[DETOUR_STEP_S3], 1u);
    EXPECT_EQ(counts.decided[DT_DECISION_REMEDY], 0u);
    EXPECT_EQ(counts.decided_ns, 7);
    dt_counts_adopt(&counts, &replan);
    EXPECT_EQ(counts.decided[DT_DECISION_REPLAN], 0u);
    EXPECT_EQ(counts.decided_ns, 8);
    dt_counts_decision(&counts, &replan);
    EXPECT_EQ(counts.decided[DT_DECISION_REPLAN], 1u);
}

TEST(Counts, ALossIsALineOfTheFirstRoundsAndThenOfPowersOfTwo)
{
    dt_counts counts = {};
    int lines = 0;

    counts.observations = DT_STORE_STREAM_RECORDS - 1;
    EXPECT_FALSE(dt_counts_loss(&counts, 0));
    for (int i = 0; i < 64; i++) {
        counts.observations = DT_STORE_STREAM_RECORDS;
        lines += dt_counts_loss(&counts, 0);
    }
    EXPECT_EQ(lines, 4 + 4) << "8, 16, 32 and 64";
    EXPECT_EQ(counts.overruns, 64u);
    EXPECT_NE(std::string(counts.loss).find("detour agent --period"), std::string::npos) << counts.loss;
    EXPECT_TRUE(dt_counts_loss(&counts, 7));
    EXPECT_NE(std::string(counts.loss).find("the tables of the judge are full (7 so far)"), std::string::npos)
        << counts.loss;
    EXPECT_FALSE(dt_counts_loss(&counts, 7)) << "no more than before";
    EXPECT_TRUE(dt_counts_loss(&counts, 8));
    EXPECT_EQ(counts.no_room, 8u);
}

TEST(Counts, AHoldIsInForceUntilItsEndOrItsRelease)
{
    dt_counts counts = {};
    dt_decision hold = Decision(DT_DECISION_HOLD, 10 * kS, "a", 5 * kS);
    dt_decision others = Decision(DT_DECISION_RELEASE, 11 * kS, "b");
    dt_decision all = Decision(DT_DECISION_RELEASE, 12 * kS);

    EXPECT_FALSE(dt_counts_is_held(&counts, 1));
    dt_counts_decision(&counts, &hold);
    dt_counts_decision(&counts, &others);
    EXPECT_TRUE(dt_counts_is_held(&counts, 15 * kS - 1));
    EXPECT_FALSE(dt_counts_is_held(&counts, 15 * kS));
    dt_counts_decision(&counts, &all);
    EXPECT_FALSE(dt_counts_is_held(&counts, 12 * kS));
    hold = Decision(DT_DECISION_HOLD, INT64_MAX, "", kS); /* of a record with an impossible time */
    dt_counts_adopt(&counts, &hold);
    EXPECT_TRUE(dt_counts_is_held(&counts, 15 * kS));
}
} // namespace
