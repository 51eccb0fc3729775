// SPDX-License-Identifier: Apache-2.0
// Orders that deadlock become orders that do not, with as little changed as that takes.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "tests/sched/sched_test.h"

using namespace sched_test;

namespace
{
struct Repaired {
    struct detour_schedule *schedule = nullptr;
    int32_t moved = -1;
};

Repaired Repair(struct detour_arena *arena, Profile &profile, const struct detour_schedule *schedule)
{
    Repaired made;
    struct detour_error error = {};
    EXPECT_EQ(detour_schedule_repair(arena, profile.get(), schedule, &made.schedule, &made.moved, &error),
              DETOUR_OK)
        << error.text;
    return made;
}

/* Any order of each device in which the operations of a microbatch on a stage follow each other as F, B, W.
 */
void Shuffle(struct dt_prng *prng, struct detour_schedule *schedule)
{
    std::map<std::pair<int, int>, std::vector<struct detour_op>> cells;
    for (size_t i = 0; i < schedule->op_count; i++)
        cells[{schedule->ops[i].stage, schedule->ops[i].microbatch}].push_back(schedule->ops[i]);
    for (int32_t d = 0; d < schedule->device_count; d++) {
        struct detour_op *ops = schedule->ops + schedule->first[d];
        for (size_t i = schedule->first[d + 1] - schedule->first[d]; i > 1; i--)
            std::swap(ops[i - 1], ops[dt_prng_below(prng, i)]);
    }
    for (size_t i = 0; i < schedule->op_count; i++) {
        std::vector<struct detour_op> &cell = cells[{schedule->ops[i].stage, schedule->ops[i].microbatch}];
        schedule->ops[i] = cell.front();
        cell.erase(cell.begin());
    }
    schedule->timed = false;
}

/* AdaPtis, Figure 7, step 2: a receive right before the operation that needs its message, a send right
 * behind. */
struct Naive {
    std::vector<struct detour_action> actions;
    std::vector<size_t> first = {0};
    struct detour_program program = {};

    Naive(Profile &profile, const struct detour_schedule *s)
    {
        const std::vector<struct detour_stage> &stages = profile.stages;
        auto is_away = [&](int other, int stage) {
            return other >= 0 && other < static_cast<int>(stages.size()) &&
                   stages[static_cast<size_t>(other)].device != stages[static_cast<size_t>(stage)].device;
        };
        for (int32_t d = 0; d < s->device_count; d++) {
            for (size_t i = s->first[d]; i < s->first[d + 1]; i++) {
                const struct detour_op &op = s->ops[i];
                auto add = [&](enum detour_action_kind kind) {
                    actions.push_back({op.microbatch, op.stage, static_cast<uint8_t>(kind), 0});
                };
                bool forward = op.kind == DETOUR_OP_F,
                     backward = op.kind == DETOUR_OP_B || op.kind == DETOUR_OP_BW;
                int before = op.stage - 1, behind = op.stage + 1;
                if (forward && is_away(before, op.stage))
                    add(DETOUR_ACTION_RECV_F);
                if (backward && is_away(behind, op.stage))
                    add(DETOUR_ACTION_RECV_B);
                add(static_cast<enum detour_action_kind>(op.kind));
                if (forward && is_away(behind, op.stage))
                    add(DETOUR_ACTION_SEND_F);
                if (backward && is_away(before, op.stage))
                    add(DETOUR_ACTION_SEND_B);
            }
            first.push_back(actions.size());
        }
        program = {s->device_count, actions.size(), first.data(), actions.data()};
    }
};

/* The computations of a device, in order. */
std::vector<std::tuple<int, int, int>> Computations(const struct detour_program *program, int32_t device)
{
    std::vector<std::tuple<int, int, int>> found;
    for (size_t i = program->first[device]; i < program->first[device + 1]; i++)
        if (program->actions[i].kind <= DETOUR_ACTION_BW)
            found.emplace_back(program->actions[i].kind, program->actions[i].stage,
                               program->actions[i].microbatch);
    return found;
}
} // namespace

TEST(Repair, WhatCanBeExecutedStays)
{
    Arena arena;
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    struct detour_schedule *schedule = Schedule(arena, profile, {"F0 F1 B0 W0 B1 W1", "F0 B0 W0 F1 B1 W1"});
    Makespan(profile, schedule);
    Repaired made = Repair(arena, profile, schedule);
    EXPECT_EQ(made.moved, 0);
    EXPECT_TRUE(made.schedule->timed);
    EXPECT_EQ(Line(made.schedule, 0), "F0 F1 B0 W0 B1 W1");
    EXPECT_EQ(Line(made.schedule, 1), "F0 B0 W0 F1 B1 W1");
}

