// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "tests/sched/sched_test.h"

using namespace sched_test;

namespace
{
struct detour_program *Lower(struct detour_arena *arena, Profile &profile,
                             const std::vector<std::string> &lines)
{
    struct detour_program *program = nullptr;
    struct detour_error error = {};
    EXPECT_EQ(detour_program_create(arena, profile.get(), Schedule(arena, profile, lines), &program, &error),
              DETOUR_OK)
        << error.text;
    return program;
}
} // namespace

TEST(Program, PutsReceivesInTheOrderOfTheSends)
{
    Arena arena;
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    struct detour_program *program = Lower(arena, profile, {"F0 F1 B0 W0 BW1", "F0 B0 W0 F1 BW1"});
    struct detour_error error = {};
    EXPECT_EQ(ProgramLine(program, 0), "F0 SEND_F0 F1 SEND_F1 RECV_B0 WAIT_B0 B0 W0 RECV_B1 WAIT_B1 BW1");
    EXPECT_EQ(ProgramLine(program, 1), "RECV_F0 RECV_F1 WAIT_F0 F0 B0 SEND_B0 W0 WAIT_F1 F1 BW1 SEND_B1");
    EXPECT_EQ(detour_program_check(arena, profile.get(), program, &error), DETOUR_OK) << error.text;
}

TEST(Program, SendsNothingInsideADevice)
{
    Arena arena;
    Profile profile = Profile::Uniform(4, 1, 10, 10, 10);
    profile.stages[2].device = 1;
    profile.stages[3].device = 0;
    struct detour_program *program =
        Lower(arena, profile, {"F0@0 F0@3 BW0@3 BW0@0", "F0@1 F0@2 BW0@2 BW0@1"});
    EXPECT_EQ(ProgramLine(program, 0), "F0 SEND_F0 RECV_F0 WAIT_F0 F0 BW0 SEND_B0 RECV_B0 WAIT_B0 BW0");
    EXPECT_EQ(ProgramLine(program, 1), "RECV_F0 WAIT_F0 F0 F0 SEND_F0 RECV_B0 WAIT_B0 BW0 BW0 SEND_B0");
}

/* Programs for 2 stages and 2 microbatches, spoilt in ways that a runtime would hang on. */
TEST(Program, FindsDeadlocks)
{
    const struct {
        enum detour_status status;
        const char *text;
        std::function<void(struct detour_program *)> spoil;
    } cases[] = {
        {DETOUR_DEADLOCK,
         "device 0, position 1: SEND_F of microbatch 0 on stage 0 meets device 1, position 0: RECV_F of "
         "microbatch 1 "
         "on stage 1",
         [](struct detour_program *p) {
             struct detour_action *one = p->actions + p->first[1];
             std::swap(one[0].microbatch, one[1].microbatch);
         }},
        {DETOUR_MISSING_OP, "there is no receive before WAIT_B of microbatch 1 on stage 0",
         [](struct detour_program *p) { std::swap(p->actions[7], p->actions[8]); }},
        {DETOUR_DEPENDENCY, "position 0: SEND_F of microbatch 0 on stage 0 precedes the operation",
         [](struct detour_program *p) { std::swap(p->actions[0], p->actions[1]); }},
        {DETOUR_UNKNOWN_OP, "SEND_B of microbatch 0 on stage 0 does not exist",
         [](struct detour_program *p) { p->actions[1].kind = DETOUR_ACTION_SEND_B; }},
        {DETOUR_UNKNOWN_OP, "? of microbatch 0 on stage 0 does not exist",
         [](struct detour_program *p) { p->actions[1].kind = 77; }},
        {DETOUR_INVALID, "first[] of the program", [](struct detour_program *p) { p->action_count--; }},
    };
    for (const auto &bad : cases) {
        Arena arena;
        Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
        struct detour_error error = {};
        struct detour_program *program = Lower(arena, profile, {"F0 F1 BW0 BW1", "F0 BW0 F1 BW1"});
        ASSERT_EQ(ProgramLine(program, 0), "F0 SEND_F0 F1 SEND_F1 RECV_B0 WAIT_B0 BW0 RECV_B1 WAIT_B1 BW1");
        ASSERT_EQ(ProgramLine(program, 1), "RECV_F0 RECV_F1 WAIT_F0 F0 BW0 SEND_B0 WAIT_F1 F1 BW1 SEND_B1");
        bad.spoil(program);
        EXPECT_EQ(detour_program_check(arena, profile.get(), program, &error), bad.status) << error.text;
        EXPECT_NE(std::string(error.text).find(bad.text), std::string::npos) << error.text;
    }
}

