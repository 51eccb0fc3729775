// SPDX-License-Identifier: Apache-2.0
#include "controller/judge.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/controller/small_job.h"

namespace
{
TEST(Judge, AHealthyJobHasNoFinding)
{
    SmallJob job;

    for (int i = 0; i < 500; i++) {
        job.Step();
        ASSERT_TRUE(job.findings.empty()) << job.findings[0].reason;
    }
    dt_judge_counts counts = dt_judge_get_counts(job.judge.get());
    EXPECT_EQ(counts.links, 48u);
    EXPECT_EQ(counts.ranks, 16u);
    EXPECT_EQ(counts.hosts, 4u);
    EXPECT_EQ(counts.invalid + counts.no_room, 0u);
}

TEST(Judge, ASlowLinkIsNamedWithBothEnds)
{
    SmallJob job;

    job.Steps(80);
    uint64_t before_ns = job.now_ns;
    job.link = [](uint32_t from, uint32_t to) { return from == 2 && to == 6 ? 1.25 : 1; };
    auto found = job.StepsToFinding(8);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].kind, DT_FINDING_LINK);
    EXPECT_EQ(found[0].state, DT_FINDING_NEW);
    EXPECT_EQ(found[0].rank, 2u);
    EXPECT_EQ(found[0].peer_rank, 6u);
    EXPECT_STREQ(found[0].host, "h0");
    EXPECT_STREQ(found[0].peer_host, "h1");
    EXPECT_STREQ(found[0].nic, "rnic2");
    EXPECT_STREQ(found[0].peer_nic, "rnic2");
    EXPECT_NEAR(found[0].factor, 1.25, 0.05);
    EXPECT_NEAR(double(found[0].delay_ns), 250000, 50000);
    EXPECT_EQ(found[0].since_ns, before_ns + SmallJob::kStepNs);
    EXPECT_EQ(found[0].count, 1u);

    dt_slow_link slow[4];
    ASSERT_EQ(dt_judge_slow_links(job.judge.get(), slow, 4), 1u);
    EXPECT_EQ(slow[0].from_rank, 2u);
    EXPECT_EQ(slow[0].to_rank, 6u);
    EXPECT_EQ(slow[0].finding, found[0].number);
    EXPECT_EQ(dt_judge_slow_links(job.judge.get(), nullptr, 0), 1u);

    job.Step();
    ASSERT_EQ(job.findings.size(), 1u);
    EXPECT_EQ(job.findings[0].state, DT_FINDING_GOES_ON);
    EXPECT_EQ(job.findings[0].number, found[0].number);
}

TEST(Judge, AFindingEndsOnceWhenTheLinkIsHealthyAgain)
{
    SmallJob job;
    int ended = 0;

    job.Steps(80);
    job.link = [](uint32_t from, uint32_t to) { return from == 2 && to == 6 ? 2 : 1; };
    job.Steps(10);
    job.link = [](uint32_t, uint32_t) { return 1; };
    for (int i = 0; i < 40; i++) {
        job.Step();
        for (const dt_finding &finding : job.findings)
            ended += finding.state == DT_FINDING_ENDED;
    }
    EXPECT_EQ(ended, 1);
    EXPECT_TRUE(job.findings.empty());
}

TEST(Judge, AJobWhoseTransfersAllTakeLongerHasNoSlowLink)
{
    SmallJob job;

    job.Steps(80);
    job.link = [](uint32_t, uint32_t) { return 1.8; };
    job.compute = [](uint32_t) { return 1.4; };
    for (int i = 0; i < 100; i++) {
        job.Step();
        ASSERT_TRUE(job.findings.empty()) << job.findings[0].reason;
    }
}

TEST(Judge, LinksThatAlwaysDifferedAreNoIncidentUnlessTheyAreOutliers)
{
    SmallJob job;

    // Spread by 40 %, as links of a large fabric are; one link takes three times as long.
    job.link = [](uint32_t from, uint32_t to) {
        return from == 3 && to == 7 ? 3.0 : 1 + 0.4 * double((from * 7 + to * 3) % 11) / 11;
    };
    auto found = job.StepsToFinding(100);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].kind, DT_FINDING_LINK);
    EXPECT_EQ(found[0].rank, 3u);
    EXPECT_EQ(found[0].peer_rank, 7u);
    job.Steps(200);
    EXPECT_EQ(job.findings.size(), 1u);
}

/* It was slow when the judge began, so its reference is a slow one. */
TEST(Judge, AnOutlierThatHasRecoveredIsNoneAfterSomeReports)
{
    SmallJob job;

    job.link = [](uint32_t from, uint32_t to) {
        return (from == 3 && to == 7 ? 3.0 : 1) * (1 + 0.2 * double((from * 7 + to * 3) % 11) / 11);
    };
    ASSERT_EQ(job.StepsToFinding(100).size(), 1u);
    job.link = [](uint32_t from, uint32_t to) { return 1 + 0.2 * double((from * 7 + to * 3) % 11) / 11; };
    job.Steps(12);
    EXPECT_TRUE(job.findings.empty()) << job.findings[0].reason;
    for (int i = 0; i < 200; i++) {
        job.Step();
        ASSERT_TRUE(job.findings.empty()) << job.findings[0].reason;
    }
}

