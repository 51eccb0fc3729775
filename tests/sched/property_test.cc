// SPDX-License-Identifier: Apache-2.0
// What must hold for every profile, tried on random ones. DETOUR_SCHED_ROUNDS=1000000 makes it a long run,
// DETOUR_SCHED_SEED another one.
#include <cstdio>
#include <cstdlib>
#include <algorithm>
#include <thread>

#include "tests/harness/harness.h"
#include "tests/sched/slow_simulator.h"

using namespace sched_test;

namespace
{
uint64_t FromEnvironment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, nullptr, 10) : otherwise;
}

uint64_t Rounds(uint64_t otherwise)
{
    return FromEnvironment("DETOUR_SCHED_ROUNDS", otherwise);
}

uint64_t Seed(uint64_t stream)
{
    static uint64_t seed = FromEnvironment("DETOUR_SCHED_SEED", 20240817);
    printf("seed %llu\n", static_cast<unsigned long long>(seed));
    return seed + (stream << 48);
}

std::vector<enum detour_algorithm> Algorithms()
{
    std::vector<enum detour_algorithm> all;
    for (int i = 0; i < DETOUR_ALGORITHM_COUNT; i++)
        if (detour_algorithm_name(static_cast<enum detour_algorithm>(i)))
            all.push_back(static_cast<enum detour_algorithm>(i));
    return all;
}

bool Limited(Profile &profile)
{
    for (const struct detour_stage &stage : profile.stages)
        if (stage.max_inflight)
            return true;
    for (const struct detour_device &device : profile.devices)
        if (device.capacity_bytes)
            return true;
    return false;
}

bool OneStagePerDevice(Profile &profile)
{
    return profile.get()->device_count == profile.get()->stage_count;
}

/* Those that adapt to the memory they get, so that there is no excuse. */
bool AlwaysPossible(enum detour_algorithm algorithm, Profile &profile)
{
    switch (algorithm) {
    case DETOUR_ALGORITHM_INTERLEAVED:
    case DETOUR_ALGORITHM_ZB_V:
    case DETOUR_ALGORITHM_HANAYO:
        return false;
    case DETOUR_ALGORITHM_GPIPE:
        return !Limited(profile);
    case DETOUR_ALGORITHM_1F1B:
    case DETOUR_ALGORITHM_ZB_H1:
    case DETOUR_ALGORITHM_ZB_H2:
        return OneStagePerDevice(profile) && !Limited(profile);
    case DETOUR_ALGORITHM_ZB:
    case DETOUR_ALGORITHM_ADAPTRA_INITIAL:
        return OneStagePerDevice(profile);
    default:
        return true;
    }
}

void CheckAgainstSlow(Profile &profile, const struct detour_plan *plan)
{
    SlowResult slow = SlowSimulate(profile, plan->schedule);
    Arena arena;
    struct detour_report *report = nullptr;

    ASSERT_TRUE(slow.finished);
    EXPECT_EQ(plan->makespan_ns, slow.makespan_ns);
    for (size_t i = 0; i < plan->schedule->op_count; i++)
        ASSERT_EQ(plan->schedule->ops[i].start_ns, slow.start_ns[i]) << "operation " << i;
    ASSERT_EQ(detour_simulate(arena, profile.get(), plan->schedule, &report, nullptr), DETOUR_OK);
    EXPECT_EQ(report->makespan_ns, slow.makespan_ns);
    for (size_t d = 0; d < profile.devices.size(); d++) {
        EXPECT_EQ(report->devices[d].peak_bytes, slow.peak_bytes[d]);
        EXPECT_GE(report->devices[d].idle_ns, 0);
    }
    for (size_t i = 0; i < profile.stages.size(); i++)
        EXPECT_EQ(report->stages[i].peak_inflight, slow.peak_inflight[i]);
}

/* Every microbatch one after the other through all stages cannot be beaten from below by less than this. */
int64_t WorkBound(Profile &profile)
{
    std::vector<int64_t> work(profile.stages.size(), 0);
    int64_t chain = 0;
    for (size_t i = 0; i < profile.stages.size(); i++) {
        const struct detour_stage &s = profile.stages[i];
        int64_t bw = s.bw_ns ? std::min(s.bw_ns, s.b_ns + s.w_ns) : s.b_ns + s.w_ns;
        work[s.device] += profile.microbatches * (s.f_ns + bw);
        chain += s.f_ns + std::min(s.b_ns, bw);
        if (i + 1 < profile.stages.size() && s.device != profile.stages[i + 1].device)
            chain += profile.links[i].forward_ns + profile.links[i].backward_ns +
                     profile.links[i].forward_serial_ns + profile.links[i].backward_serial_ns;
    }
    return std::max(chain, *std::max_element(work.begin(), work.end()));
}

