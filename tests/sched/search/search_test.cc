// SPDX-License-Identifier: Apache-2.0
// The algorithms that search: lower bound, beam, exact and auto. DETOUR_SCHED_ROUNDS=100000 makes the
// comparison with brute force a long run, DETOUR_SCHED_SEED another one.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/harness/harness.h"
#include "tests/sched/brute_force.h"
#include "tests/sched/family.h"

using namespace sched_test;

namespace
{
uint64_t FromEnvironment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, nullptr, 10) : otherwise;
}

struct detour_options Nodes(uint64_t nodes)
{
    struct detour_options options = {};
    options.node_budget = nodes;
    return options;
}

int64_t LowerBound(const struct detour_profile *profile)
{
    Arena arena;
    struct detour_error error = {};
    int64_t lower_ns = -1;
    EXPECT_EQ(detour_lower_bound(arena, profile, &lower_ns, &error), DETOUR_OK) << error.text;
    return lower_ns;
}

/* What every result of a search promises. */
void CheckPlan(const struct detour_profile *profile, const struct detour_plan *plan)
{
    Arena arena;
    struct detour_error error = {};
    struct detour_report *report = nullptr;
    EXPECT_EQ(detour_validate(arena, profile, plan->schedule, &error), DETOUR_OK) << error.text;
    ASSERT_EQ(detour_simulate(arena, profile, plan->schedule, &report, &error), DETOUR_OK) << error.text;
    EXPECT_EQ(plan->makespan_ns, report->makespan_ns);
    EXPECT_EQ(plan->longest_span_ns, report->longest_span_ns);
    EXPECT_LE(plan->lower_bound_ns, plan->makespan_ns);
    EXPECT_LE(LowerBound(profile), plan->lower_bound_ns);
    EXPECT_EQ(plan->proven_optimal, plan->lower_bound_ns == plan->makespan_ns);
}

struct detour_plan *Plan(struct detour_arena *arena, const struct detour_profile *profile,
                         enum detour_algorithm algorithm, struct detour_options options = {})
{
    struct detour_plan *plan = nullptr;
    struct detour_error error = {};
    options.algorithm = algorithm;
    EXPECT_EQ(detour_generate(arena, profile, &options, &plan, &error), DETOUR_OK) << error.text;
    return plan;
}

} // namespace

/* Exact is exact, bounds are bounds, and FIFO order of the microbatches loses nothing. */
TEST(Search, BruteForceAgreesOnTinyProblems)
{
    struct dt_prng prng;
    int compared = 0, proven = 0, fit = 0;
    uint64_t seed = FromEnvironment("DETOUR_SCHED_SEED", 20240901);
    uint64_t rounds = FromEnvironment("DETOUR_SCHED_ROUNDS", 500);
    dt_prng_init(&prng, seed);
    printf("seed %llu\n", static_cast<unsigned long long>(seed));
    for (uint64_t round = 0; round < rounds && !testing::Test::HasFailure(); round++) {
        Profile profile = TinyProfile(&prng);
        SCOPED_TRACE("round " + std::to_string(round) + ": " + Describe(profile));
        if (detour_profile_check(profile.get(), nullptr))
            continue;
        fit++;
        Arena arena;
        struct detour_plan *exact = Plan(arena, profile.get(), DETOUR_ALGORITHM_EXACT, Nodes(100000));
        struct detour_plan *beam = Plan(arena, profile.get(), DETOUR_ALGORITHM_BEAM, Nodes(200));
        ASSERT_TRUE(exact && beam);
        CheckPlan(profile.get(), exact);
        CheckPlan(profile.get(), beam);
        int64_t best_ns = BruteForce(profile, 5000);
        if (best_ns < 0)
            continue;
        compared++;
        proven += exact->proven_optimal;
        EXPECT_LE(LowerBound(profile.get()), best_ns);
        EXPECT_LE(exact->lower_bound_ns, best_ns);
        EXPECT_GE(exact->makespan_ns, best_ns);
        EXPECT_GE(beam->makespan_ns, best_ns);
        if (exact->proven_optimal) {
            EXPECT_EQ(exact->makespan_ns, best_ns);
        }
    }
    printf("%d problems, %d compared, %d proven\n", fit, compared, proven);
    EXPECT_GT(compared, fit / 3);
    EXPECT_GT(proven, compared * 95 / 100);
}

