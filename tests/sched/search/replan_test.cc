// SPDX-License-Identifier: Apache-2.0
// DETOUR_SCHED_ROUNDS=100000 makes the comparison with brute force a long run, DETOUR_SCHED_SEED another one.
#include <cstdio>
#include <cstdlib>

#include "sched/dispatch.h"
#include "sched/warmup.h"
#include "tests/harness/harness.h"
#include "tests/sched/brute_force.h"
#include "tests/sched/slow_simulator.h"

using namespace sched_test;

namespace
{
/* How many operations of each device have started by `now`. */
std::vector<size_t> Started(const struct detour_schedule *schedule, int64_t now)
{
    std::vector<size_t> started;
    for (int32_t d = 0; d < schedule->device_count; d++) {
        size_t i = schedule->first[d];
        while (i < schedule->first[d + 1] && schedule->ops[i].start_ns <= now)
            i++;
        started.push_back(i - schedule->first[d]);
    }
    return started;
}

struct detour_plan *Replan(struct detour_arena *arena, Profile &measured,
                           const struct detour_schedule *present, const std::vector<size_t> &started,
                           int64_t now, uint64_t nodes = 300)
{
    struct detour_plan *plan = nullptr;
    struct detour_error error = {};
    struct detour_options options = {};
    options.node_budget = nodes;
    EXPECT_EQ(detour_replan(arena, measured.get(), present, started.data(), now, &options, &plan, &error),
              DETOUR_OK)
        << error.text;
    return plan;
}

struct detour_schedule *Untimed(struct detour_arena *arena, Profile &profile,
                                const struct detour_schedule *from)
{
    struct detour_schedule *copy = nullptr;
    EXPECT_EQ(detour_schedule_create(arena, profile.get(), from->op_count, &copy, nullptr), DETOUR_OK);
    std::copy(from->ops, from->ops + from->op_count, copy->ops);
    std::copy(from->first, from->first + from->device_count + 1, copy->first);
    return copy;
}
uint64_t FromEnvironment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, nullptr, 10) : otherwise;
}

/* The makespan of ADAPTRA's dispatcher started from there, the smallest of its four variants; INT64_MAX:
 * none. */
int64_t AdaptraFrom(Profile &measured, const struct detour_schedule *present,
                    const std::vector<size_t> &started, int64_t now)
{
    const struct dt_prefix prefix = {started.data(), now};
    int64_t best_ns = INT64_MAX;
    for (int variant = 0; variant < 4; variant++) {
        Arena arena;
        std::vector<int32_t> limits(measured.stages.size()), warmup(measured.stages.size());
        struct dt_dispatch_rule rule = {warmup.data(), (variant & 2) != 0, false, 0};
        struct detour_schedule *made = nullptr;
        struct dt_problem *p = nullptr;
        struct dt_timeline tl;
        struct dt_times times;
        struct dt_call call;
        dt_call_init(&call, arena, nullptr, nullptr);
        EXPECT_EQ(dt_problem_create(&call, measured.get(), &p), DETOUR_OK);
        EXPECT_EQ(dt_timeline_resume(&call, p, present, &prefix, &tl), DETOUR_OK);
        dt_warmup_limits(p, limits.data());
        dt_warmup_for_delays(p, limits.data(), DT_WARMUP_OWN, variant & 1, warmup.data());
        EXPECT_EQ(dt_dispatch(&call, &tl, &rule), DETOUR_OK);
        if (!dt_timeline_finish(&call, &tl, &made) &&
            !dt_simulate(&call, p, made, &prefix, nullptr, &times) && !dt_memory_check(&call, p, made))
            best_ns = std::min(best_ns, times.makespan_ns);
    }
    return best_ns;
}
} // namespace

/* From the start it is planning; at the end there is nothing left to plan. */
TEST(Replan, BeginningAndEnd)
{
    Arena arena;
    Profile profile = Profile::Uniform(4, 12, 10 * kMs, 10 * kMs, 10 * kMs);
    struct detour_schedule *present = Generate(arena, profile, DETOUR_ALGORITHM_ADAPTRA)->schedule;
    Profile slow = profile;
    slow.Delay(0, 20 * kMs);
    struct detour_plan *plan = Replan(arena, slow, present, {0, 0, 0, 0}, 0);
    EXPECT_EQ(plan->makespan_ns, 410 * kMs);
    plan = Replan(arena, slow, present, {36, 36, 36, 36}, 400 * kMs);
    EXPECT_EQ(plan->makespan_ns, 390 * kMs);
    EXPECT_EQ(plan->lower_bound_ns, 390 * kMs);
    EXPECT_TRUE(plan->proven_optimal);
}