void CheckGenerator(Profile &profile, enum detour_algorithm algorithm)
{
    SCOPED_TRACE(detour_algorithm_name(algorithm));
    Arena arena;
    struct detour_plan *plan = nullptr;
    struct detour_error error = {};
    struct detour_options options = {};
    options.algorithm = algorithm;
    options.node_budget = 300;

    enum detour_status status = detour_generate(arena, profile.get(), &options, &plan, &error);
    if (status) {
        EXPECT_TRUE(status == DETOUR_UNSUPPORTED || status == DETOUR_MEMORY_TOO_SMALL) << error.text;
        EXPECT_FALSE(AlwaysPossible(algorithm, profile)) << error.text;
        EXPECT_EQ(error.status, status);
        return;
    }
    EXPECT_EQ(detour_validate(arena, profile.get(), plan->schedule, &error), DETOUR_OK) << error.text;
    EXPECT_GE(plan->makespan_ns, WorkBound(profile));
    CheckAgainstSlow(profile, plan);
}

/* One small damage: exchange, copy, drop, move, or a changed number. */
void Mutate(struct dt_prng *prng, struct detour_schedule *s)
{
    size_t a = dt_prng_below(prng, s->op_count), b = dt_prng_below(prng, s->op_count);
    switch (dt_prng_below(prng, 7)) {
    case 0:
        std::swap(s->ops[a], s->ops[b]);
        break;
    case 1:
        if (a + 1 < s->op_count)
            std::swap(s->ops[a], s->ops[a + 1]);
        break;
    case 2:
        s->ops[a] = s->ops[b];
        break;
    case 3:
        s->ops[a].kind = static_cast<uint8_t>(dt_prng_below(prng, 6));
        break;
    case 4:
        s->ops[a].microbatch = static_cast<int32_t>(dt_prng_below(prng, 12)) - 1;
        break;
    case 5:
        s->ops[a].stage = static_cast<int16_t>(static_cast<int>(dt_prng_below(prng, 8)) - 1);
        break;
    default:
        if (a < b)
            std::rotate(s->ops + a, s->ops + a + 1, s->ops + b);
    }
}

/* The longest by which a message can be late without moving the makespan, found by trying. */
int64_t TrySlack(Profile &profile, const struct detour_schedule *s, int64_t makespan, LateMessage late)
{
    while (late.late_ns < 1000 && SlowSimulate(profile, s, {}, 0, late).makespan_ns == makespan)
        late.late_ns++;
    return late.late_ns - 1;
}

void CheckSlack(Profile &profile, const struct detour_schedule *s, int64_t makespan, int from, int to,
                int64_t claimed)
{
    int64_t least = DETOUR_TIME_MAX_NS;
    if (profile.stages[from].device != profile.stages[to].device)
        for (int j = 0; j < profile.microbatches; j++)
            least = std::min(least, TrySlack(profile, s, makespan, {from, to, j, 0}));
    EXPECT_EQ(claimed, least) << "from stage " << from << " to stage " << to;
}

/* Offloads the activations of a few F's, however little sense that makes. */
void OffloadSome(struct dt_prng *prng, Profile *profile, struct detour_schedule *s)
{
    for (struct detour_stage &stage : profile->stages)
        stage.offload_ns = static_cast<int64_t>(dt_prng_below(prng, 8));
    for (size_t i = 0; i < s->op_count; i++)
        if (s->ops[i].kind == DETOUR_OP_F && profile->stages[s->ops[i].stage].offload_ns &&
            dt_prng_chance(prng, 1, 3))
            s->ops[i].flags = DETOUR_OP_OFFLOADED;
}
} // namespace

TEST(Property, EveryGeneratorOnRandomProfiles)
{
    struct dt_prng prng;
    dt_prng_init(&prng, Seed(1));
    for (uint64_t round = 0; round < Rounds(400) && !testing::Test::HasFailure(); round++) {
        Profile profile = RandomProfile(&prng, {});
        SCOPED_TRACE("round " + std::to_string(round) + ": " + Describe(profile));
        for (enum detour_algorithm algorithm : Algorithms())
            CheckGenerator(profile, algorithm);
    }
}

/* Whatever is done to a schedule, validate() and simulate() agree with the slow simulator on what it is. */
TEST(Property, MutatedSchedules)
{
    struct dt_prng prng;
    int accepted = 0, deadlocks = 0;
    dt_prng_init(&prng, Seed(2));
    for (uint64_t round = 0; round < Rounds(3000) && !testing::Test::HasFailure(); round++) {
        Arena arena;
        Profile profile = RandomProfile(&prng, {});
        struct detour_plan *plan = Generate(arena, profile, DETOUR_ALGORITHM_ADAPTRA);
        struct detour_schedule *s = plan->schedule;
        struct detour_error error = {};
        s->timed = false;
        for (uint64_t k = dt_prng_between(&prng, 1, 3); k; k--)
            Mutate(&prng, s);
        SCOPED_TRACE("round " + std::to_string(round) + ": " + Describe(profile));
        enum detour_status status = detour_validate(arena, profile.get(), s, &error);
        if (status) {
            EXPECT_EQ(status, error.status);
            EXPECT_NE(error.text[0], 0);
        }
        if (status == DETOUR_OK || status == DETOUR_DEADLOCK) {
            EXPECT_EQ(SlowSimulate(profile, s).finished, status == DETOUR_OK) << error.text;
            accepted += status == DETOUR_OK;
            deadlocks += status == DETOUR_DEADLOCK;
        }
        detour_simulate(arena, profile.get(), s, nullptr, nullptr);
    }
    printf("%d still valid, %d deadlocks\n", accepted, deadlocks);
    EXPECT_GT(accepted, 0);
    EXPECT_GT(deadlocks, 0);
}