/* The examples of the ADAPTRA paper: four stages, 12 microbatches, 10 ms each, the first link late. */
TEST(Search, ProvesTheAnchors)
{
    struct Anchor {
        int64_t delay_ms;
        std::vector<int32_t> limits;
        int64_t makespan_ms;
    } anchors[] = {
        {0, {}, 390},
        {10, {}, 400},
        {20, {}, 410},
        {30, {}, 420},
        {40, {}, 430},
        {0, {7, 5, 3, 1}, 390},
        {10, {7, 5, 3, 1}, 400},
        {20, {7, 5, 3, 1}, 410},
        {30, {7, 5, 3, 1}, 420},
        {40, {7, 5, 3, 1}, 440},
    };
    for (const Anchor &anchor : anchors) {
        SCOPED_TRACE(std::to_string(anchor.delay_ms) + " ms, limits " + std::to_string(anchor.limits.size()));
        Profile profile = Profile::Uniform(4, 12, 10 * kMs, 10 * kMs, 10 * kMs);
        profile.Delay(0, anchor.delay_ms * kMs).MaxInflight(anchor.limits);
        for (enum detour_algorithm algorithm : {DETOUR_ALGORITHM_AUTO, DETOUR_ALGORITHM_EXACT}) {
            Arena arena;
            struct detour_plan *plan = Plan(arena, profile.get(), algorithm);
            ASSERT_NE(plan, nullptr);
            CheckPlan(profile.get(), plan);
            EXPECT_EQ(plan->makespan_ns, anchor.makespan_ms * kMs);
            EXPECT_TRUE(plan->proven_optimal);
        }
    }
}

/* A W that takes no time is offered ahead of what starts at the same moment, and must not rule that out. */
TEST(Search, AnEmptyStageHidesNoSchedule)
{
    Arena arena;
    Profile profile = Profile::Uniform(3, 2, 0, 0, 0);
    profile.stages[0].f_ns = 10, profile.stages[0].b_ns = 12, profile.stages[0].w_ns = 9;
    profile.stages[1].f_ns = 9, profile.stages[1].b_ns = 7, profile.stages[1].w_ns = 3;
    profile.stages[2].device = 1;

    struct detour_plan *plan = Plan(arena, profile.get(), DETOUR_ALGORITHM_EXACT);
    CheckPlan(profile.get(), plan);
    EXPECT_EQ(plan->makespan_ns, 68); // as adaptra's is, and the bound
    EXPECT_TRUE(plan->proven_optimal);
}

TEST(Search, AutoIsNeverWorseThanAnyOther)
{
    int closed = 0, total = 0;
    for (uint64_t seed = 1; seed <= 15; seed++) {
        for (int limit = 0; limit < FAMILY_COUNT; limit++) {
            struct family_problem problem;
            family_make(&problem, limit, seed, 0, 0);
            SCOPED_TRACE(std::string(family_name(limit)) + ", seed " + std::to_string(seed));
            Arena arena;
            struct detour_plan *best = Plan(arena, &problem.profile, DETOUR_ALGORITHM_AUTO, Nodes(2000));
            ASSERT_NE(best, nullptr);
            CheckPlan(&problem.profile, best);
            total++;
            closed += best->proven_optimal;
            for (int k = 0; k < DETOUR_ALGORITHM_COUNT; k++) {
                Arena other_arena;
                struct detour_plan *other = nullptr;
                struct detour_options options = Nodes(100);
                options.algorithm = static_cast<enum detour_algorithm>(k);
                if (!detour_algorithm_name(options.algorithm) ||
                    detour_generate(other_arena, &problem.profile, &options, &other, nullptr))
                    continue;
                EXPECT_LE(best->makespan_ns, other->makespan_ns) << detour_algorithm_name(options.algorithm);
                EXPECT_LE(best->lower_bound_ns, other->makespan_ns)
                    << detour_algorithm_name(options.algorithm);
            }
        }
    }
    printf("%d of %d proven optimal with 2000 nodes\n", closed, total);
}

/* Larger budgets are used, small ones are kept, and any is enough for a schedule. */
TEST(Search, KeepsItsBudget)
{
    struct family_problem problem;
    family_make(&problem, FAMILY_ONCE, 9, 5, 20);
    for (enum detour_algorithm algorithm :
         {DETOUR_ALGORITHM_BEAM, DETOUR_ALGORITHM_EXACT, DETOUR_ALGORITHM_AUTO}) {
        int64_t before_ns = INT64_MAX;
        for (uint64_t nodes : {1, 2, 10, 100, 1000, 20000}) {
            SCOPED_TRACE(std::string(detour_algorithm_name(algorithm)) + ", " + std::to_string(nodes));
            Arena arena;
            struct detour_plan *plan = Plan(arena, &problem.profile, algorithm, Nodes(nodes));
            ASSERT_NE(plan, nullptr);
            CheckPlan(&problem.profile, plan);
            EXPECT_LE(plan->nodes, nodes);
            if (!plan->proven_optimal) {
                EXPECT_GT(plan->nodes, nodes / 4);
            }
            before_ns = std::min(before_ns, plan->makespan_ns);
        }
        EXPECT_LT(before_ns, INT64_MAX);
    }
}

