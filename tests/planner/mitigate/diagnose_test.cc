// SPDX-License-Identifier: Apache-2.0
// From the times of a validation to the slow links and ranks: a job with known slowness is timed, and the
// diagnosis must name exactly that.
#include "detour/mitigate.h"

#include <map>

#include "tests/planner/mitigate/passes_of.h"

using namespace mitigate_test;
using sched_test::Arena;

namespace
{
using Create = enum detour_status (*)(struct detour_arena *, int32_t, const struct detour_validation **,
                                      struct detour_error *);

/* What is slow in a job, in per mille of a healthy time; a message takes the longest of its link and ends. */
struct Job {
    std::map<Link, int> links;
    std::map<int32_t, int> networks;
    std::map<int32_t, int> computing;
    int64_t seed = 1;

    std::vector<int64_t> Time(const struct detour_validation *validation) const
    {
        std::vector<int64_t> times;
        for (int32_t k = 0; k < validation->pair_count; k++) {
            struct detour_rank_pair pair = validation->pairs[k];
            int permille = 1000;
            for (int32_t rank : {pair.from, pair.to})
                if (networks.count(rank))
                    permille = std::max(permille, networks.at(rank));
            if (links.count(LinkOf(pair.from, pair.to)))
                permille = std::max(permille, links.at(LinkOf(pair.from, pair.to)));
            times.push_back(permille * (980 + (7919 * k + 31 * seed) % 41)); /* 2 % of noise */
        }
        return times;
    }

