// SPDX-License-Identifier: Apache-2.0
// What causes a slow link: through the judge, since a cause is a comparison with all other links.
#include "controller/judge_cause.h"

#include <gtest/gtest.h>

#include "detour/stat.h"
#include "tests/controller/small_job.h"

namespace
{
bool IsAt(uint32_t from, uint32_t to, uint32_t rank)
{
    return from == rank || to == rank;
}

dt_finding First(SmallJob &job, int limit = 10)
{
    auto found = job.StepsToFinding(limit);

    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? dt_finding{} : found[0];
}

TEST(JudgeCause, AllLinksOfANicAreItsNic)
{
    SmallJob job;

    job.Steps(80);
    job.link = [](uint32_t from, uint32_t to) { return IsAt(from, to, 5) ? 1.3 : 1; };
    dt_finding finding = First(job);
    EXPECT_EQ(finding.kind, DT_FINDING_NIC);
    EXPECT_EQ(finding.rank, 5u);
    EXPECT_STREQ(finding.host, "h1");
    EXPECT_STREQ(finding.nic, "rnic1");
    job.Steps(20);
    ASSERT_EQ(job.findings.size(), 1u);
    EXPECT_EQ(job.findings[0].count, 6u);
}

TEST(JudgeCause, ANicMayBeSlowInOneDirection)
{
    for (bool is_out : {true, false}) {
        SmallJob job;

        job.Steps(80);
        job.link = [=](uint32_t from, uint32_t to) { return (is_out ? from : to) == 9 ? 1.5 : 1; };
        dt_finding finding = First(job);
        EXPECT_EQ(finding.kind, DT_FINDING_NIC);
        EXPECT_EQ(finding.rank, 9u);
    }
}

TEST(JudgeCause, BothDirectionsOfALinkAreOneLink)
{
    SmallJob job;

    job.Steps(80);
    job.link = [](uint32_t from, uint32_t to) { return IsAt(from, to, 1) && IsAt(from, to, 5) ? 1.6 : 1; };
    dt_finding finding = First(job);
    EXPECT_EQ(finding.kind, DT_FINDING_LINK);
    EXPECT_EQ(finding.count, 2u);
}

TEST(JudgeCause, ASlowRankIsADevice)
{
    SmallJob job;

    job.Steps(80);
    job.compute = [](uint32_t rank) { return rank == 11 ? 1.2 : 1; };
    dt_finding finding = First(job);
    EXPECT_EQ(finding.kind, DT_FINDING_DEVICE);
    EXPECT_EQ(finding.rank, 11u);
    EXPECT_STREQ(finding.host, "h2");
}

// The waits of host h2 explain its links, at either end, and its computing: no link, NIC or device is blamed.
TEST(JudgeCause, ABusyHostIsNoSlowLink)
{
    SmallJob job;

    job.Steps(80);
    job.link = [](uint32_t from, uint32_t to) { return from / 4 == 2 || to / 4 == 2 ? 2.0 : 1; };
    job.compute = [](uint32_t rank) { return rank / 4 == 2 ? 1.2 : 1; };
    job.waits = [](const std::string &host) { return host == "h2" ? 0.4 : 0.01; };
    dt_finding finding = First(job);
    EXPECT_EQ(finding.kind, DT_FINDING_PROCESSOR);
    EXPECT_STREQ(finding.host, "h2");
    for (int i = 0; i < 40; i++) {
        job.Step();
        ASSERT_EQ(job.findings.size(), 1u) << job.findings[1].reason;
    }
}

TEST(JudgeCause, AHostThatIsALittleBusyDoesNotHideASlowLink)
{
    SmallJob job;

    job.waits = [](const std::string &) { return 0.06; };
    job.Steps(80);
    job.link = [](uint32_t from, uint32_t to) { return from == 2 && to == 6 ? 2 : 1; };
    EXPECT_EQ(First(job).kind, DT_FINDING_LINK);
}

// Idle hosts, but just when a link is found to be 7 % slower, two reports of one have waits.
TEST(JudgeCause, AFewWaitsDoNotExplainASmallRise)
{
    uint64_t found_at = 0;

    for (const char *busy : {"", "h0", "h1"}) {
        SmallJob job;

        job.waits = [&](const std::string &host) {
            return host == busy && job.steps > found_at - 2 && job.steps <= found_at ? 0.08 : 0.005;
        };
        job.Steps(80);
        job.link = [](uint32_t from, uint32_t to) { return from == 2 && to == 6 ? 1.07 : 1; };
        EXPECT_EQ(First(job, 100).kind, DT_FINDING_LINK) << busy;
        found_at = *busy ? found_at : job.steps;
    }
}

// The links of rank 8 take 24 % longer, which the waits of its host explain; not the 38 % of one of them.
TEST(JudgeCause, ACommonRiseOfTheLinksOfANicMayBeTheProcessors)
{
    SmallJob job;

    job.Steps(60);
    job.waits = [](const std::string &host) { return host == "h2" ? 0.12 : 0.005; };
    job.Steps(20);
    job.link = [](uint32_t from, uint32_t to) {
        return from == 8 && to == 12 ? 1.38 : IsAt(from, to, 8) ? 1.24 : 1;
    };
    for (int i = 0; i < 20; i++) {
        job.Step();
        for (const dt_finding &finding : job.findings)
            EXPECT_EQ(finding.kind, DT_FINDING_PROCESSOR) << finding.reason;
    }
    ASSERT_EQ(job.findings.size(), 1u);
    EXPECT_EQ(job.findings[0].count, 6u);
}

// One link of NIC 2 has long been slow when another one becomes slow, in both directions: not their NIC.
TEST(JudgeCause, TwoSlowLinksOfANicAreTwoLinks)
{
    SmallJob job;

    job.Steps(80);
    job.link = [](uint32_t from, uint32_t to) { return from == 2 && to == 6 ? 2.8 : 1; };
    EXPECT_EQ(First(job).kind, DT_FINDING_LINK);
    job.Steps(10);
    job.link = [](uint32_t from, uint32_t to) {
        return from == 2 && to == 6 ? 2.8 : IsAt(from, to, 2) && IsAt(from, to, 10) ? 2.1 : 1;
    };
    for (int i = 0; i < 20; i++) {
        job.Step();
        for (const dt_finding &finding : job.findings)
            EXPECT_EQ(finding.kind, DT_FINDING_LINK) << finding.reason;
    }
    EXPECT_EQ(job.findings.size(), 2u);
}

// NIC 2 is slow, also towards rank 10, when another link of NIC 10 becomes slow: not because of NIC 10.
TEST(JudgeCause, ALinkThatTheNicAtItsOtherEndExplainsBlamesNoNicAtThisOne)
{
    SmallJob job;

    job.is_silent = [](uint32_t rank) { return rank == 14; };
    job.Steps(80);
    job.link = [](uint32_t from, uint32_t to) { return IsAt(from, to, 2) ? 4.0 : 1; };
    EXPECT_EQ(First(job).kind, DT_FINDING_NIC);
    job.Steps(10);
    job.link = [](uint32_t from, uint32_t to) {
        return IsAt(from, to, 2) ? 4.0 : from == 6 && to == 10 ? 1.3 : 1;
    };
    job.Steps(20);
    ASSERT_EQ(job.findings.size(), 2u);
    EXPECT_EQ(job.findings[0].kind, DT_FINDING_NIC);
    EXPECT_EQ(job.findings[0].rank, 2u);
    EXPECT_EQ(job.findings[1].kind, DT_FINDING_LINK);
    EXPECT_EQ(job.findings[1].rank, 6u);
}

// The waits of the host explain half of what rank 9 takes longer, but the other ranks of the host wait as
// long.
TEST(JudgeCause, ADeviceOnABusyHostStandsOutOfTheOtherRanks)
{
    SmallJob job;

    job.Steps(80);
    job.waits = [](const std::string &host) { return host == "h2" ? 0.5 : 0.01; };
    job.compute = [](uint32_t rank) { return rank / 4 == 2 ? 1.25 : 1; };
    EXPECT_EQ(First(job).kind, DT_FINDING_PROCESSOR);
    job.Steps(20);
    ASSERT_EQ(job.findings.size(), 1u);
    job.compute = [](uint32_t rank) { return rank == 9 ? 1.9 : rank / 4 == 2 ? 1.25 : 1; };
    job.Step();
    ASSERT_EQ(job.findings.size(), 1u) << "a burst of one report";
    job.Steps(20);
    ASSERT_EQ(job.findings.size(), 2u);
    EXPECT_EQ(job.findings[0].kind, DT_FINDING_PROCESSOR);
    EXPECT_EQ(job.findings[0].count, 3u);
    EXPECT_EQ(job.findings[1].kind, DT_FINDING_DEVICE);
    EXPECT_EQ(job.findings[1].rank, 9u);
    job.compute = [](uint32_t rank) { return rank / 4 == 2 ? 1.25 : 1; };
    job.Steps(20);
    ASSERT_EQ(job.findings.size(), 1u);
    EXPECT_EQ(job.findings[0].kind, DT_FINDING_PROCESSOR);
}

// The threads of rank 9 wait longer, and it computes longer than the others: the processors are the cause.
TEST(JudgeCause, ARankThatWaitsLongerThanTheOthersOfItsHostIsNoDevice)
{
    SmallJob job;

    job.Steps(80);
    job.rank_waits = [](uint32_t rank) { return rank == 9 ? 0.6 : rank / 4 == 2 ? 0.2 : 0.01; };
    job.compute = [](uint32_t rank) { return rank == 9 ? 1.9 : rank / 4 == 2 ? 1.2 : 1; };
    for (int i = 0; i < 30; i++) {
        job.Step();
        for (const dt_finding &finding : job.findings)
            EXPECT_EQ(finding.kind, DT_FINDING_PROCESSOR) << finding.reason;
    }
    EXPECT_EQ(job.findings.size(), 1u);
}

TEST(JudgeCause, TheSendersOwnVerdictOnItsProcessorCounts)
{
    SmallJob job;
    std::vector<dt_finding> found;

    job.Steps(80);
    for (int i = 0; i < 10 && found.empty(); i++) {
        // In place of the report that Step() would make.
        dt_link_report report = SmallJob::Link(0, 4, 5000000, job.now_ns + SmallJob::kStepNs);
        report.cause = DETOUR_STAT_CAUSE_OWN_PROCESSOR;
        ASSERT_TRUE(dt_judge_add_link(job.judge.get(), &report));
        job.is_silent = [](uint32_t rank) { return rank == 0; };
        job.Step();
        found = job.findings;
    }
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].kind, DT_FINDING_PROCESSOR);
    EXPECT_STREQ(found[0].host, "h0");
}