/* Agents report the time of an iteration once, with the first report after it. */
TEST(Judge, ARiseThatIsShorterThanAnIterationIsABurst)
{
    SmallJob job;
    const int each = 16; /* reports in an iteration */
    int burst = 0;       /* reports of it */

    job.link = [&](uint32_t from, uint32_t to) { return burst > 0 && (from == 2 || to == 2) ? 2 : 1; };
    for (int i = 1; i <= 20 * each; i++) {
        job.iteration_ns = i % each ? 0 : each * SmallJob::kStepNs;
        burst = i == 15 * each + 1 ? 6 : burst - 1;
        job.Step();
        EXPECT_TRUE(job.findings.empty()) << "report " << i << ": " << job.findings[0].reason;
    }
    burst = 1000; /* it stays */
    job.iteration_ns = 0;
    EXPECT_EQ(job.StepsToFinding(2 * each).size(), 1u);
}

/* Of an earlier job with more ranks. */
TEST(Judge, IterationsOfRanksThatAreGoneDoNotCount)
{
    SmallJob job;
    int steps = 0;

    job.iteration_ns = 20000000000;
    job.Steps(60);
    job.is_silent = [](uint32_t rank) { return rank >= 7; };
    job.iteration_ns = 500000000;
    job.Steps((int)(DT_JUDGE_STALE_NS / SmallJob::kStepNs) + 1);
    job.link = [&](uint32_t from, uint32_t to) { return from == 2 || to == 2 ? 2 : 1; };
    for (; steps < 40 && job.findings.empty(); steps++)
        job.Step();
    EXPECT_LT(steps, 8) << "2 s";
}

TEST(Judge, SilentLinksEndTheirFinding)
{
    SmallJob job;

    job.Steps(80);
    job.link = [](uint32_t from, uint32_t to) { return from == 2 && to == 6 ? 2 : 1; };
    job.Steps(10);
    ASSERT_EQ(job.findings.size(), 1u);
    job.is_silent = [](uint32_t rank) { return rank < 4; };
    job.Steps(int(DT_JUDGE_STALE_NS / SmallJob::kStepNs) + 2);
    EXPECT_TRUE(job.findings.empty() || job.findings[0].state == DT_FINDING_ENDED);
}

/* Half of the kind has no traffic any more, and half of that was slow: not a change of the kind. */
TEST(Judge, ALinkIsFoundThoughRanksHaveLeftASlowOne)
{
    std::unique_ptr<dt_judge, void (*)(dt_judge *)> judge{dt_judge_create(8, 4), dt_judge_destroy};
    const uint32_t before[4][2] = {{0, 4}, {4, 0}, {8, 12}, {12, 8}};
    const uint32_t after[4][2] = {{8, 4}, {4, 8}, {0, 12}, {12, 0}};
    uint32_t count = 0;
    const dt_finding *list = nullptr;

    for (uint64_t i = 1; i <= 110; i++) {
        for (uint32_t k = 0; k < 4; k++) {
            const bool is_slow = i <= 60 ? i > 50 && k >= 2 : i > 100 && k < 2;
            dt_link_report report =
                SmallJob::Link((i <= 60 ? before : after)[k][0], (i <= 60 ? before : after)[k][1],
                               is_slow ? 3000000 : 1000000 + (i + k) % 7 * 1000, i * SmallJob::kStepNs);
            ASSERT_TRUE(dt_judge_add_link(judge.get(), &report));
        }
        list = dt_judge_decide(judge.get(), i * SmallJob::kStepNs, &count);
        ASSERT_TRUE((i != 60 && i != 100) || count == 1) << i;
    }
    ASSERT_EQ(count, 2u);
    EXPECT_EQ(list[1].kind, DT_FINDING_LINK);
    EXPECT_EQ(list[1].rank + list[1].peer_rank, 12u) << "8 and 4";
}

TEST(Judge, ASmallJobWithoutAMedianHasItsPast)
{
    std::unique_ptr<dt_judge, void (*)(dt_judge *)> judge{dt_judge_create(4, 2), dt_judge_destroy};
    uint32_t count = 0;
    const dt_finding *list = nullptr;

    for (uint64_t i = 1; i <= 60; i++) {
        for (uint32_t from = 0; from < 2; from++) {
            dt_link_report report =
                SmallJob::Link(4 * from, 4 * (1 - from),
                               i > 50 && from == 1 ? 3000000 : 1000000 + i % 7 * 1000, i * SmallJob::kStepNs);
            ASSERT_TRUE(dt_judge_add_link(judge.get(), &report));
        }
        list = dt_judge_decide(judge.get(), i * SmallJob::kStepNs, &count);
        ASSERT_TRUE(i > 50 || count == 0);
    }
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(list[0].kind, DT_FINDING_LINK);
    EXPECT_EQ(list[0].rank, 4u);
}