    std::vector<int64_t> TimeComputing(int32_t ranks) const
    {
        std::vector<int64_t> times(static_cast<size_t>(ranks), 1000000);
        for (auto [rank, permille] : computing)
            times[static_cast<size_t>(rank)] = permille * 1000;
        return times;
    }
};

/* As "C5 N3 L1-2" for slow computing, networks and links; passes: of both validations. */
std::string Diagnose(const Job &job, const struct detour_validation *validation, int32_t *passes = nullptr)
{
    Arena arena;
    struct detour_error error = {};
    struct detour_diagnosis diagnosis = {};
    std::vector<int64_t> pair_ns = job.Time(validation),
                         compute_ns = job.TimeComputing(validation->rank_count);
    struct detour_validation_times times = {pair_ns.data(), compute_ns.data()};
    EXPECT_EQ(detour_diagnose(arena, validation, &times, nullptr, nullptr, nullptr, &diagnosis, &error),
              DETOUR_OK)
        << error.text;
    if (passes)
        *passes = validation->pass_count + (diagnosis.confirm ? diagnosis.confirm->pass_count : 0);
    if (diagnosis.confirm) {
        const struct detour_validation *confirm = diagnosis.confirm;
        CheckPasses(confirm);
        std::vector<int64_t> confirm_ns = job.Time(confirm);
        EXPECT_EQ(detour_diagnose(arena, validation, &times, confirm, confirm_ns.data(), nullptr, &diagnosis,
                                  &error),
                  DETOUR_OK)
            << error.text;
        EXPECT_EQ(diagnosis.confirm, nullptr);
    }
    std::set<Link> links;
    std::string text;
    for (int32_t k = 0; k < diagnosis.slow_count; k++) {
        const struct detour_slow &slow = diagnosis.slow[k];
        if (slow.kind == DETOUR_SLOW_LINK)
            links.insert(LinkOf(slow.rank, slow.peer));
        else
            text += (slow.kind == DETOUR_SLOW_COMPUTE ? " C" : " N") + std::to_string(slow.rank);
    }
    for (Link link : links)
        text += " L" + std::to_string(link.first) + "-" + std::to_string(link.second);
    return diagnosis.ambiguous ? text + " ambiguous" : text;
}

/* What Diagnose() must find: a slow link of a rank with a network that is at least as slow cannot be seen. */
std::string Expected(const Job &job)
{
    std::string text;
    for (auto [rank, permille] : job.computing)
        text += " C" + std::to_string(rank);
    for (auto [rank, permille] : job.networks)
        text += " N" + std::to_string(rank);
    for (auto [link, permille] : job.links) {
        int hidden = 0;
        for (int32_t rank : {link.first, link.second})
            hidden = std::max(hidden, job.networks.count(rank) ? job.networks.at(rank) : 0);
        if (permille > hidden)
            text += " L" + std::to_string(link.first) + "-" + std::to_string(link.second);
    }
    return text;
}

const struct detour_validation *Validate(struct detour_arena *arena, Create create, int32_t ranks)
{
    const struct detour_validation *validation = nullptr;
    EXPECT_EQ(create(arena, ranks, &validation, nullptr), DETOUR_OK);
    return validation;
}

constexpr int32_t kRanks = 1024;

class Diagnosis : public testing::TestWithParam<Create>
{
};
INSTANTIATE_TEST_SUITE_P(Validations, Diagnosis,
                         testing::Values(detour_validation_ring, detour_validation_double_tree),
                         [](const testing::TestParamInfo<Create> &validation) {
                             return validation.index ? "DoubleTree" : "Ring";
                         });

TEST_P(Diagnosis, EverySingleSlowLinkAndRankOf1024IsFound)
{
    Arena arena;
    const struct detour_validation *validation = Validate(arena, GetParam(), kRanks);
    EXPECT_EQ(Diagnose({}, validation), "");
    for (int32_t k = 0; k < validation->pair_count; k++) {
        Job job;
        job.links[LinkOf(validation->pairs[k].from, validation->pairs[k].to)] = 1500;
        EXPECT_EQ(Diagnose(job, validation), Expected(job));
    }
    for (int32_t rank = 0; rank < kRanks; rank++) {
        Job network, computing;
        int32_t passes = 0;
        network.networks[rank] = 2000;
        computing.computing[rank] = 1200;
        EXPECT_EQ(Diagnose(network, validation, &passes), Expected(network));
        EXPECT_EQ(passes, validation->pass_count + 1);
        if (rank % 16 == 0) { /* its test is the rank's own */
            EXPECT_EQ(Diagnose(computing, validation), Expected(computing));
        }
    }
}

/* Two slow things: `choose` of each kind. The first may be slower than the second, or the other way around.
 */
void MakeSlow(Job &job, const struct detour_validation *validation, uint64_t which, int permille)
{
    const auto pairs = static_cast<uint64_t>(validation->pair_count);
    const auto ranks = static_cast<uint64_t>(validation->rank_count);
    if (which < pairs)
        job.links[LinkOf(validation->pairs[which].from, validation->pairs[which].to)] = permille;
    else if (which < pairs + ranks)
        job.networks[static_cast<int32_t>(which - pairs)] = permille;
    else
        job.computing[static_cast<int32_t>(which - pairs - ranks)] = permille;
}

uint64_t Choices(const struct detour_validation *validation)
{
    return static_cast<uint64_t>(validation->pair_count) + 2 * static_cast<uint64_t>(validation->rank_count);
}

TEST_P(Diagnosis, EveryTwoSlowLinksAndRanksOf16AreFound)
{
    Arena arena;
    const struct detour_validation *validation = Validate(arena, GetParam(), 16);
    for (uint64_t a = 0; a < Choices(validation); a++)
        for (uint64_t b = 0; b < Choices(validation); b++) {
            Job job;
            MakeSlow(job, validation, a, 2000);
            MakeSlow(job, validation, b, 3000);
            EXPECT_EQ(Diagnose(job, validation), Expected(job)) << a << " " << b;
        }
}

TEST_P(Diagnosis, TwoSlowLinksAndRanksOf1024AreFoundNearEachOtherAndFarApart)
{
    struct dt_prng prng;
    Arena arena;
    const struct detour_validation *validation = Validate(arena, GetParam(), kRanks);
    dt_prng_init(&prng, 11);
    for (int round = 0; round < 1000; round++) {
        Job job;
        int32_t passes = 0;
        const uint64_t a = dt_prng_below(&prng, Choices(validation));
        const uint64_t b =
            round % 2 ? dt_prng_below(&prng, Choices(validation)) : (a + 1) % Choices(validation);
        job.seed = round;
        MakeSlow(job, validation, a, 1500);
        MakeSlow(job, validation, b, 2500);
        EXPECT_EQ(Diagnose(job, validation, &passes), Expected(job)) << a << " " << b;
        EXPECT_LE(passes, validation->pass_count + 1);
    }
}

TEST(DiagnosisOf, FactorsAreThoseOfTheReference)
{
    Arena arena;
    const struct detour_validation *validation = Validate(arena, detour_validation_ring, 4);
    const int64_t pair_ns[] = {1000, 1000, 1000, 2500}, compute_ns[] = {10, 10, 13, 10};
    const struct detour_validation_times times = {pair_ns, compute_ns};
    struct detour_diagnosis diagnosis = {};
    ASSERT_EQ(detour_diagnose(arena, validation, &times, nullptr, nullptr, nullptr, &diagnosis, nullptr),
              DETOUR_OK);
    ASSERT_EQ(diagnosis.slow_count, 2);
    EXPECT_EQ(diagnosis.slow[0].kind, DETOUR_SLOW_COMPUTE);
    EXPECT_EQ(diagnosis.slow[0].factor_permille, 1300);
    EXPECT_EQ(diagnosis.slow[1].kind, DETOUR_SLOW_LINK);
    EXPECT_EQ(diagnosis.slow[1].factor_permille, 2500);
}

TEST(DiagnosisOf, ThresholdIsTenPercentAndMayBeChosen)
{
    Arena arena;
    const struct detour_validation *validation = Validate(arena, detour_validation_ring, 6);
    const int64_t pair_ns[] = {1000, 1100, 1000, 1000, 1101, 1000};
    const struct detour_validation_times times = {pair_ns, nullptr};
    struct detour_diagnose_options options = {};
    struct detour_diagnosis diagnosis = {};
    ASSERT_EQ(detour_diagnose(arena, validation, &times, nullptr, nullptr, nullptr, &diagnosis, nullptr),
              DETOUR_OK);
    EXPECT_EQ(diagnosis.slow_count, 1);
    options.threshold_permille = 1000;
    ASSERT_EQ(detour_diagnose(arena, validation, &times, nullptr, nullptr, &options, &diagnosis, nullptr),
              DETOUR_OK);
    EXPECT_EQ(diagnosis.slow_count, 2);
    options = {0, 500,
               0}; /* a reference from before: everything is slow, and there is nothing to confirm with */
    ASSERT_EQ(detour_diagnose(arena, validation, &times, nullptr, nullptr, &options, &diagnosis, nullptr),
              DETOUR_OK);
    EXPECT_EQ(diagnosis.slow_count, 6);
    EXPECT_TRUE(diagnosis.ambiguous);
    EXPECT_EQ(diagnosis.confirm, nullptr);
}

TEST(DiagnosisOf, BadTimesAndPairsAreRefused)
{
    Arena arena;
    const struct detour_validation *ring = Validate(arena, detour_validation_ring, 4);
    int64_t pair_ns[] = {1, 1, 0, 1};
    struct detour_validation_times times = {pair_ns, nullptr};
    struct detour_diagnosis diagnosis = {};
    struct detour_error error = {};
    auto refuse = [&](const struct detour_validation *validation, const struct detour_validation *confirm,
                      const struct detour_diagnose_options *options = nullptr) {
        EXPECT_EQ(detour_diagnose(arena, validation, &times, confirm, pair_ns, options, &diagnosis, &error),
                  DETOUR_INVALID);
        return std::string(error.text);
    };
    EXPECT_EQ(refuse(ring, nullptr), "pair_ns[2] is 0; it must be from 1 to 100000000000");
    pair_ns[2] = DETOUR_TIME_MAX_NS;
    struct detour_rank_pair pairs[] = {{0, 4}};
    const int32_t first[] = {0, 1};
    struct detour_validation odd = {4, 1, 1, first, pairs};
    EXPECT_EQ(refuse(&odd, nullptr), "validation: pairs[0] is 0-4; it must be two ranks from 0 to 3");
    EXPECT_EQ(refuse(ring, &odd), "confirm: pairs[0] is 0-4; it must be two ranks from 0 to 3");
    odd.rank_count = 1;
    EXPECT_EQ(refuse(&odd, nullptr),
              "validation has 1 ranks and 1 pairs; it must be a validation of 2 to 65536 ranks");
    const struct detour_diagnose_options negative = {-1, 0, 0};
    EXPECT_EQ(refuse(ring, nullptr, &negative), "a threshold or a reference is negative");
    EXPECT_EQ(diagnosis.slow, nullptr);
}
} // namespace