/* Link 0 becomes 20 ms slow at 45 ms: the order kept costs 440, the rest in another order less. */
TEST(Replan, GainsInsideAnIteration)
{
    Arena arena;
    Profile profile = Profile::Uniform(4, 12, 10 * kMs, 10 * kMs, 10 * kMs);
    struct detour_schedule *present = Generate(arena, profile, DETOUR_ALGORITHM_ADAPTRA)->schedule;
    Profile slow = profile;
    slow.Delay(0, 20 * kMs);
    std::vector<size_t> started = Started(present, 45 * kMs);
    EXPECT_EQ(started, (std::vector<size_t>{5, 4, 3, 2}));
    struct detour_plan *plan = Replan(arena, slow, present, started, 45 * kMs);
    SlowResult kept = SlowSimulate(slow, present, started, 45 * kMs);
    EXPECT_EQ(kept.makespan_ns, 440 * kMs);
    EXPECT_LT(plan->makespan_ns, kept.makespan_ns);
    EXPECT_GE(plan->makespan_ns, plan->lower_bound_ns);
    printf("order kept %lld ms, planned anew %lld ms\n", static_cast<long long>(kept.makespan_ns / kMs),
           static_cast<long long>(plan->makespan_ns / kMs));
}

TEST(Replan, RandomMoments)
{
    const enum detour_algorithm algorithms[] = {DETOUR_ALGORITHM_ADAPTRA, DETOUR_ALGORITHM_GPIPE,
                                                DETOUR_ALGORITHM_1F1B, DETOUR_ALGORITHM_ZB};
    struct dt_prng prng;
    int better = 0, equal = 0;
    printf("seed 3\n");
    dt_prng_init(&prng, 3);
    for (int round = 0; round < 600 && !testing::Test::HasFailure(); round++) {
        Arena arena;
        Profile profile = RandomProfile(&prng, {});
        struct detour_plan *before = nullptr;
        struct detour_options options = {};
        options.algorithm = algorithms[round % 4];
        if (detour_generate(arena, profile.get(), &options, &before, nullptr))
            continue;
        Profile slow = profile;
        for (struct detour_link &link : slow.links)
            link.forward_ns += static_cast<int64_t>(dt_prng_below(&prng, 40));
        int64_t now =
            static_cast<int64_t>(dt_prng_below(&prng, static_cast<uint64_t>(before->makespan_ns) + 2));
        std::vector<size_t> started = Started(before->schedule, now);
        SCOPED_TRACE("round " + std::to_string(round) + ", now " + std::to_string(now) + ": " +
                     Describe(slow));
        struct detour_plan *plan = Replan(arena, slow, before->schedule, started, now);
        ASSERT_NE(plan, nullptr);

        SlowResult kept = SlowSimulate(slow, before->schedule, started, now);
        SlowResult anew = SlowSimulate(slow, plan->schedule, started, now);
        ASSERT_TRUE(anew.finished);
        EXPECT_EQ(plan->makespan_ns, anew.makespan_ns);
        EXPECT_LE(plan->makespan_ns, kept.makespan_ns);
        EXPECT_LE(plan->makespan_ns, AdaptraFrom(slow, before->schedule, started, now));
        EXPECT_LE(plan->lower_bound_ns, plan->makespan_ns);
        (plan->makespan_ns < kept.makespan_ns ? better : equal)++;
        for (size_t d = 0; d < started.size(); d++) {
            for (size_t k = 0; k < started[d]; k++) {
                const struct detour_op &was = before->schedule->ops[before->schedule->first[d] + k];
                const struct detour_op &is = plan->schedule->ops[plan->schedule->first[d] + k];
                EXPECT_TRUE(was.kind == is.kind && was.stage == is.stage && was.microbatch == is.microbatch &&
                            was.start_ns == is.start_ns && was.finish_ns == is.finish_ns);
            }
        }
        struct detour_error error = {};
        EXPECT_EQ(detour_validate(arena, slow.get(), Untimed(arena, slow, plan->schedule), &error), DETOUR_OK)
            << error.text;
    }
    printf("%d better than the order kept, %d equal\n", better, equal);
    EXPECT_GT(better, 50);
}

