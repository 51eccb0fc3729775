// SPDX-License-Identifier: Apache-2.0
// Findings that rest on one report, of the time of an iteration.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>

#include "controller/judge.h"
#include "tests/controller/small_job.h"

namespace
{
// 16 ranks that report once in an iteration of a second, and links to the three next ranks, 16 of each kind.
class JudgeEarly : public ::testing::Test
{
  protected:
    static constexpr uint64_t kIterationNs = 1000000000;

    void Step()
    {
        now_ns += kIterationNs;
        steps++;
        for (uint32_t rank = 0; rank < SmallJob::kRanks; rank++) {
            auto report =
                SmallJob::Rank(rank, uint64_t(5e8 * compute(rank) * Ripple(rank)), share(rank), now_ns);
            report.iteration_ns = kIterationNs;
            ASSERT_TRUE(dt_judge_add_rank(judge.get(), &report));
            for (uint32_t distance = 4; distance <= 12; distance += 4) {
                uint32_t to = (rank + distance) % SmallJob::kRanks;
                auto link_report = SmallJob::Link(
                    rank, to, uint64_t(1e6 * link(rank, to) * Ripple(rank * 16 + distance)), now_ns);
                ASSERT_TRUE(dt_judge_add_link(judge.get(), &link_report));
            }
        }
        uint32_t count;
        const dt_finding *list = dt_judge_decide(judge.get(), now_ns, &count);
        findings.assign(list, list + count);
    }

    void HealthySteps(int count)
    {
        compute = [](uint32_t) { return 1.0; };
        share = [](uint32_t) { return 0.0; };
        link = [](uint32_t, uint32_t) { return 1.0; };
        for (int i = 0; i < count; i++)
            Step();
    }

    double Ripple(uint32_t salt) const
    {
        return 1 + 0.01 * std::sin(double(steps * 37 + salt * 11));
    }

    std::function<double(uint32_t)> compute, share;
    std::function<double(uint32_t, uint32_t)> link;
    std::unique_ptr<dt_judge, void (*)(dt_judge *)> judge{dt_judge_create(64, SmallJob::kRanks),
                                                          dt_judge_destroy};
    uint64_t now_ns = 1000000000, steps = 0;
    std::vector<dt_finding> findings;
};

TEST_F(JudgeEarly, ADeviceIsNamedAfterOneIteration)
{
    HealthySteps(60);
    ASSERT_TRUE(findings.empty());
    compute = [](uint32_t rank) { return rank == 5 ? 1.2 : 1; };
    Step();
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].kind, DT_FINDING_DEVICE);
    EXPECT_EQ(findings[0].rank, 5u);
    for (int i = 0; i < 5; i++)
        Step();
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].state, DT_FINDING_GOES_ON);
    EXPECT_EQ(findings[0].number, 1u);
}

TEST_F(JudgeEarly, AFindingThatTheNextReportRefutesEndsAndIsTheLastOfItsKind)
{
    HealthySteps(60);
    compute = [](uint32_t rank) { return rank == 5 ? 1.3 : 1; };
    Step();
    ASSERT_EQ(findings.size(), 1u);
    HealthySteps(1);
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].state, DT_FINDING_ENDED);
    HealthySteps(20);
    // Any rank of this kind now needs two.
    compute = [](uint32_t rank) { return rank == 9 ? 1.3 : 1; };
    Step();
    EXPECT_TRUE(findings.empty());
    Step();
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].rank, 9u);
}

TEST_F(JudgeEarly, ARankOfAHostThatHasJustBecomeBusyIsNotASlowDevice)
{
    HealthySteps(60);
    compute = [](uint32_t rank) { return rank == 5 ? 1.3 : 1; };
    share = [](uint32_t rank) { return rank / SmallJob::kPerHost == 1 ? 0.2 : 0; };
    for (int i = 0; i < 5; i++) {
        Step();
        for (const dt_finding &finding : findings)
            EXPECT_EQ(finding.kind, DT_FINDING_PROCESSOR) << finding.reason;
    }
    EXPECT_EQ(findings.size(), 1u);
}

TEST_F(JudgeEarly, ALinkIsNamedAfterOneIterationIfTheOthersOfBothNicsAreHealthy)
{
    HealthySteps(60);
    link = [](uint32_t from, uint32_t to) { return from == 2 && to == 6 ? 1.25 : 1; };
    Step();
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].kind, DT_FINDING_LINK);
    EXPECT_EQ(findings[0].rank, 2u);
    EXPECT_EQ(findings[0].peer_rank, 6u);
}

/* The smoothed share of its waits follows only after some reports. */
TEST_F(JudgeEarly, ALinkOfAHostThatHasJustBecomeBusyIsNotNamedAtOnce)
{
    for (uint32_t busy : {2, 6}) { /* the sender, the receiver */
        judge.reset(dt_judge_create(64, SmallJob::kRanks));
        HealthySteps(60);
        share = [=](uint32_t rank) { return rank / 4 == busy / 4 ? 0.4 : 0; };
        link = [](uint32_t from, uint32_t to) { return from == 2 && to == 6 ? 1.6 : 1; };
        Step();
        EXPECT_TRUE(findings.empty()) << "waits of 40 % explain 67 % more time";
        share = [](uint32_t) { return 0.0; };
        for (int i = 0; i < 10 && findings.empty(); i++)
            Step();
        ASSERT_EQ(findings.size(), 1u) << "the waits have ended, and the link stays slow";
        EXPECT_EQ(findings[0].kind, DT_FINDING_LINK);
    }
}

TEST_F(JudgeEarly, ABurstOfANicIsNeitherThenNorLaterAFinding)
{
    HealthySteps(60);
    link = [](uint32_t from, uint32_t to) { return from == 2 || to == 2 ? 3 : 1; };
    Step();
    EXPECT_TRUE(findings.empty());
    for (int i = 0; i < 10; i++) {
        HealthySteps(1);
        EXPECT_TRUE(findings.empty());
    }
}
} // namespace
