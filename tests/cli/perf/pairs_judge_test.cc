/* SPDX-License-Identifier: Apache-2.0 */
/* From given times of a validation to the slow link, network or computing. */
#include "cli/perf/pairs_judge.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/validation.h"

namespace
{
class PairsJudge : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        arena = detour_arena_create();
    }
    void TearDown() override
    {
        detour_arena_destroy(arena);
    }
    /* Healthy times of this plan. */
    void Make(const char *name, unsigned rank_count)
    {
        plan = name;
        ranks = rank_count;
        times = {};
        std::fill_n(times.pair_ns, DT_PERF_PAIRS_MAX, 1000000);
        std::fill_n(times.compute_ns, ranks, 500000);
        Judge();
        times.pair_count = static_cast<uint32_t>(result.plan->pair_count);
    }
    void Judge(int32_t slow_permille = 1100)
    {
        ASSERT_EQ(DETOUR_OK, dt_perf_pairs_judge(arena, plan, ranks, slow_permille, &times, &result, &error))
            << error.text;
    }
    /* All pairs that `is_slow` accepts take four times as long as the others. */
    template <typename IsSlow>
    static void Slow(const detour_validation *of, int64_t *ns, IsSlow is_slow)
    {
        for (int32_t i = 0; i < of->pair_count; i++)
            ns[i] = is_slow(of->pairs[i]) ? 4000000 : 1000000;
    }
    template <typename IsSlow>
    void Confirm(IsSlow is_slow)
    {
        ASSERT_NE(nullptr, result.confirm);
        Slow(result.confirm, times.confirm_ns, is_slow);
        times.confirm_count = static_cast<uint32_t>(result.confirm->pair_count);
        Judge();
    }
    void ExpectSlow(detour_slow_kind kind, int32_t rank, int32_t peer)
    {
        ASSERT_EQ(1, result.diagnosis.slow_count);
        EXPECT_EQ(kind, result.diagnosis.slow[0].kind);
        EXPECT_EQ(rank, result.diagnosis.slow[0].rank);
        EXPECT_EQ(peer, result.diagnosis.slow[0].peer);
        EXPECT_FALSE(result.diagnosis.ambiguous);
    }

    detour_arena *arena = nullptr;
    detour_error error = {};
    const char *plan = nullptr;
    unsigned ranks = 0;
    dt_perf_pairs_times times = {};
    dt_perf_pairs_result result = {};
};

bool Has(const detour_rank_pair &pair, int32_t rank)
{
    return pair.from == rank || pair.to == rank;
}

TEST_F(PairsJudge, HealthyTimesHaveNoCause)
{
    for (const char *name : {"ring", "tree"}) {
        for (unsigned rank_count : {2u, 3u, 8u}) {
            Make(name, rank_count);
            EXPECT_EQ(0, result.diagnosis.slow_count) << name << " " << rank_count;
            EXPECT_EQ(nullptr, result.confirm);
        }
    }
}

TEST_F(PairsJudge, ASlowLinkIsNamed)
{
    Make("ring", 8);
    Slow(result.plan, times.pair_ns, [](auto &pair) { return Has(pair, 4) && Has(pair, 5); });
    Judge();
    EXPECT_EQ(nullptr, result.confirm);
    ExpectSlow(DETOUR_SLOW_LINK, 4, 5);
    EXPECT_EQ(4000, result.diagnosis.slow[0].factor_permille);
    Judge(5000);
    EXPECT_EQ(0, result.diagnosis.slow_count) << "below the threshold";
}

TEST_F(PairsJudge, ASlowNetworkIsNamedAfterItsConfirmation)
{
    auto slow = [](auto &pair) { return Has(pair, 3); };
    for (unsigned rank_count : {5u, 8u}) {
        Make("ring", rank_count);
        Slow(result.plan, times.pair_ns, slow);
        Judge();
        Confirm(slow);
        ExpectSlow(DETOUR_SLOW_NETWORK, 3, -1);
    }
}

/* The rank is fast with other ranks: each of its two links in the ring is slow, its network is not. */
TEST_F(PairsJudge, SlowLinksOfARankAreNoSlowNetwork)
{
    Make("ring", 8);
    Slow(result.plan, times.pair_ns, [](auto &pair) { return Has(pair, 3); });
    Judge();
    Confirm([](auto &) { return false; });
    ASSERT_EQ(2, result.diagnosis.slow_count);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(DETOUR_SLOW_LINK, result.diagnosis.slow[i].kind);
}

TEST_F(PairsJudge, SlowComputingIsNamed)
{
    Make("tree", 8);
    times.compute_ns[6] = 900000;
    Judge();
    ExpectSlow(DETOUR_SLOW_COMPUTE, 6, -1);
    EXPECT_EQ(1800, result.diagnosis.slow[0].factor_permille);
}

TEST_F(PairsJudge, TimesThatAreNoneAreRefused)
{
    Make("ring", 4);
    times.pair_ns[2] = 0;
    EXPECT_NE(DETOUR_OK, dt_perf_pairs_judge(arena, plan, ranks, 1100, &times, &result, &error));
    EXPECT_STRNE("", error.text);
}

TEST_F(PairsJudge, EveryPlanOfTheLargestJobFits)
{
    for (const char *name : {"ring", "tree"}) {
        for (int32_t rank_count = 2; rank_count <= DT_JOB_RANKS_MAX; rank_count++) {
            const detour_validation *made = nullptr;
            ASSERT_EQ(DETOUR_OK, dt_validation_make(arena, name, rank_count, &made, &error));
            EXPECT_LE(made->pair_count, DT_PERF_PAIRS_MAX);
        }
    }
}
} // namespace
