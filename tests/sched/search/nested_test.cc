// SPDX-License-Identifier: Apache-2.0
// Bounds from problems with fewer microbatches: never above the optimum, which brute force or branch and
// bound without them finds, and of use where memory is tight.
#include <cstdio>

#include "tests/sched/brute_force.h"
#include "tests/sched/family.h"
#include "tests/sched/search/one_search.h"

using namespace sched_test;

namespace
{
/* -1 if it takes more nodes than that. */
int64_t Optimum(const struct detour_profile *profile, uint64_t nodes)
{
    Search s(profile, nodes);
    EXPECT_EQ(dt_beam_widening(&s.search, nodes / 4), DETOUR_OK);
    EXPECT_EQ(dt_branch_raising(&s.search, nodes), DETOUR_OK);
    return dt_search_is_closed(&s.search) ? s.search.best_ns : -1;
}
} // namespace

TEST(Nested, BruteForceAgreesOnTinyProblems)
{
    int compared = 0;
    struct dt_prng prng;
    printf("seed 12\n");
    dt_prng_init(&prng, 12);
    for (int round = 0; round < 600 && !testing::Test::HasFailure(); round++) {
        Profile profile = TinyProfile(&prng);
        SCOPED_TRACE("round " + std::to_string(round) + ": " + Describe(profile));
        if (profile.microbatches < 2 || detour_profile_check(profile.get(), nullptr))
            continue;
        int64_t best_ns = BruteForce(profile, 5000);
        if (best_ns < 0)
            continue;
        Search s(profile.get(), 5000);
        EXPECT_EQ(dt_nested_bounds(&s.search, 5000), DETOUR_OK);
        EXPECT_LE(s.search.lower_ns, best_ns);
        EXPECT_EQ(dt_branch_raising(&s.search, UINT64_MAX), DETOUR_OK);
        EXPECT_LE(s.search.lower_ns, best_ns);
        compared++;
    }
    printf("%d compared\n", compared);
    EXPECT_GT(compared, 100);
}

/* Stages with limits of their own, several on a device, links that take one message at a time. */
TEST(Nested, NeverAboveTheOptimum)
{
    int compared = 0, raised = 0;
    struct dt_prng prng;
    printf("seed 13\n");
    dt_prng_init(&prng, 13);
    for (int round = 0; round < 240 && !testing::Test::HasFailure(); round++) {
        struct family_problem problem;
        struct detour_profile &profile = problem.profile;
        int32_t stages = static_cast<int32_t>(dt_prng_between(&prng, 2, 4));
        int32_t microbatches = static_cast<int32_t>(dt_prng_between(&prng, 5, 10));
        family_make(&problem, round % FAMILY_COUNT, 1000 + static_cast<uint64_t>(round), stages,
                    microbatches);
        for (int32_t i = 0; i < stages; i++) {
            if (dt_prng_chance(&prng, 1, 3))
                problem.stages[i].max_inflight = static_cast<int32_t>(dt_prng_between(&prng, 1, 4));
            if (dt_prng_chance(&prng, 1, 4))
                problem.links[i].forward_serial_ns = problem.stages[i].f_ns;
        }
        if (dt_prng_chance(&prng, 1, 4)) {
            problem.stages[stages - 1].device = 0;
            profile.device_count--;
        }
        SCOPED_TRACE("round " + std::to_string(round));
        Search s(&profile, 6000);
        int64_t root_ns = s.search.lower_ns;
        EXPECT_EQ(dt_nested_bounds(&s.search, 6000), DETOUR_OK);
        EXPECT_LE(s.call.node_count, 6000u);
        int64_t best_ns = Optimum(&profile, 40000);
        if (best_ns < 0)
            continue;
        compared++;
        raised += s.search.lower_ns > root_ns;
        EXPECT_LE(s.search.lower_ns, best_ns);
        for (int32_t n = 1; n < microbatches; n++) {
            profile.microbatch_count = n;
            int64_t smaller_ns = Optimum(&profile, 40000);
            if (smaller_ns >= 0) {
                EXPECT_LE(s.search.least_ns[n], smaller_ns) << n << " microbatches";
            }
        }
    }
    printf("%d compared, %d raised\n", compared, raised);
    EXPECT_GT(compared, 60);
    EXPECT_GT(raised, 5);
}