TEST(Judge, ImpossibleReportsAreDropped)
{
    std::unique_ptr<dt_judge, void (*)(dt_judge *)> judge{dt_judge_create(4, 2), dt_judge_destroy};
    const dt_link_report good = SmallJob::Link(0, 4, 1000, 10);
    const dt_rank_report good_rank = SmallJob::Rank(0, 1000, 0.5, 10);
    dt_link_report link;
    dt_rank_report rank;
    uint64_t invalid = 0;
    auto refused = [&](auto change) {
        link = good;
        rank = good_rank;
        change();
        bool is_link = memcmp(&link, &good, sizeof link) != 0;
        EXPECT_FALSE(is_link ? dt_judge_add_link(judge.get(), &link) : dt_judge_add_rank(judge.get(), &rank));
        EXPECT_EQ(dt_judge_get_counts(judge.get()).invalid, ++invalid);
    };

    refused([&] { link.service_ns = 0; });
    refused([&] { link.service_ns = UINT64_MAX; });
    refused([&] { link.transfer_bytes = 0; });
    refused([&] { link.samples = 0; });
    refused([&] { link.samples = UINT64_MAX; });
    refused([&] { link.time_ns = 0; });
    refused([&] { memset(link.host, 'x', sizeof link.host); });
    refused([&] { memset(link.peer_host, 'x', sizeof link.peer_host); });
    refused([&] { memset(link.nic, 'x', sizeof link.nic); });
    refused([&] { memset(link.peer_nic, 'x', sizeof link.peer_nic); });
    refused([&] { rank.rank = DT_JUDGE_UNKNOWN; });
    refused([&] { rank.samples = 0; });
    refused([&] { rank.compute_ns = UINT64_MAX; });
    refused([&] { rank.iteration_ns = UINT64_MAX; });
    refused([&] { rank.processor_share = -0.1; });
    refused([&] { rank.processor_share = 1.1; });
    refused([&] { rank.processor_share = std::nan(""); });
    refused([&] { rank.time_ns = 0; });
    refused([&] { memset(rank.host, 'x', sizeof rank.host); });
    EXPECT_EQ(dt_judge_get_counts(judge.get()).links, 0u);
    EXPECT_TRUE(dt_judge_add_link(judge.get(), &good));
    EXPECT_FALSE(dt_judge_add_link(judge.get(), &good)) << "not newer than the last one";
    EXPECT_TRUE(dt_judge_add_rank(judge.get(), &good_rank));
    EXPECT_FALSE(dt_judge_add_rank(judge.get(), &good_rank));
}

TEST(Judge, TablesThatAreFullDropReports)
{
    std::unique_ptr<dt_judge, void (*)(dt_judge *)> judge{dt_judge_create(2, 2), dt_judge_destroy};

    for (uint32_t i = 0; i < 100; i++) {
        dt_link_report link = SmallJob::Link(i, i + 4, 1000, 10);
        dt_rank_report rank = SmallJob::Rank(i, 1000, 0, 10);
        EXPECT_EQ(dt_judge_add_link(judge.get(), &link), i < 2) << i;
        EXPECT_EQ(dt_judge_add_rank(judge.get(), &rank), i < 2) << i;
    }
    EXPECT_EQ(dt_judge_get_counts(judge.get()).no_room, 196u);
}

// More kinds than the judge tells apart; each link keeps its own past.
TEST(Judge, ManyKindsAreOneKind)
{
    std::unique_ptr<dt_judge, void (*)(dt_judge *)> judge{dt_judge_create(200, 2), dt_judge_destroy};
    uint32_t count = 0;
    const dt_finding *list = nullptr;

    for (uint64_t i = 1; i <= 40; i++) {
        for (uint32_t group = 0; group < 100; group++) {
            dt_link_report report = SmallJob::Link(
                0, 4, (i > 30 && group == 99 ? 5 : 1) * (1000000 + i % 5 * 1000), i * SmallJob::kStepNs);
            report.group = group;
            ASSERT_TRUE(dt_judge_add_link(judge.get(), &report));
        }
        list = dt_judge_decide(judge.get(), i * SmallJob::kStepNs, &count);
    }
    EXPECT_EQ(dt_judge_get_counts(judge.get()).links, 100u);
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(list[0].count, 1u);
}

TEST(Judge, LimitsAreChecked)
{
    EXPECT_EQ(dt_judge_create(0, 1), nullptr);
    EXPECT_EQ(dt_judge_create(1, 0), nullptr);
    EXPECT_EQ(dt_judge_create(UINT32_MAX, 1), nullptr);
    dt_judge_destroy(nullptr);
}
} // namespace