/* Device 0 wants the backward of 0 before the forward of 1, device 1 the reverse. */
TEST(Repair, BringsTheFirstOperationThatCanRunForward)
{
    Arena arena;
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    struct detour_schedule *schedule = Schedule(arena, profile, {"F0 BW0 F1 BW1", "F1 BW1 F0 BW0"});
    struct detour_report *report = nullptr;
    struct detour_error error = {};
    EXPECT_EQ(detour_simulate(arena, profile.get(), schedule, &report, &error), DETOUR_DEADLOCK);
    Repaired made = Repair(arena, profile, schedule);
    EXPECT_EQ(made.moved, 1);
    EXPECT_FALSE(made.schedule->timed);
    EXPECT_EQ(Line(made.schedule, 0), "F0 F1 BW0 BW1");
    EXPECT_EQ(Line(made.schedule, 1), "F1 BW1 F0 BW0");
}

TEST(Repair, RandomOrdersOfEveryPlacementCanBeExecuted)
{
    struct dt_prng prng;
    int stuck = 0;
    dt_prng_init(&prng, 7);
    for (int round = 0; round < 200; round++) {
        Arena arena;
        Profile profile = RandomProfile(&prng, RandomLimits{5, 6, 9, true, false, true});
        SCOPED_TRACE(Describe(profile));
        struct detour_schedule *schedule = Generate(arena, profile, DETOUR_ALGORITHM_ADAPTRA)->schedule;
        struct detour_report *report = nullptr;
        Shuffle(&prng, schedule);
        enum detour_status before = detour_simulate(arena, profile.get(), schedule, &report, nullptr);
        Repaired made = Repair(arena, profile, schedule);
        EXPECT_EQ(made.moved > 0, before != DETOUR_OK);
        EXPECT_EQ(detour_simulate(arena, profile.get(), made.schedule, &report, nullptr), DETOUR_OK);
        stuck += before != DETOUR_OK;
    }
    EXPECT_GE(stuck, 100) << "the rounds are too easy";
}

TEST(Repair, WhatNoOrderRepairsIsRefused)
{
    Arena arena;
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    struct detour_schedule *schedule = Schedule(arena, profile, {"F0 F1 BW0 BW1", "F0 BW0 F1 BW1"}), *made;
    struct detour_error error = {};
    int32_t moved;
    schedule->ops[1].microbatch = 0;
    EXPECT_EQ(detour_schedule_repair(arena, profile.get(), schedule, &made, &moved, &error),
              DETOUR_DUPLICATE_OP);
    EXPECT_EQ(detour_schedule_repair(arena, profile.get(), schedule, nullptr, &moved, &error),
              DETOUR_INVALID);
}

/* The example of AdaPtis' Figure 7: device 0 sends an activation while device 1 sends a gradient. */
TEST(RepairOfPrograms, ReordersMessagesAndHoistsReceives)
{
    Arena arena;
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    Naive naive(profile, Schedule(arena, profile, {"F0 F1 B0 W0 B1 W1", "F0 B0 W0 F1 B1 W1"}));
    struct detour_program *repaired = nullptr;
    struct detour_repair repair = {};
    struct detour_error error = {};
    EXPECT_EQ(ProgramLine(&naive.program, 1), "RECV_F0 F0 B0 SEND_B0 W0 RECV_F1 F1 B1 SEND_B1 W1");
    ASSERT_EQ(detour_program_repair(arena, profile.get(), &naive.program, &repaired, &repair, &error),
              DETOUR_OK)
        << error.text;
    EXPECT_STREQ(repair.problem, "device 0, position 3: SEND_F of microbatch 1 on stage 0 meets device 1, "
                                 "position 3: SEND_B of microbatch 0 on stage 1; both sides must have their "
                                 "messages in the same order");
    EXPECT_EQ(repair.moved, 0);
    EXPECT_EQ(ProgramLine(repaired, 0), "F0 SEND_F0 F1 SEND_F1 RECV_B0 WAIT_B0 B0 W0 RECV_B1 WAIT_B1 B1 W1");
    EXPECT_EQ(ProgramLine(repaired, 1), "RECV_F0 RECV_F1 WAIT_F0 F0 B0 SEND_B0 W0 WAIT_F1 F1 B1 SEND_B1 W1")
        << "the receive of microbatch 1 is posted before the computations that it overlaps";
}