/* Stages 0 to 5 on devices 0 1 2 0 1 2; device 0 wants stage 3 first, which depends on its own stage 0. */
TEST(Program, NamesACycleOverSeveralDevices)
{
    Arena arena;
    Profile profile = Profile::Uniform(6, 1, 10, 10, 10);
    struct detour_error error = {};
    for (int32_t i = 0; i < 6; i++)
        profile.stages[i].device = i % 3;
    struct detour_program *program =
        Lower(arena, profile, {"F0@0 F0@3 BW0@3 BW0@0", "F0@1 F0@4 BW0@4 BW0@1", "F0@2 F0@5 BW0@5 BW0@2"});
    ASSERT_EQ(ProgramLine(program, 0),
              "F0 SEND_F0 RECV_F0 WAIT_F0 F0 SEND_F0 RECV_B0 WAIT_B0 BW0 SEND_B0 RECV_B0 WAIT_B0 BW0");
    EXPECT_EQ(detour_program_check(arena, profile.get(), program, &error), DETOUR_OK) << error.text;
    std::rotate(program->actions, program->actions + 2, program->actions + 5);
    EXPECT_EQ(detour_program_check(arena, profile.get(), program, &error), DETOUR_DEADLOCK);
    EXPECT_STREQ(error.text,
                 "deadlock: device 0, position 1: WAIT_F of microbatch 0 on stage 3 waits for device 2; "
                 "device 2, position 1: WAIT_F of microbatch 0 on stage 2 waits for device 1; device 1, "
                 "position 1: WAIT_F of microbatch 0 on stage 1 waits for device 0");
}

namespace
{
/* One device, two microbatches; the activation of the first goes to the host. */
struct detour_program *LowerOffloaded(struct detour_arena *arena, Profile &profile, const std::string &line)
{
    struct detour_program *program = nullptr;
    struct detour_error error = {};
    profile.stages[0].offload_ns = 5;
    struct detour_schedule *schedule = Schedule(arena, profile, {line});
    for (size_t i = 0; i < schedule->op_count; i++)
        if (schedule->ops[i].kind == DETOUR_OP_F && schedule->ops[i].microbatch == 0)
            schedule->ops[i].flags = DETOUR_OP_OFFLOADED;
    EXPECT_EQ(detour_program_create(arena, profile.get(), schedule, &program, &error), DETOUR_OK)
        << error.text;
    EXPECT_EQ(detour_program_check(arena, profile.get(), program, &error), DETOUR_OK) << error.text;
    return program;
}
} // namespace

TEST(Program, CopiesBackOneOperationBeforeTheBackward)
{
    Arena arena;
    Profile profile = Profile::Uniform(1, 2, 10, 10, 10);
    EXPECT_EQ(ProgramLine(LowerOffloaded(arena, profile, "F0 F1 BW1 BW0"), 0),
              "F0 OFFLOAD0 F1 RELOAD0 BW1 BW0");
    EXPECT_EQ(ProgramLine(LowerOffloaded(arena, profile, "F0 BW0 F1 BW1"), 0),
              "F0 OFFLOAD0 RELOAD0 BW0 F1 BW1")
        << "the operation before the backward is the F itself";
}

TEST(Program, RefusesCopiesOutOfPlace)
{
    const struct {
        size_t a, b; /* of "F0 OFFLOAD0 F1 RELOAD0 BW1 BW0", to be exchanged */
        const char *text;
    } cases[] = {
        {0, 1, "position 0: OFFLOAD of microbatch 0 on stage 0 precedes its F"},
        {1, 3, "position 1: RELOAD of microbatch 0 on stage 0 finds no activation on the host"},
        {3, 5, "position 3: BW of microbatch 0 on stage 0 needs an activation that is on the host"},
    };
    for (const auto &bad : cases) {
        Arena arena;
        Profile profile = Profile::Uniform(1, 2, 10, 10, 10);
        struct detour_error error = {};
        struct detour_program *program = LowerOffloaded(arena, profile, "F0 F1 BW1 BW0");
        std::swap(program->actions[bad.a], program->actions[bad.b]);
        EXPECT_EQ(detour_program_check(arena, profile.get(), program, &error), DETOUR_DEPENDENCY);
        EXPECT_NE(std::string(error.text).find(bad.text), std::string::npos) << error.text;
    }
}

TEST(Program, WaitsAreOptional)
{
    Arena arena;
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    struct detour_error error = {};
    struct detour_program *program = Lower(arena, profile, {"F0 F1 BW0 BW1", "F0 BW0 F1 BW1"});
    size_t kept = 0, begin = 0;
    for (int32_t d = 0; d < 2; d++) {
        size_t end = program->first[d + 1];
        for (size_t i = begin; i < end; i++)
            if (program->actions[i].kind < DETOUR_ACTION_WAIT_F)
                program->actions[kept++] = program->actions[i];
        begin = end;
        program->first[d + 1] = kept;
    }
    ASSERT_EQ(kept, program->action_count - 4);
    program->action_count = kept;
    EXPECT_EQ(detour_program_check(arena, profile.get(), program, &error), DETOUR_OK) << error.text;
}