// Half of the time, h0's threads wait, and the sender of 0 to 4 blames them; but what 0 sends to 8 is
// healthy.
TEST(JudgeCause, OtherLinksOfTheRankRefuteItsProcessor)
{
    SmallJob job;

    job.waits = [](const std::string &host) { return host == "h0" || host == "h1" ? 0.6 : 0.01; };
    job.cause = [](uint32_t from, uint32_t to) {
        return from == 0 && to == 4 ? DETOUR_STAT_CAUSE_OWN_PROCESSOR : DETOUR_STAT_CAUSE_NONE;
    };
    job.Steps(80);
    job.link = [](uint32_t from, uint32_t to) { return from == 0 && to == 4 ? 20.0 : 1; };
    dt_finding finding = First(job);
    EXPECT_EQ(finding.kind, DT_FINDING_LINK);
    EXPECT_EQ(finding.rank, 0u);
    EXPECT_EQ(finding.peer_rank, 4u);
}

// As a pipeline of few ranks: what 4 sends back to 0 is slow as well, and only two other links of 4 are
// healthy.
TEST(JudgeCause, TheOtherDirectionOfALinkDoesNotBlameTheProcessor)
{
    SmallJob job;

    job.waits = [](const std::string &) { return 0.6; };
    job.is_silent = [](uint32_t rank) { return rank != 0 && rank != 4; };
    job.Steps(80);
    job.link = [](uint32_t from, uint32_t to) { return IsAt(from, to, 0) && IsAt(from, to, 4) ? 20.0 : 1; };
    dt_finding finding = First(job);
    EXPECT_EQ(finding.kind, DT_FINDING_LINK);
    EXPECT_EQ(finding.rank + finding.peer_rank, 4u);
}