/* Total slack means what it says, message by message. */
TEST(Property, TotalSlackIsExact)
{
    struct dt_prng prng;
    RandomLimits limits;
    dt_prng_init(&prng, Seed(3));
    limits.stages_max = 4;
    limits.microbatches_max = 5;
    for (uint64_t round = 0; round < Rounds(60) && !testing::Test::HasFailure(); round++) {
        Arena arena;
        Profile profile = RandomProfile(&prng, limits);
        struct detour_schedule *s = Generate(arena, profile, DETOUR_ALGORITHM_ADAPTRA)->schedule;
        struct detour_report *report = nullptr;
        if (round % 3 == 0)
            OffloadSome(&prng, &profile, s);
        SCOPED_TRACE("round " + std::to_string(round) + ": " + Describe(profile));
        ASSERT_EQ(detour_simulate(arena, profile.get(), s, &report, nullptr), DETOUR_OK);
        ASSERT_EQ(report->makespan_ns, SlowSimulate(profile, s).makespan_ns);
        for (int i = 0; i + 1 < static_cast<int>(profile.stages.size()); i++) {
            CheckSlack(profile, s, report->makespan_ns, i, i + 1, report->links[i].forward_total_slack_ns);
            CheckSlack(profile, s, report->makespan_ns, i + 1, i, report->links[i].backward_total_slack_ns);
        }
    }
}

TEST(Property, LargestNumbersDoNotOverflow)
{
    Arena arena;
    Profile profile = Profile::Uniform(8, 200, DETOUR_TIME_MAX_NS, DETOUR_TIME_MAX_NS, DETOUR_TIME_MAX_NS);
    for (struct detour_link &link : profile.links)
        link = {DETOUR_TIME_MAX_NS, DETOUR_TIME_MAX_NS, DETOUR_TIME_MAX_NS, DETOUR_TIME_MAX_NS};
    for (struct detour_stage &stage : profile.stages) {
        stage.bytes_f = stage.bytes_w = DETOUR_BYTES_MAX;
        stage.offload_ns = DETOUR_TIME_MAX_NS;
    }
    for (enum detour_algorithm algorithm :
         {DETOUR_ALGORITHM_GPIPE, DETOUR_ALGORITHM_ADAPTRA, DETOUR_ALGORITHM_ZB}) {
        struct detour_plan *plan = Generate(arena, profile, algorithm);
        struct detour_error error = {};
        EXPECT_EQ(detour_validate(arena, profile.get(), plan->schedule, &error), DETOUR_OK) << error.text;
        EXPECT_GT(plan->makespan_ns, 600 * DETOUR_TIME_MAX_NS);
    }
}

TEST(Property, EveryFailedAllocationIsReported)
{
    Profile profile = Profile::Uniform(8, 64, 10, 10, 10);
    for (enum detour_algorithm algorithm : Algorithms()) {
        SCOPED_TRACE(detour_algorithm_name(algorithm));
        struct detour_options options = {};
        options.algorithm = algorithm;
        options.node_budget = 100;
        FailEachAllocation([&](struct detour_arena *arena) {
            struct detour_plan *plan = nullptr;
            struct detour_report *report = nullptr;
            enum detour_status status = detour_generate(arena, profile.get(), &options, &plan, nullptr);
            if (status == DETOUR_OK)
                status = detour_validate(arena, profile.get(), plan->schedule, nullptr);
            if (status == DETOUR_OK)
                status = detour_simulate(arena, profile.get(), plan->schedule, &report, nullptr);
            return status;
        });
    }
}

TEST(Property, ThreadsDoNotDisturbEachOther)
{
    Profile profile = Profile::Uniform(6, 20, 10, 12, 8);
    profile.Delay(2, 25);
    const struct detour_profile *shared = profile.get();
    std::vector<int64_t> alone;
    auto run = [shared](std::vector<int64_t> *makespans) {
        Arena arena;
        for (enum detour_algorithm algorithm : Algorithms()) {
            struct detour_plan *plan = nullptr;
            struct detour_options options = {};
            options.algorithm = algorithm;
            options.node_budget = 200;
            bool made = detour_generate(arena, shared, &options, &plan, nullptr) == DETOUR_OK;
            makespans->push_back(made ? plan->makespan_ns : -1);
        }
    };
    run(&alone);
    std::vector<std::vector<int64_t>> together(4);
    std::vector<std::thread> threads;
    for (std::vector<int64_t> &makespans : together)
        threads.emplace_back(run, &makespans);
    for (std::thread &thread : threads)
        thread.join();
    for (const std::vector<int64_t> &makespans : together)
        EXPECT_EQ(makespans, alone);
}
