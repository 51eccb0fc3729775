// SPDX-License-Identifier: Apache-2.0
// Validations: every link of the ring and of NCCL's double tree once, in disjoint pairs, in a constant number
// of passes.
#include "detour/mitigate.h"

#include "tests/planner/mitigate/passes_of.h"

using namespace mitigate_test;
using sched_test::Arena;

namespace
{
TEST(Validation, RingTakesTwoOrThreePassesWhateverItsSize)
{
    for (int32_t ranks = 2; ranks <= 1025; ranks = ranks < 40 ? ranks + 1 : ranks + 329 / 2) {
        Arena arena;
        const struct detour_validation *validation = nullptr;
        ASSERT_EQ(detour_validation_ring(arena, ranks, &validation, nullptr), DETOUR_OK);
        std::set<Link> ring;
        for (int32_t rank = 0; rank < ranks; rank++)
            ring.insert(LinkOf(rank, (rank + 1) % ranks));
        EXPECT_EQ(CheckPasses(validation), ring) << ranks;
        EXPECT_EQ(validation->pass_count, ranks % 2 ? 3 : 2) << ranks;
        EXPECT_EQ(validation->pair_count, ranks);
        for (int32_t k = 0; k < ranks; k++) // data goes around the ring
            EXPECT_EQ(validation->pairs[k].to, (validation->pairs[k].from + 1) % ranks);
    }
}

/* ncclGetBtree() and ncclGetDtree() of NCCL's graph/trees.cc, from the top down: a rank's children. */
void AddTree(std::set<Link> &links, int32_t ranks, bool second)
{
    auto name = [&](int32_t rank) {
        return !second ? rank : ranks % 2 ? (rank + 1) % ranks : ranks - 1 - rank;
    };
    for (int32_t rank = 0; rank < ranks; rank++) {
        int32_t bit = 1;
        while (bit < ranks && !(bit & rank))
            bit <<= 1;
        if (rank == 0) {
            if (ranks > 1)
                links.insert(LinkOf(name(0), name(bit >> 1)));
            continue;
        }
        const int32_t low = bit >> 1;
        if (low)
            links.insert(LinkOf(name(rank), name(rank - low)));
        int32_t reach = low;
        while (reach && rank + reach >= ranks)
            reach >>= 1;
        if (reach)
            links.insert(LinkOf(name(rank), name(rank + reach)));
    }
}

TEST(Validation, DoubleTreeTakesFourPassesWhateverItsSize)
{
    for (int32_t ranks = 2; ranks <= 1024; ranks = ranks < 300 ? ranks + 1 : ranks + 181) {
        Arena arena;
        const struct detour_validation *validation = nullptr;
        ASSERT_EQ(detour_validation_double_tree(arena, ranks, &validation, nullptr), DETOUR_OK);
        std::set<Link> trees;
        AddTree(trees, ranks, false);
        AddTree(trees, ranks, true);
        EXPECT_EQ(CheckPasses(validation), trees) << ranks;
        EXPECT_EQ(static_cast<size_t>(validation->pair_count), trees.size()) << ranks;
        EXPECT_LE(validation->pass_count, 4) << ranks;
        EXPECT_TRUE(ranks < 5 || validation->pass_count == 4) << ranks;
    }
}

TEST(Validation, LargestNumberOfRanksTakesFourPassesToo)
{
    Arena arena;
    for (int32_t ranks : {DETOUR_RANKS_MAX, DETOUR_RANKS_MAX - 1}) {
        const struct detour_validation *validation = nullptr;
        ASSERT_EQ(detour_validation_double_tree(arena, ranks, &validation, nullptr), DETOUR_OK);
        EXPECT_EQ(validation->pass_count, 4);
        EXPECT_GE(CheckPasses(validation).size(), static_cast<size_t>(ranks - 1));
    }
}

TEST(Validation, NumbersOfRanksOutsideTheLimitsAreRefused)
{
    Arena arena;
    const struct detour_validation *validation = nullptr;
    struct detour_error error = {};
    EXPECT_EQ(detour_validation_ring(arena, 1, &validation, &error), DETOUR_INVALID);
    EXPECT_STREQ(error.text, "rank_count is 1; a validation needs at least 2 ranks");
    EXPECT_EQ(detour_validation_double_tree(arena, -4, &validation, &error), DETOUR_INVALID);
    EXPECT_EQ(detour_validation_double_tree(arena, DETOUR_RANKS_MAX + 1, &validation, &error), DETOUR_LIMIT);
    EXPECT_STREQ(error.text, "rank_count is 65537; at most 65536 are possible");
    EXPECT_EQ(validation, nullptr);
}

/* The links of the job, and how many passes they take. */
int32_t PassesOfJob(int32_t replicas, int32_t stages, const std::vector<int32_t> &nodes,
                    std::set<Link> *links)
{
    Arena arena;
    const struct detour_validation *validation = nullptr;
    const std::vector<int64_t> stage_ns(stages, 1000);
    struct detour_cluster cluster = {};
    cluster.name = "job";
    cluster.replica_count = cluster.microbatch_count = replicas;
    cluster.stage_count = stages;
    cluster.stage_ns = stage_ns.data();
    EXPECT_EQ(
        detour_validation_job(arena, &cluster, nodes.empty() ? nullptr : nodes.data(), &validation, nullptr),
        DETOUR_OK);
    *links = CheckPasses(validation);
    return validation->pass_count;
}

TEST(Validation, EveryLinkOfAJobTakesAtMostFivePassesWhateverItsSize)
{
    for (int32_t replicas = 1; replicas <= 128; replicas = replicas < 9 ? replicas + 1 : replicas * 2 - 1) {
        for (int32_t stages = replicas > 1 ? 1 : 2; stages <= 32;
             stages = stages < 6 ? stages + 1 : stages * 2) {
            std::set<Link> links, expected;
            int32_t passes = PassesOfJob(replicas, stages, {}, &links);
            for (int32_t i = 0; i < replicas * stages; i++) {
                if (i % stages + 1 < stages)
                    expected.insert(LinkOf(i, i + 1));
                if (replicas > 1)
                    expected.insert(LinkOf(i, (i + stages) % (replicas * stages)));
            }
            EXPECT_EQ(links, expected) << replicas << " " << stages;
            EXPECT_LE(passes, 5) << replicas << " " << stages;
        }
    }
}

TEST(Validation, LinksOfAJobFollowItsNodes)
{
    std::set<Link> links;
    EXPECT_EQ(PassesOfJob(2, 2, {2, 1, 0, 3}, &links), 2);
    EXPECT_EQ(links, (std::set<Link>{LinkOf(2, 1), LinkOf(0, 3), LinkOf(2, 0), LinkOf(1, 3)}));
}

TEST(Validation, NodesThatAreNoneAreRefused)
{
    Arena arena;
    const struct detour_validation *validation = nullptr;
    const int64_t stage_ns[2] = {1000, 1000};
    const int32_t nodes[4] = {0, 1, 1, 3};
    struct detour_cluster cluster = {};
    struct detour_error error = {};
    cluster.name = "job";
    cluster.replica_count = cluster.microbatch_count = cluster.stage_count = 2;
    cluster.stage_ns = stage_ns;
    EXPECT_EQ(detour_validation_job(arena, &cluster, nodes, &validation, &error), DETOUR_INVALID);
    cluster.replica_count = cluster.stage_count = 1;
    EXPECT_EQ(detour_validation_job(arena, &cluster, nullptr, &validation, &error), DETOUR_INVALID);
    EXPECT_STREQ(error.text, "rank_count is 1; a validation needs at least 2 ranks");
}

TEST(Validation, AStarNeedsMorePassesThanThereAre)
{
    Arena arena;
    const struct detour_validation *validation = nullptr;
    struct detour_error error = {};
    std::vector<struct detour_rank_pair> links;
    for (int32_t rank = 1; rank <= 9; rank++)
        links.push_back({0, rank});
    EXPECT_EQ(detour_validation_links(arena, 10, links.data(), 8, &validation, &error), DETOUR_OK);
    EXPECT_EQ(validation->pass_count, 8);
    EXPECT_EQ(detour_validation_links(arena, 10, links.data(), 9, &validation, &error), DETOUR_UNSUPPORTED);
}
} // namespace
