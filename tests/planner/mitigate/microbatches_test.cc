// SPDX-License-Identifier: Apache-2.0
// S2 against every assignment of small cases, and what must hold for large ones.
#include "detour/mitigate.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "tests/sched/sched_test.h"

using sched_test::Arena;

namespace
{
using Replicas = std::vector<struct detour_replica>;

struct Assigned {
    std::vector<int32_t> counts;
    std::vector<double> weights;
    int64_t time_ns = 0;
};

Assigned Assign(const Replicas &replicas, int32_t microbatches)
{
    Arena arena;
    struct detour_error error = {};
    struct detour_microbatches assigned = {};
    EXPECT_EQ(detour_microbatches_assign(arena, replicas.data(), static_cast<int32_t>(replicas.size()),
                                         microbatches, &assigned, &error),
              DETOUR_OK)
        << error.text;
    if (!assigned.counts)
        return {};
    return {{assigned.counts, assigned.counts + replicas.size()},
            {assigned.weights, assigned.weights + replicas.size()},
            assigned.time_ns};
}

int64_t Slowest(const Replicas &replicas, const std::vector<int32_t> &counts)
{
    int64_t slowest_ns = 0;
    for (size_t r = 0; r < replicas.size(); r++)
        slowest_ns = std::max(slowest_ns, replicas[r].fixed_ns + counts[r] * replicas[r].microbatch_ns);
    return slowest_ns;
}

/* The slowest replica of the best of every assignment. */
int64_t BruteForce(const Replicas &replicas, int32_t microbatches)
{
    std::vector<int32_t> counts(replicas.size(), 1);
    int64_t best_ns = INT64_MAX;
    std::function<void(size_t, int32_t)> assign = [&](size_t r, int32_t left) {
        if (r + 1 == replicas.size()) {
            counts[r] = left;
            best_ns = std::min(best_ns, Slowest(replicas, counts));
            return;
        }
        for (counts[r] = 1; left - counts[r] >= static_cast<int32_t>(replicas.size() - r - 1); counts[r]++)
            assign(r + 1, left - counts[r]);
    };
    assign(0, microbatches);
    return best_ns;
}

TEST(Microbatches, WhereTheLeastSumOfSquaresIsWorse)
{
    const Assigned made = Assign({{2, 0}, {5, 0}, {10, 0}}, 12);
    EXPECT_EQ(made.counts, (std::vector<int32_t>{8, 3, 1}));
    EXPECT_EQ(made.time_ns, 16);
}

TEST(Microbatches, SmallCasesAreTheOptimumOfEveryAssignment)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 3);
    for (int round = 0; round < 4000; round++) {
        const size_t count = 1 + dt_prng_below(&prng, 4);
        const auto microbatches = static_cast<int32_t>(count + dt_prng_below(&prng, 13 - count));
        Replicas replicas;
        for (size_t r = 0; r < count; r++)
            replicas.push_back({static_cast<int64_t>(1 + dt_prng_below(&prng, round % 2 ? 11 : 3)),
                                static_cast<int64_t>(round % 3 ? dt_prng_below(&prng, 40) : 0)});
        const Assigned made = Assign(replicas, microbatches);
        EXPECT_EQ(std::accumulate(made.counts.begin(), made.counts.end(), 0), microbatches);
        EXPECT_EQ(made.time_ns, Slowest(replicas, made.counts));
        EXPECT_EQ(made.time_ns, BruteForce(replicas, microbatches)) << "round " << round;
    }
}

/* No microbatch can move to another replica and end earlier there than where it was: with loads that grow
 * with each microbatch, this alone is the optimum. */
void ExpectOptimal(const Replicas &replicas, const Assigned &made, int32_t microbatches)
{
    int64_t next_ns = INT64_MAX, sum = 0;
    for (size_t r = 0; r < replicas.size(); r++) {
        sum += made.counts[r];
        EXPECT_GE(made.counts[r], 1);
        next_ns = std::min(next_ns, replicas[r].fixed_ns + (made.counts[r] + 1) * replicas[r].microbatch_ns);
    }
    EXPECT_EQ(sum, microbatches);
    for (size_t r = 0; r < replicas.size(); r++)
        EXPECT_TRUE(made.counts[r] == 1 ||
                    replicas[r].fixed_ns + made.counts[r] * replicas[r].microbatch_ns <= next_ns)
            << r;
}