TEST(RepairOfPrograms, NaiveListsOfEveryPlacementGetThroughWithTheirComputationsInOrder)
{
    struct dt_prng prng;
    int deadlocks = 0;
    dt_prng_init(&prng, 8);
    for (int round = 0; round < 200; round++) {
        Arena arena;
        Profile profile = RandomProfile(&prng, RandomLimits{6, 8, 9, true, false, true});
        SCOPED_TRACE(Describe(profile));
        Naive naive(profile, Generate(arena, profile, DETOUR_ALGORITHM_ADAPTRA)->schedule);
        struct detour_program *repaired = nullptr;
        struct detour_repair repair = {};
        struct detour_error error = {};
        enum detour_status before = detour_program_check(arena, profile.get(), &naive.program, &error);
        ASSERT_TRUE(before == DETOUR_OK || before == DETOUR_DEADLOCK) << error.text;
        ASSERT_EQ(detour_program_repair(arena, profile.get(), &naive.program, &repaired, &repair, &error),
                  DETOUR_OK)
            << error.text;
        EXPECT_EQ(repair.problem[0] != 0, before != DETOUR_OK);
        EXPECT_EQ(repair.moved, 0);
        EXPECT_EQ(detour_program_check(arena, profile.get(), repaired, &error), DETOUR_OK) << error.text;
        for (int32_t d = 0; d < repaired->device_count; d++)
            EXPECT_EQ(Computations(repaired, d), Computations(&naive.program, d));
        deadlocks += before != DETOUR_OK;
    }
    EXPECT_GE(deadlocks, 50) << "the rounds are too easy";
}

TEST(RepairOfPrograms, MissingMessagesAndACycleOfComputations)
{
    Arena arena;
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    Naive naive(profile, Schedule(arena, profile, {"F0 BW0 F1 BW1", "F1 BW1 F0 BW0"}));
    struct detour_program *repaired = nullptr;
    struct detour_repair repair = {};
    struct detour_error error = {};
    naive.program.first[1]--; /* the last of device 0, a computation, would be device 1's */
    EXPECT_EQ(detour_program_repair(arena, profile.get(), &naive.program, &repaired, &repair, &error),
              DETOUR_UNKNOWN_OP);
    naive.program.first[1]++;
    naive.program.action_count = --naive.program.first[2]; /* the last SEND_B */
    ASSERT_EQ(detour_program_repair(arena, profile.get(), &naive.program, &repaired, &repair, &error),
              DETOUR_OK)
        << error.text;
    EXPECT_NE(repair.problem[0], 0);
    EXPECT_EQ(repair.moved, 1);
    EXPECT_EQ(detour_program_check(arena, profile.get(), repaired, &error), DETOUR_OK) << error.text;
}

TEST(RepairOfPrograms, CopiesToTheHostStay)
{
    Arena arena;
    Profile profile = Profile::Uniform(1, 2, 10, 10, 10);
    profile.stages[0].offload_ns = 5;
    struct detour_schedule *schedule = Schedule(arena, profile, {"F0 F1 BW1 BW0"});
    struct detour_program *program = nullptr, *repaired = nullptr;
    struct detour_repair repair = {};
    schedule->ops[0].flags = DETOUR_OP_OFFLOADED;
    ASSERT_EQ(detour_program_create(arena, profile.get(), schedule, &program, nullptr), DETOUR_OK);
    std::string line = ProgramLine(program, 0);
    ASSERT_EQ(detour_program_repair(arena, profile.get(), program, &repaired, &repair, nullptr), DETOUR_OK);
    EXPECT_EQ(repair.problem[0], 0);
    EXPECT_EQ(ProgramLine(repaired, 0), line);
}

TEST(Repair, SurvivesFailingAllocations)
{
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    Arena own;
    Naive naive(profile, Schedule(own, profile, {"F0 BW0 F1 BW1", "F1 BW1 F0 BW0"}));
    EXPECT_EQ(FailEachAllocation([&](struct detour_arena *arena) {
                  struct detour_program *repaired = nullptr;
                  struct detour_repair repair = {};
                  return detour_program_repair(arena, profile.get(), &naive.program, &repaired, &repair,
                                               nullptr);
              }),
              DETOUR_OK);
}
