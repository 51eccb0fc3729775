// SPDX-License-Identifier: Apache-2.0
#include "controller/known.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "detour/stat.h"

namespace
{
const int64_t kS = 1000000000;

class Known : public ::testing::Test
{
  protected:
    ~Known() override
    {
        dt_known_destroy(known);
        dt_judge_destroy(judge);
    }
    /* The host of a rank's process, by its own name. */
    static std::string Box(int32_t rank)
    {
        return "box" + std::to_string(rank);
    }
    /* The host's report of one link with this mean time of a message. */
    void Report(const char *host, int32_t from, int32_t to, int64_t service_ns, int64_t time_ns,
                int64_t arrives_ns, const std::function<void(dt_observed_link *)> &change = nullptr)
    {
        auto observation = std::make_unique<dt_observation>();
        dt_observed_link *link = &observation->links[0];

        *observation = {};
        strcpy(observation->host, host);
        strcpy(observation->page_host, Box(from).c_str());
        observation->pid = 70 + from;
        observation->rank = from;
        observation->time_ns = time_ns;
        observation->link_count = 1;
        observation->processor_share = host[0] == busy_host ? 0.9 : 0.01;
        link->connection = 100 + (uint64_t)from;
        link->from_rank = from;
        link->to_rank = to;
        strcpy(link->peer, (Box(to) + ":" + std::to_string(70 + to)).c_str());
        strcpy(link->nic, "n0");
        strcpy(link->peer_nic, "n0");
        link->messages = 10;
        link->bytes = 10 * 4096;
        link->service_ns = 10 * service_ns;
        if (change)
            change(link);
        dt_known_take(known, observation.get(), DT_JUDGE_UNKNOWN, arrives_ns, judge);
    }
    /* The report of a rank of two replicas of four stages about its links to both neighbors. */
    void ReportStage(const char *host, int32_t rank, int64_t slow_ns, int64_t at_ns)
    {
        auto observation = std::make_unique<dt_observation>();

        *observation = {};
        strcpy(observation->host, host);
        strcpy(observation->page_host, Box(rank).c_str());
        observation->pid = 70 + rank;
        observation->rank = rank;
        observation->time_ns = at_ns;
        for (int32_t peer : {rank - 1, rank + 1}) {
            dt_observed_link *link = &observation->links[observation->link_count];

            if (peer < 0 || peer / 4 != rank / 4)
                continue;
            observation->link_count++;
            link->connection = 100 + 10 * (uint64_t)rank + (uint64_t)peer;
            link->from_rank = rank % 4;
            link->to_rank = peer % 4;
            strcpy(link->peer, (Box(peer) + ":" + std::to_string(70 + peer)).c_str());
            strcpy(link->nic, "n0");
            strcpy(link->peer_nic, "n0");
            link->messages = 10;
            link->bytes = 10 * 4096;
            link->service_ns = 10 * (rank + peer == 13 ? slow_ns : 1000000 + 1000 * (at_ns / 7 % 13));
        }
        dt_known_take(known, observation.get(), DT_JUDGE_UNKNOWN, at_ns, judge);
    }
    /* 60 reports of both directions; the one from 0 to 1 takes `slow_ns` from the 30th on. Returns the first
     * finding. */
    const dt_finding *Run(int64_t slow_ns, int64_t offset_ns,
                          const std::function<void(dt_observed_link *)> &change = nullptr)
    {
        for (int64_t i = 1; i <= 60; i++) {
            int64_t at_ns = 1000 * kS + i * kS / 5;
            Report("a", 0, 1, i < 30 ? 1000000 : slow_ns, at_ns + offset_ns, at_ns,
                   i < 30 ? nullptr : change);
            Report("b", 1, 0, 1000000, at_ns, at_ns);
            uint32_t count = 0;
            const dt_finding *found = dt_judge_decide(judge, (uint64_t)at_ns, &count);
            if (count)
                return found;
        }
        return nullptr;
    }

    char busy_host = 0;
    dt_known *known = dt_known_create();
    dt_judge *judge = dt_judge_create(64, 64);
};

TEST_F(Known, TheHostOfBothEndsIsThatOfTheirRanks)
{
    const dt_finding *found = Run(20000000, 0);

    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->kind, DT_FINDING_LINK);
    EXPECT_STREQ(found->host, "a");
    EXPECT_STREQ(found->peer_host, "b");
    EXPECT_EQ(dt_known_host_count(known), 2u);
}

/*
 * Two replicas of four stages with a communicator each: rank r of the job is rank r % 4 of its communicator.
 * Both directions between the ranks 6 and 7 are slow.
 */
