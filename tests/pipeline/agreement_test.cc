// SPDX-License-Identifier: Apache-2.0
#include "pipeline/agreement.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/prng.h"

namespace
{
/* Ranks in rounds, as job/ runs them: all get the same parts. */
struct Ranks {
    std::vector<struct dt_agreement> ranks;
    uint32_t next_iteration = 1;

    explicit Ranks(size_t count) : ranks(count) {}

    std::vector<enum dt_agreement_action> Round()
    {
        std::vector<struct dt_agreement_part> parts;
        std::vector<enum dt_agreement_action> actions;
        for (const struct dt_agreement &rank : ranks)
            parts.push_back(rank.own);
        for (struct dt_agreement &rank : ranks)
            actions.push_back(dt_agreement_round(&rank, parts.data(), parts.size(), next_iteration));
        next_iteration++;
        return actions;
    }

    void Expect(enum dt_agreement_action action)
    {
        for (enum dt_agreement_action found : Round())
            EXPECT_EQ(found, action) << "before iteration " << next_iteration - 1;
    }
};
} // namespace

TEST(Agreement, AllAdoptForTheStatedIteration)
{
    Ranks r(4);
    r.Expect(DT_AGREEMENT_KEEP);
    EXPECT_EQ(dt_agreement_propose(&r.ranks[0], 5), 1u);
    EXPECT_EQ(dt_agreement_propose(&r.ranks[0], 5), 0u) << "one at a time";
    r.Expect(DT_AGREEMENT_PREPARE);
    for (struct dt_agreement &rank : r.ranks)
        dt_agreement_prepared(&rank, 77);
    r.Expect(DT_AGREEMENT_KEEP);
    r.Expect(DT_AGREEMENT_KEEP);
    r.Expect(DT_AGREEMENT_ADOPT);
    EXPECT_EQ(r.next_iteration, 6u);
    for (const struct dt_agreement &rank : r.ranks)
        EXPECT_EQ(rank.adopted, 1u);
    EXPECT_EQ(dt_agreement_propose(&r.ranks[0], 9), 2u);
}

TEST(Agreement, ALateConfirmationInTimeIsEnough)
{
    Ranks r(3);
    dt_agreement_propose(&r.ranks[0], 4);
    r.Expect(DT_AGREEMENT_PREPARE);
    dt_agreement_prepared(&r.ranks[0], 77);
    dt_agreement_prepared(&r.ranks[1], 77);
    r.Expect(DT_AGREEMENT_KEEP);
    r.Expect(DT_AGREEMENT_KEEP);
    dt_agreement_prepared(&r.ranks[2], 77);
    r.Expect(DT_AGREEMENT_ADOPT);
}

TEST(Agreement, AMissingConfirmationKeepsTheOldSchedule)
{
    Ranks r(3);
    dt_agreement_propose(&r.ranks[0], 3);
    r.Expect(DT_AGREEMENT_PREPARE);
    dt_agreement_prepared(&r.ranks[0], 77);
    dt_agreement_prepared(&r.ranks[2], 77);
    r.Expect(DT_AGREEMENT_KEEP);
    r.Expect(DT_AGREEMENT_DISCARD);
    dt_agreement_prepared(&r.ranks[1], 77); /* too late: no effect */
    r.Expect(DT_AGREEMENT_KEEP);
    for (const struct dt_agreement &rank : r.ranks)
        EXPECT_EQ(rank.adopted, 0u);
}

TEST(Agreement, AnotherDigestKeepsTheOldSchedule)
{
    Ranks r(3);
    dt_agreement_propose(&r.ranks[0], 5);
    r.Expect(DT_AGREEMENT_PREPARE);
    dt_agreement_prepared(&r.ranks[0], 77);
    dt_agreement_prepared(&r.ranks[1], 78);
    r.Expect(DT_AGREEMENT_DISCARD);
    r.Expect(DT_AGREEMENT_KEEP);
}

TEST(Agreement, AProposalForAnIterationThatBeginsIsNotPrepared)
{
    Ranks r(2);
    dt_agreement_propose(&r.ranks[0], 1);
    r.Expect(DT_AGREEMENT_KEEP);
    EXPECT_EQ(dt_agreement_propose(&r.ranks[0], 9), 2u) << "its number is not used again";
}

/* A confirmation that is lost in the rank itself, at every round, for every rank. */
TEST(Agreement, NeverTwoSchedules)
{
    uint32_t all = 0;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct dt_prng prng;
        dt_prng_init(&prng, seed);
        Ranks r(2 + dt_prng_below(&prng, 6));
        uint32_t adoptions = 0;
        for (int round = 0; round < 40; round++) {
            if (dt_prng_below(&prng, 4) == 0)
                dt_agreement_propose(&r.ranks[0],
                                     r.next_iteration + static_cast<uint32_t>(dt_prng_below(&prng, 5)));
            for (struct dt_agreement &rank : r.ranks)
                if (dt_prng_below(&prng, 8))
                    dt_agreement_prepared(&rank, dt_prng_below(&prng, 40) ? 77 + rank.last : 5);
            std::vector<enum dt_agreement_action> actions = r.Round();
            for (size_t i = 1; i < r.ranks.size(); i++) {
                ASSERT_EQ(actions[i], actions[0]) << "seed " << seed;
                ASSERT_EQ(r.ranks[i].adopted, r.ranks[0].adopted) << "seed " << seed;
            }
            adoptions += actions[0] == DT_AGREEMENT_ADOPT;
        }
        all += adoptions;
    }
    EXPECT_GT(all, 1000u) << "the case is too hard: schedules hardly change";
}

/* All ranks change the schedule for a reason that a round has given to all: the next proposal has a number
 * of its own. */
TEST(Agreement, AChangeWithoutAProposalHasANumber)
{
    Ranks r(3);
    for (struct dt_agreement &rank : r.ranks)
        EXPECT_EQ(dt_agreement_count_change(&rank), 1u);
    EXPECT_EQ(r.ranks[0].adopted, 1u);
    EXPECT_EQ(dt_agreement_propose(&r.ranks[0], r.next_iteration + 2), 2u);
    r.Expect(DT_AGREEMENT_PREPARE);
    for (struct dt_agreement &rank : r.ranks)
        dt_agreement_prepared(&rank, 7);
    r.Expect(DT_AGREEMENT_KEEP);
    r.Expect(DT_AGREEMENT_ADOPT);
    for (struct dt_agreement &rank : r.ranks)
        EXPECT_EQ(rank.adopted, 2u);
}