TEST(Microbatches, LargeCasesHaveNoMicrobatchThatShouldMove)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 4);
    for (int32_t microbatches : {512, 513, 4096, 65536, DETOUR_CELLS_MAX}) {
        Replicas replicas;
        for (int r = 0; r < 512; r++)
            replicas.push_back({static_cast<int64_t>(dt_prng_between(&prng, 90000000, 250000000)),
                                static_cast<int64_t>(dt_prng_below(&prng, 900000000))});
        ExpectOptimal(replicas, Assign(replicas, microbatches), microbatches);
    }
}

/* FALCON's table 6; docs/mitigate.md has its instructions. */
TEST(Microbatches, FiveHundredAndTwelveGroups)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 6);
    Replicas replicas;
    for (int r = 0; r < 512; r++)
        replicas.push_back({static_cast<int64_t>(dt_prng_between(&prng, 90000000, 250000000)), 0});
    ExpectOptimal(replicas, Assign(replicas, 4096), 4096);
}

TEST(Microbatches, ExtremesOfTimesDoNotOverflow)
{
    const int64_t longest = DETOUR_TIME_MAX_NS, fixed = DETOUR_TIME_MAX_NS * DETOUR_STAGES_MAX;
    for (const Replicas &replicas :
         {Replicas{{1, 0}, {longest, fixed}}, Replicas{{longest, fixed}, {longest, fixed}},
          Replicas{{1, fixed}, {1, 0}, {longest, 0}}, Replicas(DETOUR_REPLICAS_MAX, {longest, 0})}) {
        ExpectOptimal(replicas, Assign(replicas, DETOUR_CELLS_MAX), DETOUR_CELLS_MAX);
        const auto least = static_cast<int32_t>(replicas.size());
        ExpectOptimal(replicas, Assign(replicas, least), least);
    }
}

TEST(Microbatches, WeightedMeansOfGradientsAreTheMeanOfAllMicrobatches)
{
    const Replicas replicas = {{10, 0}, {20, 0}, {10, 0}, {40, 0}};
    const Assigned made = Assign(replicas, 64); /* a power of two: all fractions below are exact */
    double next = 1, sum = 0, weighted = 0, weights = 0;
    for (size_t r = 0; r < replicas.size(); r++) {
        double of_replica = 0;
        for (int32_t m = 0; m < made.counts[r]; m++)
            of_replica += next++;
        sum += of_replica;
        weights += made.weights[r];
        EXPECT_EQ(made.weights[r], made.counts[r] / 64.0);
        weighted += made.weights[r] * (of_replica / made.counts[r]);
    }
    EXPECT_EQ(weights, 1);
    EXPECT_NEAR(weighted, sum / 64, 1e-12);
}

TEST(Microbatches, BadInputIsRefused)
{
    Arena arena;
    struct detour_microbatches assigned = {};
    struct detour_error error = {};
    auto refuse = [&](const Replicas &replicas, int32_t microbatches) {
        EXPECT_NE(detour_microbatches_assign(arena, replicas.data(), static_cast<int32_t>(replicas.size()),
                                             microbatches, &assigned, &error),
                  DETOUR_OK);
        return std::string(error.text);
    };
    EXPECT_EQ(refuse({}, 4), "replica_count is 0; it must be from 1 to 4096");
    EXPECT_EQ(refuse({{1, 0}, {1, 0}}, 1),
              "microbatch_count is 1 for 2 replicas; every replica needs at least one microbatch");
    EXPECT_EQ(refuse({{1, 0}}, DETOUR_CELLS_MAX + 1),
              "microbatch_count is 2097153; at most 2097152 are possible");
    EXPECT_EQ(refuse({{1, 0}, {0, 0}}, 4),
              "replicas[1].microbatch_ns is 0; it must be from 1 to 100000000000");
    EXPECT_EQ(refuse({{1, -1}}, 4), "replicas[0].fixed_ns is -1; it must be from 0 to 409600000000000");
    EXPECT_EQ(assigned.counts, nullptr);
}
} // namespace