TEST_F(Known, ASlowLinkOfACommunicatorHasTheRanksAndHostsOfTheJob)
{
    const dt_finding *found = nullptr;
    uint32_t count = 0;

    for (int64_t i = 1; i <= 60 && !count; i++) {
        const int64_t at_ns = 1000 * kS + i * kS / 5;

        for (int32_t rank = 0; rank < 8; rank++) {
            const std::string host = "h" + std::to_string(rank);

            ReportStage(host.c_str(), rank, i < 30 ? 1000000 : 20000000, at_ns);
        }
        found = dt_judge_decide(judge, (uint64_t)at_ns, &count);
    }
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(found->kind, DT_FINDING_LINK);
    EXPECT_EQ(found->rank + found->peer_rank, 13u);
    EXPECT_EQ(found->host, "h" + std::to_string(found->rank));
    EXPECT_EQ(found->peer_host, "h" + std::to_string(found->peer_rank));
    EXPECT_EQ(dt_judge_get_counts(judge).links, 12u) << "each link is one from its first report on";
}

TEST_F(Known, AnUnreportedPeerHasNoRankOfTheJobButThatOfAMatchingCommunicator)
{
    const auto is_from = [](int32_t rank) {
        return [rank](dt_observed_link *link) { link->from_rank = rank; };
    };
    const auto ends = [&] {
        for (size_t i = 0; i < DT_KNOWN_LINKS_MAX; i++) {
            const dt_known_link *link = &dt_known_links(known)[i];
            if (link->connection)
                return std::to_string(link->from_rank) + ">" + std::to_string(link->to_rank);
        }
        return std::string();
    };

    Report("a", 0, 1, 1000000, kS, kS);
    EXPECT_EQ(ends(), "0>1");
    EXPECT_EQ(dt_judge_get_counts(judge).links, 0u) << "the first report of the peer may be next";
    Report("a", 0, 1, 1000000, kS + DT_KNOWN_PEER_NS, kS + DT_KNOWN_PEER_NS, is_from(2));
    EXPECT_EQ(ends(), "0>-1") << "rank 0 is rank 2 of the communicator";
    EXPECT_EQ(dt_judge_get_counts(judge).links, 1u);
    Report("b", 1, 0, 1000000, kS, kS, [](dt_observed_link *link) { link->messages = 0; });
    Report("a", 0, 1, 1000000, 10 * kS, 10 * kS,
           [](dt_observed_link *link) { strcpy(link->peer, "box9:1"); });
    EXPECT_EQ(ends(), "0>-1") << "rank 1 is another process";
    Report("a", 0, 1, 1000000, 11 * kS, 11 * kS, is_from(2));
    EXPECT_EQ(ends(), "0>1");
}

TEST_F(Known, AHostWhoseClockIsAnHourOffIsJudgedLikeOthers)
{
    ASSERT_NE(Run(20000000, -3600 * kS), nullptr);
}

TEST_F(Known, AHostWhoseClockIsSetBackIsJudgedAgain)
{
    uint32_t count = 0;

    for (int64_t i = 1; i <= 120 && !count; i++) {
        int64_t at_ns = 10000 * kS + i * kS / 5;
        Report("a", 0, 1, i < 60 ? 1000000 : 20000000, i < 20 ? at_ns : at_ns - 3600 * kS, at_ns);
        Report("b", 1, 0, 1000000, at_ns, at_ns);
        dt_judge_decide(judge, (uint64_t)at_ns, &count);
    }
    EXPECT_GT(count, 0u);
}

TEST_F(Known, AHealthyJobHasNoFinding)
{
    EXPECT_EQ(Run(1000000, 0), nullptr);
}

TEST_F(Known, AProcessorThatExplainsTheDelayIsBlamed)
{
    const dt_finding *found = Run(20000000, 0, [](dt_observed_link *link) {
        link->verdict = DETOUR_STAT_SLOW;
        link->cause = DETOUR_STAT_CAUSE_OWN_PROCESSOR;
        link->delay_ns = 19000000;
    });
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->kind, DT_FINDING_PROCESSOR);
}

/* At the receiver too, whose threads the sender's own verdict cannot know. */
TEST_F(Known, TheBusyProcessorsOfEitherEndAreBlamed)
{
    for (char host : {'a', 'b'}) {
        dt_known_destroy(known);
        dt_judge_destroy(judge);
        known = dt_known_create();
        judge = dt_judge_create(64, 64);
        busy_host = host;
        /* Both directions, since what a busy host sends is slow as well. */
        const dt_finding *found = nullptr;
        for (int64_t i = 1; i <= 60 && !found; i++) {
            int64_t at_ns = 1000 * kS + i * kS / 5;
            Report("a", 0, 1, i < 30 ? 1000000 : 3000000, at_ns, at_ns);
            Report("b", 1, 0, i < 30 ? 1000000 : 3000000, at_ns, at_ns);
            uint32_t count = 0;
            const dt_finding *list = dt_judge_decide(judge, (uint64_t)at_ns, &count);
            found = count ? list : nullptr;
        }
        ASSERT_NE(found, nullptr);
        EXPECT_EQ(found->kind, DT_FINDING_PROCESSOR);
        EXPECT_EQ(found->host, std::string(1, host));
    }
}

