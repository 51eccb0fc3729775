// SPDX-License-Identifier: Apache-2.0
// The local search by itself: from poor orders of random profiles, from the begin and from within an
// iteration.
#include <cstdio>

#include "sched/dispatch.h"
#include "sched/search/algorithms.h"
#include "tests/sched/slow_simulator.h"

using namespace sched_test;

namespace
{
constexpr uint64_t kNodes = 120;

/* One problem: a bad order to start from, made better and looked at. */
struct Improvement {
    int64_t before_ns = 0;
    int64_t after_ns = 0;
};

struct detour_schedule *Improve(struct detour_arena *arena, Profile &profile,
                                const struct detour_schedule *from, const std::vector<size_t> &started,
                                int64_t now, Improvement *improvement)
{
    const struct dt_prefix prefix = {started.data(), now};
    struct detour_schedule *copy = nullptr, *made = nullptr;
    struct detour_options options = {};
    struct dt_problem *p = nullptr;
    struct dt_search search;
    struct dt_timeline tl;
    struct dt_times times;
    struct dt_call call;

    options.node_budget = kNodes;
    dt_call_init(&call, arena, nullptr, &options);
    EXPECT_EQ(dt_problem_create(&call, profile.get(), &p), DETOUR_OK);
    EXPECT_EQ(dt_schedule_copy(&call, from, &copy), DETOUR_OK);
    EXPECT_EQ(dt_simulate(&call, p, copy, &prefix, nullptr, &times), DETOUR_OK);
    if (dt_memory_check(&call, p, copy))
        return nullptr;
    EXPECT_EQ(dt_timeline_resume(&call, p, from, &prefix, &tl), DETOUR_OK);
    EXPECT_EQ(dt_search_begin(&call, &tl, &search), DETOUR_OK);
    EXPECT_EQ(dt_search_offer_schedule(&search, copy, started.data(), times.makespan_ns), DETOUR_OK);
    if (!search.best_count)
        return nullptr;
    improvement->before_ns = search.best_ns;
    EXPECT_EQ(dt_tabu(&search, kNodes), DETOUR_OK);
    EXPECT_LE(call.node_count, kNodes);
    improvement->after_ns = search.best_ns;
    EXPECT_EQ(dt_search_finish(&search, &made), DETOUR_OK);
    EXPECT_EQ(dt_simulate(&call, p, made, &prefix, nullptr, &times), DETOUR_OK);
    EXPECT_EQ(times.makespan_ns, search.best_ns);
    struct detour_error error = {};
    call.error = &error;
    EXPECT_EQ(dt_memory_check(&call, p, made), DETOUR_OK) << error.text;
    return made;
}
} // namespace

TEST(Tabu, KeepsLimitsAndItsPromise)
{
    const enum detour_algorithm algorithms[] = {DETOUR_ALGORITHM_ADAPTRA, DETOUR_ALGORITHM_GPIPE,
                                                DETOUR_ALGORITHM_1F1B, DETOUR_ALGORITHM_ZB,
                                                DETOUR_ALGORITHM_BEAM};
    int better = 0, tried = 0;
    struct dt_prng prng;
    printf("seed 4\n");
    dt_prng_init(&prng, 4);
    for (int round = 0; round < 1500 && !testing::Test::HasFailure(); round++) {
        Arena arena;
        Profile profile = RandomProfile(&prng, {});
        struct detour_plan *from = nullptr;
        struct detour_options options = {};
        options.algorithm = algorithms[round % 5];
        options.node_budget = 1;
        if (detour_generate(arena, profile.get(), &options, &from, nullptr))
            continue;
        int64_t now = 0;
        std::vector<size_t> started(profile.devices.size(), 0);
        if (round % 3 == 0) {
            now = static_cast<int64_t>(dt_prng_below(&prng, static_cast<uint64_t>(from->makespan_ns) + 1));
            for (size_t d = 0; d < started.size(); d++)
                for (size_t k = from->schedule->first[d];
                     k < from->schedule->first[d + 1] && from->schedule->ops[k].start_ns <= now; k++)
                    started[d]++;
            for (struct detour_link &link : profile.links)
                link.backward_ns += static_cast<int64_t>(dt_prng_below(&prng, 20));
        }
        SCOPED_TRACE("round " + std::to_string(round) + ", now " + std::to_string(now) + ": " +
                     Describe(profile));
        Improvement improvement;
        struct detour_schedule *made = Improve(arena, profile, from->schedule, started, now, &improvement);
        if (!made)
            continue;
        tried++;
        better += improvement.after_ns < improvement.before_ns;
        SlowResult slow = SlowSimulate(profile, made, started, now);
        ASSERT_TRUE(slow.finished);
        EXPECT_EQ(slow.makespan_ns, improvement.after_ns);
        EXPECT_LE(improvement.after_ns, improvement.before_ns);
    }
    printf("%d of %d better\n", better, tried);
    EXPECT_GT(tried, 700);
    EXPECT_GT(better, tried / 4);
}