/* The continuation is the best there is, and the bound is one, from any moment of tiny problems. */
TEST(Replan, BruteForceAgrees)
{
    uint64_t seed = FromEnvironment("DETOUR_SCHED_SEED", 20261121);
    uint64_t rounds = FromEnvironment("DETOUR_SCHED_ROUNDS", 600);
    int compared = 0, proven = 0;
    struct dt_prng prng;
    dt_prng_init(&prng, seed);
    printf("seed %llu\n", static_cast<unsigned long long>(seed));
    for (uint64_t round = 0; round < rounds && !testing::Test::HasFailure(); round++) {
        Arena arena;
        Profile profile = TinyProfile(&prng);
        struct detour_options options = {};
        struct detour_plan *before = nullptr;
        options.algorithm = round % 2 ? DETOUR_ALGORITHM_ADAPTRA : DETOUR_ALGORITHM_BEAM;
        options.node_budget = 100;
        if (detour_generate(arena, profile.get(), &options, &before, nullptr))
            continue;
        Profile slow = profile;
        for (struct detour_link &link : slow.links) {
            link.forward_ns += static_cast<int64_t>(dt_prng_below(&prng, 20));
            link.backward_ns += static_cast<int64_t>(dt_prng_below(&prng, 20));
        }
        int64_t now =
            static_cast<int64_t>(dt_prng_below(&prng, static_cast<uint64_t>(before->makespan_ns) + 2));
        Past past = {before->schedule, Started(before->schedule, now), now};
        SCOPED_TRACE("round " + std::to_string(round) + ", now " + std::to_string(now) + ": " +
                     Describe(slow));
        int64_t best_ns = BruteForce(slow, 5000, past);
        struct detour_plan *plan = Replan(arena, slow, before->schedule, past.started, now, 20000);
        ASSERT_NE(plan, nullptr);
        if (best_ns < 0)
            continue;
        compared++;
        proven += plan->proven_optimal;
        EXPECT_GE(plan->makespan_ns, best_ns);
        EXPECT_LE(plan->lower_bound_ns, best_ns);
        if (plan->proven_optimal) {
            EXPECT_EQ(plan->makespan_ns, best_ns);
        }
    }
    printf("%d compared, %d proven\n", compared, proven);
    EXPECT_GT(compared, static_cast<int>(rounds) / 3);
    EXPECT_GT(proven, compared * 95 / 100);
}

TEST(Replan, RefusesAnImpossiblePast)
{
    Arena arena;
    Profile profile = Profile::Uniform(2, 3, 10, 10, 10);
    struct detour_schedule *present = Generate(arena, profile, DETOUR_ALGORITHM_1F1B)->schedule;
    struct detour_plan *plan = nullptr;
    struct detour_error error = {};
    auto call = [&](std::vector<size_t> started, int64_t now) {
        return detour_replan(arena, profile.get(), present, started.data(), now, nullptr, &plan, &error);
    };
    EXPECT_EQ(call({7, 0}, 5), DETOUR_INVALID);
    EXPECT_STREQ(error.text, "started[0] is 7; the device has 6 operations");
    EXPECT_EQ(call({0, 1}, 15), DETOUR_DEPENDENCY);
    EXPECT_STREQ(error.text, "device 1, position 0: F of microbatch 0 on stage 1 has started, but not "
                             "the operation that it needs");
    EXPECT_EQ(call({2, 0}, 5), DETOUR_TIMES);
    EXPECT_EQ(call({0, 0}, -1), DETOUR_INVALID);
    EXPECT_EQ(detour_replan(arena, profile.get(), present, nullptr, 0, nullptr, &plan, &error),
              DETOUR_INVALID);
    EXPECT_EQ(plan, nullptr);
    struct detour_schedule *shuffled =
        Schedule(arena, profile, {"F1 F0 BW1 F2 BW0 BW2", "F0 BW0 F1 BW1 F2 BW2"});
    Makespan(profile, shuffled);
    present = shuffled;
    EXPECT_EQ(call({1, 0}, 5), DETOUR_UNSUPPORTED);
}

TEST(Replan, ReportsFailedAllocations)
{
    Profile profile = Profile::Uniform(8, 48, 10, 10, 10);
    Arena keep;
    struct detour_schedule *present = Generate(keep, profile, DETOUR_ALGORITHM_ADAPTRA)->schedule;
    std::vector<size_t> started = Started(present, 300);
    enum detour_status status = FailEachAllocation([&](struct detour_arena *arena) {
        struct detour_plan *plan = nullptr;
        return detour_replan(arena, profile.get(), present, started.data(), 300, nullptr, &plan, nullptr);
    });
    EXPECT_EQ(status, DETOUR_OK);
}
