// SPDX-License-Identifier: Apache-2.0
#include "cli/control_metrics.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace
{
class ControlMetrics : public ::testing::Test
{
  protected:
    void Find(dt_finding_kind kind, uint32_t rank, double factor)
    {
        dt_finding *finding = &state.findings[state.finding_count++];

        finding->kind = kind;
        finding->rank = rank;
        finding->peer_rank = DT_JUDGE_UNKNOWN;
        strcpy(finding->host, "c");
        finding->factor = factor;
    }
    std::string Text()
    {
        char *text = nullptr;
        size_t bytes = 0;
        FILE *out = open_memstream(&text, &bytes);

        dt_control_metrics_write(out, &state, "job 7");
        fclose(out);
        std::string copy(text, bytes);
        free(text);
        return copy;
    }
    bool Has(const std::string &line)
    {
        return ("\n" + Text()).find("\n" + line + "\n") != std::string::npos;
    }

    dt_control_state state = {};
};

TEST_F(ControlMetrics, AnOpenFindingIsASeriesWithItsFactor)
{
    Find(DT_FINDING_LINK, 2, 3.25);
    dt_finding *link = &state.findings[0];
    link->peer_rank = 3;
    strcpy(link->peer_host, "d\"\xff\n");
    strcpy(link->nic, "soft0");
    strcpy(link->peer_nic, "soft1");
    Find(DT_FINDING_DEVICE, DT_JUDGE_UNKNOWN, 1.5);
    state.counts.found[DT_FINDING_LINK] = 4;
    EXPECT_TRUE(
        Has("detour_job_finding{job=\"job 7\",kind=\"link\",host=\"c\",nic=\"soft0\",peer_host=\"d\\\"??"
            "\",peer_nic=\"soft1\",rank=\"2\",peer_rank=\"3\"} 3.25"))
        << Text();
    EXPECT_TRUE(Has(
        "detour_job_finding{job=\"job 7\",kind=\"device\",host=\"c\",nic=\"\",peer_host=\"\",peer_nic=\"\","
        "rank=\"\",peer_rank=\"\"} 1.5"))
        << Text();
    EXPECT_TRUE(Has("detour_job_open_findings{job=\"job 7\",kind=\"link\"} 1")) << Text();
    EXPECT_TRUE(Has("detour_job_open_findings{job=\"job 7\",kind=\"NIC\"} 0")) << Text();
    EXPECT_TRUE(Has("detour_job_findings_total{job=\"job 7\",kind=\"link\"} 4")) << Text();
    state.finding_count = 0;
    EXPECT_EQ(Text().find("detour_job_finding{"), std::string::npos) << "it ends with the finding";
    EXPECT_TRUE(Has("detour_job_open_findings{job=\"job 7\",kind=\"link\"} 0")) << Text();
}

TEST_F(ControlMetrics, LossesAreCounters)
{
    EXPECT_TRUE(Has("detour_job_overruns_total{job=\"job 7\"} 0")) << Text();
    state.counts.overruns = 3;
    state.counts.no_room = 40;
    EXPECT_TRUE(Has("detour_job_overruns_total{job=\"job 7\"} 3")) << Text();
    EXPECT_TRUE(Has("detour_job_dropped_reports_total{job=\"job 7\"} 40")) << Text();
}

TEST_F(ControlMetrics, DecisionsCountByKindAndRemediesByStep)
{
    state.counts.decided[DT_DECISION_REPLAN] = 2;
    state.counts.remedied[DETOUR_STEP_S2] = 1;
    EXPECT_TRUE(Has("detour_job_decisions_total{job=\"job 7\",kind=\"replan\"} 2")) << Text();
    EXPECT_TRUE(Has("detour_job_decisions_total{job=\"job 7\",kind=\"S2\"} 1")) << Text();
    EXPECT_TRUE(Has("detour_job_decisions_total{job=\"job 7\",kind=\"hold\"} 0")) << Text();
    EXPECT_EQ(Text().find("kind=\"remedy\""), std::string::npos);
}

TEST_F(ControlMetrics, WhatIsInForceIsThatOfTheControllerWithTheLease)
{
    state.counts.decided_ns = 1700000000500000000;
    state.measures = {3, 0, 1};
    state.is_held = true;
    state.step = DETOUR_STEP_S3;
    EXPECT_TRUE(Has("detour_job_has_lease{job=\"job 7\"} 0")) << Text();
    EXPECT_EQ(Text().find("detour_job_in_force"), std::string::npos);
    EXPECT_EQ(Text().find("detour_job_last_decision_time_seconds"), std::string::npos);
    state.is_leader = true;
    EXPECT_TRUE(Has("detour_job_has_lease{job=\"job 7\"} 1")) << Text();
    EXPECT_TRUE(Has("detour_job_in_force{job=\"job 7\",kind=\"replan\"} 3")) << Text();
    EXPECT_TRUE(Has("detour_job_in_force{job=\"job 7\",kind=\"migrate\"} 1")) << Text();
    EXPECT_TRUE(Has("detour_job_in_force{job=\"job 7\",kind=\"hold\"} 1")) << Text();
    EXPECT_TRUE(Has("detour_job_in_force{job=\"job 7\",kind=\"S2\"} 0")) << Text();
    EXPECT_TRUE(Has("detour_job_in_force{job=\"job 7\",kind=\"S3\"} 1")) << Text();
    EXPECT_TRUE(Has("detour_job_last_decision_time_seconds{job=\"job 7\"} 1700000000.500")) << Text();
    state.counts.decided_ns = 0;
    EXPECT_EQ(Text().find("detour_job_last_decision_time_seconds"), std::string::npos);
}

TEST_F(ControlMetrics, AnUnknownIterationTimeIsNoSample)
{
    EXPECT_EQ(Text().find("detour_job_iteration_seconds"), std::string::npos);
    state.iteration_ns = 138000000;
    state.hosts = 4;
    EXPECT_TRUE(Has("detour_job_iteration_seconds{job=\"job 7\"} 0.138000000")) << Text();
    EXPECT_TRUE(Has("detour_job_hosts{job=\"job 7\"} 4")) << Text();
}
} // namespace
