// SPDX-License-Identifier: Apache-2.0
#include "controller/judge_findings.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <memory>

#include "controller/judge_state.h"
#include "tests/controller/small_job.h"

namespace
{
TEST(JudgeFindings, ALinkThatProvesToBeANicIsAbsorbed)
{
    SmallJob job;
    bool has_ended = false;

    job.Steps(80);
    job.link = [](uint32_t from, uint32_t to) { return from == 5 && to == 9 ? 1.5 : 1; };
    job.Steps(8);
    ASSERT_EQ(job.findings.size(), 1u);
    EXPECT_EQ(job.findings[0].kind, DT_FINDING_LINK);
    job.link = [](uint32_t from, uint32_t to) { return from == 5 || to == 5 ? 1.5 : 1; };
    for (int i = 0; i < 60; i++) {
        job.Step();
        for (const dt_finding &finding : job.findings)
            has_ended |= finding.kind == DT_FINDING_LINK && finding.state == DT_FINDING_ENDED;
    }
    EXPECT_TRUE(has_ended);
    ASSERT_EQ(job.findings.size(), 1u);
    EXPECT_EQ(job.findings[0].kind, DT_FINDING_NIC);
}

TEST(JudgeState, TheLargerOfTheTwoRisesCounts)
{
    auto member = std::make_unique<dt_judge_member>();

    EXPECT_FALSE(dt_judge_is_slow(member.get()));
    member->first_ns = 5;
    member->outlier = 0.5;
    member->series.rise = 0.7; // of an incident that has ended
    EXPECT_TRUE(dt_judge_is_slow(member.get()));
    EXPECT_EQ(dt_judge_rise(member.get()), 0.5);
    EXPECT_EQ(dt_judge_since_ns(member.get()), 5u);
    member->series.is_slow = true;
    member->series.since_ns = 9;
    EXPECT_EQ(dt_judge_rise(member.get()), 0.7);
    EXPECT_EQ(dt_judge_since_ns(member.get()), 9u);
}

TEST(JudgeFindings, NumbersAreUniqueAndEachFindingIsNewOnceAndEndsOnce)
{
    SmallJob job;
    std::set<uint64_t> begun, ended;

    job.Steps(80);
    for (int round = 0; round < 10; round++) {
        uint32_t slow = uint32_t(round % 16);
        job.link = [=](uint32_t from, uint32_t to) { return from == slow && to == (slow + 4) % 16 ? 2 : 1; };
        for (int i = 0; i < 40; i++) {
            if (i == 15)
                job.link = [](uint32_t, uint32_t) { return 1; };
            job.Step();
            for (const dt_finding &finding : job.findings) {
                EXPECT_EQ(begun.insert(finding.number).second, finding.state == DT_FINDING_NEW);
                bool is_repeated = finding.state == DT_FINDING_ENDED && !ended.insert(finding.number).second;
                EXPECT_FALSE(is_repeated);
            }
        }
    }
    EXPECT_EQ(begun.size(), 10u);
    EXPECT_EQ(begun, ended);
}

TEST(JudgeFindings, TheListIsBoundedAndTheReasonIsOneLine)
{
    const uint32_t kRanks = 200;
    std::unique_ptr<dt_judge, void (*)(dt_judge *)> judge{dt_judge_create(1, kRanks), dt_judge_destroy};
    uint32_t count = 0;
    const dt_finding *list = nullptr;

    for (uint64_t i = 1; i <= 50; i++) {
        for (uint32_t rank = 0; rank < kRanks; rank++) {
            bool is_slow = i > 40 && rank < 80;
            dt_rank_report report =
                SmallJob::Rank(rank, 1000000 * (is_slow ? 3 : 1) + i % 5 * 1000, 0, i * SmallJob::kStepNs);
            ASSERT_TRUE(dt_judge_add_rank(judge.get(), &report));
        }
        list = dt_judge_decide(judge.get(), i * SmallJob::kStepNs, &count);
    }
    EXPECT_EQ(count, uint32_t(DT_JUDGE_FINDINGS));
    for (uint32_t i = 0; i < count; i++) {
        EXPECT_NE(list[i].reason[0], 0);
        EXPECT_EQ(strchr(list[i].reason, '\n'), nullptr);
    }
}
} // namespace
