// SPDX-License-Identifier: Apache-2.0
/*
 * Judging thousands of connections: the sorted comparison finds what comparing each connection with all
 * others finds (the formulas of Detour before), and its steps grow as count * log(count). The steps are
 * counted, not timed: the compiler calls __sanitizer_cov_trace_pc() in each basic block of detect/blame.c and
 * detect/period.c, which this program compiles for itself.
 */
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "detect/blame.h"
#include "detect/period.h"

static uint64_t steps;
extern "C" void __sanitizer_cov_trace_pc(void)
{
    steps++;
}

namespace
{
using Connections = std::vector<dt_blame_connection>;

// ------------------------------------------------------------------------------------------------------------
// Each with all others

double QuadraticMedian(const Connections &all, uint32_t size_class)
{
    uint32_t members = 0;
    double median = 0;
    auto is_member = [&](const dt_blame_connection &c) {
        return c.size_class == size_class && c.seconds_a_byte > 0;
    };
    for (const auto &c : all)
        members += is_member(c);
    for (const auto &candidate : all) {
        uint32_t below = 0, equal = 0;
        if (members < DT_BLAME_CLASS_MIN || !is_member(candidate))
            continue;
        for (const auto &other : all) {
            below += is_member(other) && other.seconds_a_byte < candidate.seconds_a_byte;
            equal += is_member(other) && other.seconds_a_byte == candidate.seconds_a_byte;
        }
        if (below <= (members - 1) / 2 && below + equal > (members - 1) / 2)
            median = candidate.seconds_a_byte;
    }
    return median;
}

uint32_t QuadraticNeighbors(const Connections &all, const dt_blame_connection &me, bool by_own_nic)
{
    uint32_t asked = 0, suffering = 0;
    for (const auto &other : all) {
        bool shares_own = other.own_nic == me.own_nic;
        bool shares_peer = other.peer_host == me.peer_host && other.peer_nic == me.peer_nic;
        if (by_own_nic ? shares_own && !shares_peer : shares_peer && !shares_own) {
            asked++;
            suffering += other.is_suspicious;
        }
    }
    return asked ? 3 * suffering / asked : 0;
}

dt_blame QuadraticBlame(const Connections &all, const dt_blame_connection &me)
{
    if (!me.is_suspicious)
        return me.is_waiting ? DT_BLAME_PEER_NOT_READY : DT_BLAME_NONE;
    if (me.is_processor)
        return DT_BLAME_OWN_PROCESSOR;
    uint32_t own = QuadraticNeighbors(all, me, true), peer = QuadraticNeighbors(all, me, false);
    if (own >= 2 && own >= peer)
        return DT_BLAME_OWN_NIC;
    return peer >= 2 ? DT_BLAME_PEER_NIC : DT_BLAME_LINK;
}

void DecideQuadratically(Connections *all)
{
    for (auto &c : *all) {
        c.class_median = QuadraticMedian(*all, c.size_class);
        c.of_median = c.class_median > 0 && c.seconds_a_byte > 0 ? c.seconds_a_byte / c.class_median : 0;
        c.is_suspicious = c.is_slow || c.of_median > DT_BLAME_SUSPICIOUS;
    }
    for (auto &c : *all)
        c.blame = QuadraticBlame(*all, c);
}

uint32_t VoteQuadratically(const std::vector<uint32_t> &periods)
{
    uint32_t best = 0, best_votes = 0;
    for (uint32_t period : periods) {
        uint32_t votes = 0;
        for (uint32_t other : periods)
            votes += other == period;
        if (period && (votes > best_votes || (votes == best_votes && period < best))) {
            best = period;
            best_votes = votes;
        }
    }
    return best;
}

// ------------------------------------------------------------------------------------------------------------

uint64_t Decide(Connections *all)
{
    std::vector<dt_blame_connection *> order(all->size());
    steps = 0;
    dt_blame_decide(all->data(), static_cast<uint32_t>(all->size()), order.data());
    return steps;
}

Connections Random(std::mt19937 *random, uint32_t count)
{
    auto below = [&](uint32_t limit) { return static_cast<uint32_t>((*random)() % limit); };
    uint32_t nics = 1 + below(6), hosts = 1 + below(6), classes = 1 + below(4), slow_in = 1 + below(8);
    Connections all(count);
    for (auto &c : all) {
        c.own_nic = below(nics);
        c.peer_host = c.peer = below(hosts) * 0x9e3779b9u; // hashes in truth
        c.peer_nic = below(nics) * 0x85ebca6bu;
        c.size_class = 10 + below(classes);
        c.seconds_a_byte = below(8) == 0 ? 0 : 1e-9 * (1 + 0.02 * below(10)); // many are equal
        c.is_slow = below(slow_in) == 0;
        c.is_waiting = below(3) == 0;
        c.is_processor = below(5) == 0;
    }
    if (count && below(4) == 0)
        all[below(count)].seconds_a_byte = NAN;
    return all;
}

TEST(Judging, FindsWhatComparingEachWithAllOthersFinds)
{
    std::mt19937 random(11);
    uint32_t seen[DT_BLAME_COUNT] = {};
    for (uint32_t round = 0; round < 2000; round++) {
        Connections all = Random(&random, random() % 60), expected = all;
        Decide(&all);
        DecideQuadratically(&expected);
        for (size_t i = 0; i < all.size(); i++) {
            ASSERT_EQ(expected[i].blame, all[i].blame) << "round " << round << ", connection " << i;
            ASSERT_EQ(expected[i].class_median, all[i].class_median) << "round " << round;
            ASSERT_EQ(expected[i].of_median, all[i].of_median) << "round " << round;
            ASSERT_EQ(expected[i].is_suspicious, all[i].is_suspicious) << "round " << round;
            seen[all[i].blame]++;
        }
    }
    for (uint32_t blame = 0; blame < DT_BLAME_COUNT; blame++)
        EXPECT_GT(seen[blame], 100u) << dt_blame_text(static_cast<dt_blame>(blame));
}

TEST(Judging, VotesAsComparingEachWithAllOthersDoes)
{
    std::mt19937 random(12);
    for (uint32_t round = 0; round < 2000; round++) {
        std::vector<uint32_t> periods(random() % 40);
        for (auto &period : periods)
            period = static_cast<uint32_t>(random() % 5);
        std::vector<uint32_t> votes(5);
        for (uint32_t period : periods)
            votes[period]++;
        ASSERT_EQ(VoteQuadratically(periods), dt_period_vote(votes.data(), 5));
    }
}

// Sixteen times as many connections take 16 * 14 / 10 = 22 times the steps, for count * log(count); comparing
// each with all others takes 256 times as many. How many blocks a comparison has depends on the compiler and
// its sanitizers; the growth does not.
TEST(Judging, StepsGrowAsCountTimesLog)
{
    static const uint32_t few = 1000, many = 16 * few, growth = 64;
    std::mt19937 random(13);
    Connections a = Random(&random, few), b = Random(&random, many);
    uint64_t of_few = Decide(&a), of_many = Decide(&b);
    EXPECT_GT(of_few, few) << "the compiler counts";
    EXPECT_LT(of_many, growth * of_few);
    for (Connections *all : {&a, &b})
        for (auto &c : *all)
            c.is_slow = true;
    of_few = Decide(&a);
    EXPECT_LT(Decide(&b), growth * of_few) << "all slow";
}
} // namespace