/*
 * Two of 16 ranks have a stage with 1.3 times the work of the others, as the last stages of two replicas. The
 * finding of a rank that slows down later shows that ranks are judged.
 */
class KnownWork : public Known
{
  protected:
    /* The rank of the first device that is found; -1: none in 40 s. */
    int32_t Run(const std::function<uint32_t(int32_t)> &stage_of, const std::function<double(int32_t)> &work)
    {
        auto observation = std::make_unique<dt_observation>();

        for (int64_t end_ns = at_ns + 40 * kS; at_ns < end_ns; at_ns += kS / 5) {
            for (int32_t rank = 0; rank < 16; rank++) {
                *observation = {};
                strcpy(observation->host, ("h" + std::to_string(rank)).c_str());
                observation->pid = 70 + rank;
                observation->rank = rank;
                observation->time_ns = at_ns;
                observation->iteration_ns = kS / 5;
                observation->iterations = 1;
                observation->compute_ns =
                    (int64_t)(1e8 * work(rank)) + at_ns / 200000000 * 37 % 11 * 100000 + rank * 100000;
                dt_known_take(known, observation.get(), stage_of(rank), at_ns, judge);
            }
            uint32_t count = 0;
            const dt_finding *found = dt_judge_decide(judge, (uint64_t)at_ns, &count);
            if (count) {
                EXPECT_EQ(found->kind, DT_FINDING_DEVICE);
                return (int32_t)found->rank;
            }
        }
        return -1;
    }
    static double Uneven(int32_t rank)
    {
        return rank % 8 == 7 ? 1.3 : 1.0;
    }

    int64_t at_ns = 1000 * kS;
};

TEST_F(KnownWork, OfUnknownStagesMayDifferAndIsComparedWithItsOwnPast)
{
    const auto unknown = [](int32_t) { return DT_JUDGE_UNKNOWN; };

    EXPECT_EQ(Run(unknown, Uneven), -1);
    EXPECT_EQ(Run(unknown, [](int32_t rank) { return Uneven(rank) * (rank == 7 ? 1.3 : 1.0); }), 7);
}

TEST_F(KnownWork, OfOneStageIsTheSame)
{
    EXPECT_EQ(Run([](int32_t) { return 0u; }, [](int32_t rank) { return rank == 7 ? 1.3 : 1.0; }), 7);
}

TEST_F(KnownWork, OfAllRanksMayGrowTogether)
{
    const auto unknown = [](int32_t) { return DT_JUDGE_UNKNOWN; };

    EXPECT_EQ(Run(unknown, Uneven), -1);
    EXPECT_EQ(Run(unknown, [](int32_t rank) { return 1.4 * Uneven(rank); }), -1);
}

TEST_F(Known, AVerdictAboutSomethingSmallerIsNotTheCause)
{
    const dt_finding *found = Run(20000000, 0, [](dt_observed_link *link) {
        link->verdict = DETOUR_STAT_SLOW;
        link->cause = DETOUR_STAT_CAUSE_OWN_PROCESSOR;
        link->delay_ns = 400000;
    });
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->kind, DT_FINDING_LINK);
}

TEST_F(Known, AStartOfTheJobIsANewProcessOfRank0)
{
    auto observation = std::make_unique<dt_observation>();
    auto take = [&](int32_t rank, int32_t pid, int64_t iterations, int64_t at_ms) {
        *observation = {};
        strcpy(observation->host, "a");
        observation->rank = rank;
        observation->pid = pid;
        observation->iterations = iterations;
        observation->time_ns = kS + at_ms * 1000000;
        dt_known_take(known, observation.get(), DT_JUDGE_UNKNOWN, observation->time_ns, judge);
        return dt_known_job_starts(known);
    };

    EXPECT_EQ(take(1, 10, 5, 0), 0u);
    EXPECT_EQ(take(0, 11, 0, 200), 1u);
    EXPECT_EQ(take(0, 11, 0, 900), 1u);
    EXPECT_EQ(take(0, 12, 5, 1800), 1u) << "beside the job";
    EXPECT_EQ(take(0, 12, 0, 2000), 2u) << "before its first iteration";
    EXPECT_EQ(take(0, 12, 5, 9000), 2u);
}