// A pipeline of four ranks on one busy machine. Rank 3 has no other link, but those of rank 2 have the same
// processors.
TEST(JudgeCause, OnOneMachineLinksOfEitherEndRefuteTheProcessor)
{
    std::unique_ptr<dt_judge, void (*)(dt_judge *)> judge{dt_judge_create(8, 4), dt_judge_destroy};
    uint32_t count = 0;
    const dt_finding *list = nullptr;

    for (uint64_t i = 1; i <= 160 && count == 0; i++) {
        const uint64_t now_ns = i * SmallJob::kStepNs;
        for (uint32_t from = 0; from < 4; from++) {
            for (uint32_t to : {from - 1, from + 1}) {
                if (to >= 4)
                    continue;
                const bool is_slow = i > 80 && from + to == 5;
                dt_link_report report = SmallJob::Link(
                    from, to, uint64_t((is_slow ? 1e7 : 1e6) * (1 + 0.01 * double((i * 7 + to) % 5))),
                    now_ns);
                std::snprintf(report.host, sizeof report.host, "h0");
                std::snprintf(report.peer_host, sizeof report.peer_host, "h0");
                dt_judge_add_link(judge.get(), &report);
            }
            dt_rank_report report = SmallJob::Rank(from, 100000000, 0.9, now_ns);
            dt_judge_add_rank(judge.get(), &report);
        }
        list = dt_judge_decide(judge.get(), now_ns, &count);
    }
    ASSERT_GE(count, 1u);
    EXPECT_EQ(list[0].kind, DT_FINDING_LINK) << list[0].reason;
    EXPECT_EQ(list[0].rank + list[0].peer_rank, 5u);
}