TEST(Search, StopsOnRequest)
{
    struct Stop {
        int calls;
        int allowed;
    };
    struct family_problem problem;
    family_make(&problem, FAMILY_RELEASE_W, 9, 6, 24);
    for (enum detour_algorithm algorithm :
         {DETOUR_ALGORITHM_BEAM, DETOUR_ALGORITHM_EXACT, DETOUR_ALGORITHM_AUTO}) {
        for (int allowed : {0, 1, 7}) {
            SCOPED_TRACE(std::string(detour_algorithm_name(algorithm)) + ", " + std::to_string(allowed));
            Stop stop = {0, allowed};
            Arena arena;
            struct detour_options options = Nodes(100000000);
            options.should_stop_arg = &stop;
            options.should_stop = [](void *arg) {
                Stop *s = static_cast<Stop *>(arg);
                return s->calls++ >= s->allowed;
            };
            struct detour_plan *plan = Plan(arena, &problem.profile, algorithm, options);
            ASSERT_NE(plan, nullptr);
            CheckPlan(&problem.profile, plan);
            EXPECT_EQ(stop.calls, allowed + 1);
            EXPECT_LE(plan->nodes, 1000 * static_cast<uint64_t>(allowed + 1) + 1000);
        }
    }
}

TEST(Search, RefusesANegativeWidth)
{
    struct family_problem problem;
    family_make(&problem, FAMILY_NO_LIMIT, 1, 3, 6);
    struct detour_options options = {};
    struct detour_plan *plan = nullptr;
    struct detour_error error = {};
    Arena arena;
    options.algorithm = DETOUR_ALGORITHM_BEAM;
    options.beam_width = -1;
    EXPECT_EQ(detour_generate(arena, &problem.profile, &options, &plan, &error), DETOUR_INVALID);
    EXPECT_STREQ(error.text, "beam_width is -1; it must not be negative");
    EXPECT_EQ(plan, nullptr);
}

/* The same from a fresh arena, from a used one, and on several threads at once. */
TEST(Search, SameInputSameBits)
{
    struct family_problem problem;
    family_make(&problem, FAMILY_ONCE, 39, 5, 12);
    auto plan_bytes = [&problem](struct detour_arena *arena, enum detour_algorithm algorithm) {
        struct detour_plan *plan = Plan(arena, &problem.profile, algorithm, Nodes(5000));
        std::string bytes(reinterpret_cast<const char *>(plan->schedule->ops),
                          plan->schedule->op_count * sizeof(*plan->schedule->ops));
        return bytes + std::to_string(plan->lower_bound_ns) + " " + std::to_string(plan->nodes);
    };
    for (enum detour_algorithm algorithm :
         {DETOUR_ALGORITHM_BEAM, DETOUR_ALGORITHM_EXACT, DETOUR_ALGORITHM_AUTO}) {
        Arena arena;
        std::string expected = plan_bytes(arena, algorithm), found[3];
        EXPECT_EQ(plan_bytes(arena, algorithm), expected);
        detour_arena_reset(arena);
        EXPECT_EQ(plan_bytes(arena, algorithm), expected);
        std::vector<std::thread> threads;
        for (std::string &bytes : found)
            threads.emplace_back([&bytes, &plan_bytes, algorithm] {
                Arena own;
                bytes = plan_bytes(own, algorithm);
            });
        for (std::thread &thread : threads)
            thread.join();
        for (const std::string &bytes : found)
            EXPECT_EQ(bytes, expected);
    }
}

/* Whichever allocation fails: an error or a schedule, never anything else. */
TEST(Search, SurvivesMissingMemory)
{
    struct family_problem problem;
    family_make(&problem, FAMILY_ONCE, 8, 8, 15);
    for (enum detour_algorithm algorithm :
         {DETOUR_ALGORITHM_BEAM, DETOUR_ALGORITHM_EXACT, DETOUR_ALGORITHM_AUTO}) {
        bool failed = true;
        for (int index = 0; failed; index++) {
            SCOPED_TRACE(std::string(detour_algorithm_name(algorithm)) + ", allocation " +
                         std::to_string(index));
            Arena arena;
            struct detour_options options = Nodes(20000);
            struct detour_plan *plan = nullptr;
            struct detour_error error = {};
            options.algorithm = algorithm;
            detour_test_fail_alloc(index);
            enum detour_status status = detour_generate(arena, &problem.profile, &options, &plan, &error);
            failed = detour_test_alloc_failed();
            detour_test_fail_alloc(-1);
            if (status == DETOUR_OK) {
                CheckPlan(&problem.profile, plan);
            } else {
                EXPECT_EQ(status, DETOUR_NO_MEMORY);
                EXPECT_TRUE(failed);
                EXPECT_STREQ(error.text, "out of memory");
            }
        }
    }
}

/* A bound that every schedule keeps, whatever the memory limits: raising them never raises it. */
TEST(Search, LowerBoundFallsWithMoreMemory)
{
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct family_problem problem;
        SCOPED_TRACE("seed " + std::to_string(seed));
        family_make(&problem, FAMILY_RELEASE_W, seed, 0, 0);
        int64_t lower_ns = INT64_MAX;
        for (int32_t limit = 1; limit <= 3 * problem.profile.stage_count; limit++) {
            for (int32_t i = 0; i < problem.profile.stage_count; i++)
                problem.stages[i].max_inflight = limit;
            int64_t ns = LowerBound(&problem.profile);
            EXPECT_LE(ns, lower_ns);
            lower_ns = ns;
        }
        problem.profile.release = DETOUR_RELEASE_B;
        EXPECT_LE(LowerBound(&problem.profile), lower_ns);
    }
}
