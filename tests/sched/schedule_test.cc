// SPDX-License-Identifier: Apache-2.0
#include "sched/schedule.h"

#include "tests/sched/made.h"

using namespace sched_test;

TEST(Schedule, TheBuilderKeepsTheOrderOfEachDevice)
{
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    Made made(profile);
    struct dt_builder builder;
    struct detour_schedule *s = nullptr;
    ASSERT_EQ(dt_builder_init(&made.call, made.p, &builder), DETOUR_OK);
    for (int32_t m = 0; m < 2; m++) {
        for (int32_t stage : {1, 0}) {
            dt_builder_push(&builder, DETOUR_OP_F, stage, m);
            dt_builder_push(&builder, m ? DETOUR_OP_BW : DETOUR_OP_B, stage, m);
        }
    }
    dt_builder_push(&builder, DETOUR_OP_W, 0, 0);
    dt_builder_push(&builder, DETOUR_OP_W, 1, 0);
    ASSERT_EQ(dt_builder_finish(&made.call, &builder, &s), DETOUR_OK);
    EXPECT_EQ(Line(s, 0), "F0 B0 F1 BW1 W0");
    EXPECT_EQ(Line(s, 1), "F0 B0 F1 BW1 W0");
    EXPECT_FALSE(s->timed);
    EXPECT_EQ(dt_schedule_check_ops(&made.call, made.p, s), DETOUR_OK) << made.error.text;
}

TEST(Schedule, ACopySharesNothing)
{
    Profile profile = Profile::Uniform(1, 1, 10, 10, 10);
    Made made(profile);
    struct detour_schedule *s = Schedule(made.arena, profile, {"F0 B0 W0"}), *copy = nullptr;
    ASSERT_EQ(dt_schedule_copy(&made.call, s, &copy), DETOUR_OK);
    s->ops[1].kind = DETOUR_OP_BW;
    EXPECT_EQ(Line(copy, 0), "F0 B0 W0");
    EXPECT_NE(copy->first, s->first);
}

TEST(Schedule, CheckRefusesMissingAndExtraOperations)
{
    Profile profile = Profile::Uniform(1, 2, 10, 10, 10);
    Made made(profile);
    for (const char *good : {"F0 F1 B0 W0 B1 W1", "F0 BW0 F1 B1 W1"})
        EXPECT_EQ(dt_schedule_check_ops(&made.call, made.p, Schedule(made.arena, profile, {good})), DETOUR_OK)
            << good << ": " << made.error.text;
    for (const char *bad : {"F0 B0 W0 B1 W1", "F0 F0 B0 W0 B1 W1", "F0 F1 B0 W0 B1", "F0 F1 B0 BW0 B1 W1",
                            "F0 F1 BW0 W0 B1 W1", "F0 W0 B0 BW1 F1"}) {
        EXPECT_NE(dt_schedule_check_ops(&made.call, made.p, Schedule(made.arena, profile, {bad})), DETOUR_OK)
            << bad;
        EXPECT_NE(made.error.text[0], 0);
    }
}

TEST(Schedule, TheLastStageRunsForwardInOrder)
{
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    Made made(profile);
    struct detour_schedule *good = Schedule(made.arena, profile, {"F1 F0 BW0 BW1", "F0 F1 BW1 BW0"});
    EXPECT_EQ(dt_schedule_check_last_stage(&made.call, made.p, good), DETOUR_OK) << made.error.text;
    struct detour_schedule *bad = Schedule(made.arena, profile, {"F0 F1 BW0 BW1", "F1 F0 BW1 BW0"});
    EXPECT_NE(dt_schedule_check_last_stage(&made.call, made.p, bad), DETOUR_OK);
}

TEST(Schedule, AnOperationAsText)
{
    char text[DT_OP_TEXT_BYTES];
    struct detour_op op = {};
    op.kind = DETOUR_OP_BW;
    op.stage = 1;
    op.microbatch = 3;
    EXPECT_STREQ(dt_op_text(text, &op), "BW of microbatch 3 on stage 1");
}