// All that rank 0 sends is slow at first, so its processor is blamed; later only one link is.
TEST(JudgeCause, AProcessorThatIsRefutedLaterIsALink)
{
    SmallJob job;

    job.waits = [](const std::string &host) { return host == "h0" ? 0.6 : 0.01; };
    job.Steps(80);
    job.link = [](uint32_t from, uint32_t) { return from == 0 ? 3.0 : 1; };
    EXPECT_EQ(First(job).kind, DT_FINDING_PROCESSOR);
    job.Steps(20);
    job.link = [](uint32_t from, uint32_t to) { return from == 0 && to == 4 ? 3.0 : 1; };
    job.Steps(200);
    ASSERT_EQ(job.findings.size(), 1u);
    EXPECT_EQ(job.findings[0].kind, DT_FINDING_LINK);
}

TEST(JudgeCause, TwoIncidentsAreTwoFindings)
{
    SmallJob job;

    job.Steps(80);
    job.link = [](uint32_t from, uint32_t to) {
        return from == 2 && to == 6 ? 2 : IsAt(from, to, 12) ? 1.5 : 1;
    };
    job.compute = [](uint32_t rank) { return rank == 8 ? 1.5 : 1; };
    job.Steps(10);
    ASSERT_EQ(job.findings.size(), 3u);
    uint32_t kinds = 0;
    for (const dt_finding &finding : job.findings)
        kinds |= 1u << finding.kind;
    EXPECT_EQ(kinds, 1u << DT_FINDING_LINK | 1u << DT_FINDING_NIC | 1u << DT_FINDING_DEVICE);
}
} // namespace