TEST_F(Known, TheJobOfAnEarlierControllerIsTheSameOrHasStartedAgain)
{
    auto observation = std::make_unique<dt_observation>();
    char job[DT_KNOWN_JOB_BYTES];
    auto take = [&](dt_known *by, int32_t pid, int64_t at_ms) {
        *observation = {};
        strcpy(observation->host, "a");
        observation->pid = pid;
        observation->time_ns = kS + at_ms * 1000000;
        dt_known_take(by, observation.get(), DT_JUDGE_UNKNOWN, observation->time_ns, judge);
        dt_known_job(by, job);
        return dt_known_job_starts(by);
    };

    dt_known_job(known, job);
    EXPECT_STREQ(job, "");
    EXPECT_EQ(dt_known_resume_job(known, "nothing", kS), 0u);
    EXPECT_EQ(dt_known_resume_job(known, "a 11", kS), 1u);
    EXPECT_EQ(take(known, 11, 200), 1u);
    EXPECT_EQ(take(known, 12, 2000), 2u);
    EXPECT_STREQ(job, "a 12");
    EXPECT_EQ(dt_known_resume_job(known, "a 12", kS), 2u);
    EXPECT_EQ(dt_known_job_starts(known), 2u);
    EXPECT_EQ(dt_known_resume_job(known, "a 11", kS), 2u) << "as a controller that has waited";
    EXPECT_EQ(dt_known_job_starts(known), 3u);
}

TEST_F(Known, ALinkWithoutTrafficIsNotReported)
{
    Report("a", 0, 1, 1000, kS, kS, [](dt_observed_link *link) { link->messages = 0; });
    EXPECT_EQ(dt_judge_get_counts(judge).links, 0u);
}

TEST_F(Known, TheLastReportOfEachConnectionIsThereAndTheTableIsBounded)
{
    size_t count = 0;

    Report("a", 0, 1, 1000, kS, kS);
    Report("a", 0, 1, 2000, kS + 1, kS + 1);
    Report("b", 0, 1, 3000, kS + 2, kS + 2); /* the same id on another host */
    for (size_t i = 0; i < DT_KNOWN_LINKS_MAX; i++)
        count += dt_known_links(known)[i].connection != 0;
    EXPECT_EQ(count, 2u);
    for (uint64_t i = 1; i <= 2 * DT_KNOWN_LINKS_MAX; i++)
        Report("a", 0, 1, 1000, kS, kS, [i](dt_observed_link *link) { link->connection = i; });
}

/* A report of rank `rank` on host a or b, with this time of an iteration; 0: none since the last report. */
class KnownPace : public Known
{
  protected:
    void Pace(const char *host, int32_t rank, int64_t iteration_ns, int64_t at_ns)
    {
        auto observation = std::make_unique<dt_observation>();

        *observation = {};
        strcpy(observation->host, host);
        observation->pid = 1;
        observation->rank = rank;
        observation->time_ns = at_ns - 3600 * kS; /* its clock is wrong */
        observation->iteration_ns = iteration_ns;
        dt_known_take(known, observation.get(), DT_JUDGE_UNKNOWN, at_ns, judge);
    }
};

TEST_F(KnownPace, TheIterationOfTheJobIsTheMedianOfItsRanks)
{
    const int64_t at_ns = 10000 * kS;

    EXPECT_EQ(dt_known_iteration_ns(known, at_ns), 0u);
    Pace("a", 0, 100, at_ns);
    Pace("a", 1, 900, at_ns);
    EXPECT_EQ(dt_known_iteration_ns(known, at_ns), 500u);
    Pace("b", 2, 110, at_ns);
    EXPECT_EQ(dt_known_iteration_ns(known, at_ns), 110u);
    Pace("b", 2, 0, at_ns + kS);
    EXPECT_EQ(dt_known_iteration_ns(known, at_ns + kS), 110u) << "no iteration is no news";
}

TEST_F(KnownPace, WhatIsNotReportedForLongIsNotPresent)
{
    const int64_t at_ns = 10000 * kS, stale_ns = (int64_t)DT_JUDGE_STALE_NS;

    Pace("a", 0, 20 * kS, at_ns);
    Pace("b", 1, 1000, at_ns);
    EXPECT_EQ(dt_known_present_hosts(known, at_ns), 2u);
    Pace("a", 0, 0, at_ns + stale_ns);
    EXPECT_EQ(dt_known_present_hosts(known, at_ns + stale_ns), 1u);
    EXPECT_EQ(dt_known_iteration_ns(known, at_ns + stale_ns), 20u * kS) << "a long iteration";
    EXPECT_EQ(dt_known_iteration_ns(known, at_ns + 60 * kS), 0u);
    EXPECT_EQ(dt_known_host_count(known), 2u) << "they are remembered";
}
} // namespace
