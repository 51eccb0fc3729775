// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "tests/sched/format/format_test.h"

namespace
{
using sched_test::Arena;
using sched_test::kPair;
using sched_test::Line;
using sched_test::ReadPlan;
using sched_test::ReadProfile;
using sched_test::Replace;
using sched_test::WritePlan;

// Mixed on purpose: split on one stage, fused on the other.
const char *const kCsv = "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1B0,1F1,1B1\n";

TEST(Csv, ReadsTheirLettersAsOurs)
{
    Arena arena;
    struct detour_plan *plan = ReadPlan(arena, ReadProfile(arena, kPair), kCsv);

    ASSERT_TRUE(plan);
    EXPECT_EQ(Line(plan->schedule, 0), "F0 F1 B0 W0 B1 W1");
    EXPECT_EQ(Line(plan->schedule, 1), "F0 BW0 F1 BW1");
    EXPECT_FALSE(plan->schedule->timed);
    EXPECT_EQ(plan->algorithm, DETOUR_ALGORITHM_EXTERNAL);
}

TEST(Csv, WritesTheDocumentThatItReads)
{
    Arena arena;
    const struct detour_profile *profile = ReadProfile(arena, kPair);

    EXPECT_EQ(WritePlan(arena, profile, ReadPlan(arena, profile, kCsv), DETOUR_FORMAT_CSV), kCsv);
}

TEST(Csv, BlanksCarriageReturnsIdleCellsAndAMissingLastNewlineAreTolerated)
{
    Arena arena;
    const struct detour_profile *profile = ReadProfile(arena, kPair);
    const char *const variants[] = {
        "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1B0,1F1,1B1",
        "0F0,0F1,0I0,0W0,0I1,0W1\r\n1F0,1B0,1F1,1B1\r\n",
        " 0F0 ,\t0F1,,0I0,,0W0, ,0I1,0W1,,\n,1F0,1B0,1F1,1B1\n",
        "00F00,0F01,0I0,0W0,0I1,0W1\n1F0,1B0,1F1,1B1\n",
        "0F0,(0F1;0I0)OVERLAP_F_B,0W0,0I1,0W1\n1F0,( 1B0 ; 1F1 )OVERLAP_F_B,1B1\n",
    };

    for (const char *text : variants) {
        struct detour_plan *plan = ReadPlan(arena, profile, text);
        ASSERT_TRUE(plan) << text;
        EXPECT_EQ(WritePlan(arena, profile, plan, DETOUR_FORMAT_CSV), kCsv) << text;
    }
}

TEST(Csv, ComputeCommsHasTheActionsOfPyTorch)
{
    Arena arena;
    const struct detour_profile *profile = ReadProfile(arena, kPair);
    struct detour_plan *plan = ReadPlan(arena, profile, kCsv);
    struct detour_format_options options = {};
    std::string newest = WritePlan(arena, profile, plan, DETOUR_FORMAT_CSV_COMMS);

    EXPECT_EQ(newest,
              "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0WAIT_SEND_F0,0W0,0RECV_B1,0I1,0WAIT_SEND_F1,0W1,"
              "0REDUCE_GRAD,0WAIT_REDUCE_GRAD\n"
              "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1SEND_B1,"
              "1WAIT_SEND_B0,1WAIT_SEND_B1\n");
    EXPECT_EQ(WritePlan(arena, profile, ReadPlan(arena, profile, newest), DETOUR_FORMAT_CSV), kCsv);
    options.torch_minor = 14;
    std::string comms = WritePlan(arena, profile, plan, DETOUR_FORMAT_CSV_COMMS, &options);
    EXPECT_EQ(comms, "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0W0,0RECV_B1,0I1,0W1,0REDUCE_GRAD\n"
                     "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1REDUCE_GRAD,1SEND_B1\n");
    EXPECT_EQ(WritePlan(arena, profile, ReadPlan(arena, profile, comms), DETOUR_FORMAT_CSV), kCsv);

    struct detour_text text;
    struct detour_error error;
    options.torch_minor = 9;
    EXPECT_EQ(detour_plan_write(arena, profile, plan, DETOUR_FORMAT_CSV_COMMS, &options, &text, &error),
              DETOUR_INVALID);
    EXPECT_STREQ(error.text, "torch_minor is 9; compute_comms is written for 2.10 and later");
}

/* The reader refuses such a file: PyTorch would take a loss for another microbatch's. */
TEST(Csv, ALastStageOutOfOrderIsNotWritten)
{
    Arena arena;
    const struct detour_profile *profile = ReadProfile(arena, kPair);
    struct detour_plan *plan = ReadPlan(arena, profile, "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n");

    ASSERT_TRUE(plan);
    std::swap(plan->schedule->ops[4].microbatch, plan->schedule->ops[5].microbatch);
    for (enum detour_format format : {DETOUR_FORMAT_CSV, DETOUR_FORMAT_CSV_COMMS}) {
        struct detour_text text = {};
        struct detour_error found = {};
        EXPECT_EQ(DETOUR_ORDER, detour_plan_write(arena, profile, plan, format, nullptr, &text, &found));
        EXPECT_STREQ(
            "device 1, position 0: F of microbatch 1 on stage 1 comes where microbatch 0 should; the "
            "last stage must run forward in the order of the microbatches",
            found.text);
    }
}

TEST(Csv, FsdpActionsAreDropped)
{
    Arena arena;
    const struct detour_profile *profile = ReadProfile(arena, kPair);
    struct detour_plan *plan = ReadPlan(
        arena, profile,
        "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0W0,0RECV_B1,0I1,0W1,0REDUCE_GRAD,0RESHARD\n"
        "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1RESHARD,1REDUCE_GRAD\n");

    ASSERT_TRUE(plan);
    EXPECT_EQ(WritePlan(arena, profile, plan, DETOUR_FORMAT_CSV), kCsv);
}

TEST(Csv, NoMessagesBetweenStagesOfOneDevice)
{
    Arena arena;
    const struct detour_profile *profile =
        ReadProfile(arena, Replace(kPair, "\"links\":", "\"placement\":[0,0],\"links\":"));
    struct detour_plan *plan = ReadPlan(arena, profile, "0F0,1F0,1B0,0B0,0F1,1F1,1I1,0I1,0W1,1W1\n");

    ASSERT_TRUE(plan);
    EXPECT_EQ(WritePlan(arena, profile, plan, DETOUR_FORMAT_CSV_COMMS),
              "0F0,1F0,1B0,0B0,0F1,1F1,1I1,0I1,0W1,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,1W1,1REDUCE_GRAD,1WAIT_"
              "REDUCE_GRAD\n");
}

struct BadCsv {
    const char *text;
    enum detour_status status;
    const char *line; // begins with
};

void ExpectErrors(std::initializer_list<BadCsv> cases)
{
    for (const BadCsv &bad : cases) {
        Arena arena;
        struct detour_plan *plan = nullptr;
        struct detour_error error = {};
        const struct detour_profile *profile = ReadProfile(arena, kPair);
        EXPECT_EQ(detour_plan_from_csv(arena, profile, "s", bad.text, strlen(bad.text), &plan, &error),
                  bad.status)
            << bad.text << error.text;
        EXPECT_EQ(std::string(error.text).rfind(bad.line, 0), 0u) << bad.text << error.text;
        EXPECT_EQ(plan, nullptr);
    }
}

TEST(Csv, ACellThatIsNoActionIsOneLineWithRowColumnAndTheRightForm)
{
    ExpectErrors({
        {"", DETOUR_SYNTAX, "s: is empty; there must be one row per device"},
        {"\xef\xbb\xbf"
         "0F0\n",
         DETOUR_SYNTAX, "s: begins with a byte order mark, which PyTorch does not read"},
        {"0F0xyz\n", DETOUR_SYNTAX,
         "s: row 1, column 1: \"0F0xyz\" has text after the action, where PyTorch would"},
        {"0F0 0F1\n", DETOUR_SYNTAX, "s: row 1, column 1: \"0F0 0F1\" has text after the action"},
        {"0F0,0FORWARD1\n", DETOUR_SYNTAX,
         "s: row 1, column 2: \"0FORWARD1\" is not an action; write STAGE KIND"},
        {"0f0\n", DETOUR_SYNTAX, "s: row 1, column 1: \"0f0\" is not an action"},
        {"F0\n", DETOUR_SYNTAX, "s: row 1, column 1: \"F0\" is not an action"},
        {"-1F0\n", DETOUR_SYNTAX, "s: row 1, column 1: \"-1F0\" is not an action"},
        {"\"0F0\"\n", DETOUR_SYNTAX, "s: row 1, column 1: \"\"0F0\"\" is not an action"},
        {"0F\n", DETOUR_SYNTAX, "s: row 1, column 1: \"0F\" has no microbatch; write 0F0"},
        {"0F0,0UNSHARD1\n", DETOUR_SYNTAX,
         "s: row 1, column 2: \"0UNSHARD1\" must not have a microbatch; write 0UNSHARD"},
        {"0F99999999999999999999\n", DETOUR_LIMIT,
         "s: row 1, column 1: \"0F99999999999999999999\" has a microbatch beyond 65535"},
        {"99999999999999999999F0\n", DETOUR_LIMIT,
         "s: row 1, column 1: \"99999999999999999999F0\" has a stage beyond 4095"},
        {"0F0\n\n1F0\n", DETOUR_SYNTAX,
         "s: row 2 has no action, and PyTorch takes every line for a rank; remove it"},
        {"0F0\n1F0\n\n", DETOUR_SYNTAX, "s: row 3 has no action"},
        {"0F0\n, ,\n", DETOUR_SYNTAX, "s: row 2 has no action"},
        {"0F0,0F1\r1F0\n", DETOUR_SYNTAX, "s: row 1, column 2: \"0F1\" ends with a lone carriage return"},
        {"()OVERLAP_F_B\n", DETOUR_SYNTAX, "s: row 1, column 1: \"()OVERLAP_F_B\" is not an action"},
        {"(0F0;0B0)OVERLAP\n", DETOUR_SYNTAX,
         "s: row 1, column 1: \"(0F0;0B0)OVERLAP\" is not a group; write (ACTION"},
        {"(0F0;0B0\n", DETOUR_SYNTAX, "s: row 1, column 1: \"(0F0;0B0\" is not a group"},
        {"(0F0;0SEND_F0)OVERLAP_F_B\n", DETOUR_SYNTAX,
         "s: row 1, column 1: \"(0F0;0SEND_F0)OVERLAP_F_B\" overlaps"},
        {"0F0,,0SEND_F0\n", DETOUR_SYNTAX,
         "s: row 1, column 2 is blank, which PyTorch refuses in a schedule with sends"},
    });
}

TEST(Csv, AScheduleThatDoesNotFitTheProfileIsOneLineWithRowAndColumn)
{
    ExpectErrors({
        {"0F0,0F1,0B0,0B1\n", DETOUR_INVALID,
         "s: has 1 rows; it must have 2, one for each device of the profile"},
        {"0F0,0F1,0B0,0B1\n2F0,1F1,1B0,1B1\n", DETOUR_UNKNOWN_OP,
         "s: row 2, column 1: 2F0 names a stage that the profile"},
        {"0F0,0F2,0B0,0B1\n1F0,1F1,1B0,1B1\n", DETOUR_UNKNOWN_OP,
         "s: row 1, column 2: 0F2 names a microbatch that the"},
        {"0F0,1F0,0B0,0B1\n1F0,1F1,1B0,1B1\n", DETOUR_UNKNOWN_OP,
         "s: row 1, column 2: 1F0 stands in the row of device 0, but the profile places stage 1 on device 1"},
        {"0F0,0F1,0B0,0B1,0B1\n1F0,1F1,1B0,1B1\n", DETOUR_DUPLICATE_OP,
         "s: row 1, column 5: 0B1 is there already"},
        {"0F0,0F1,0B0,0I0,0B1\n1F0,1F1,1B0,1B1\n", DETOUR_DUPLICATE_OP,
         "s: row 1, column 4: 0I0 is there already"},
        {"0F0,0B1,0B0,0F1\n1F0,1F1,1B0,1B1\n", DETOUR_DEPENDENCY, "s: row 1, column 2: 0B1 precedes its F"},
        {"0F0,0F1,0W0,0I0,0B1\n1F0,1F1,1B0,1B1\n", DETOUR_DEPENDENCY,
         "s: row 1, column 3: 0W0 precedes its I"},
        {"0F0,0F1,0B0,0B1\n1F1,1F0,1B0,1B1\n", DETOUR_ORDER,
         "s: row 2, column 1: 1F1 is out of order: PyTorch numbers"},
        {"0F0,0F1,0B0\n1F0,1F1,1B0,1B1\n", DETOUR_MISSING_OP,
         "s: row 1: I (or B) of stage 0, microbatch 1 is missing"},
        {"0F0,0F1,0B0,0I1\n1F0,1F1,1B0,1B1\n", DETOUR_MISSING_OP,
         "s: row 1: W of stage 0, microbatch 1 is missing"},
        {"0F0,0SEND_F0,0F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n",
         DETOUR_DEADLOCK, "s: "}, // SEND_F1 is missing
    });
}

/* Without SEND_F1: the messages are laid out anew. With the backwards of device 1 reversed and no messages.
 */
TEST(Csv, WhatDeadlocksIsReadRepaired)
{
    const struct {
        const char *text;
        int32_t moved;
        const char *problem;
    } cases[] = {
        {"0F0,0SEND_F0,0F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n",
         0, "RECV_B of microbatch 0 on stage 0 meets"},
        {"0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", 1, "deadlock: device 0, position 1: BW of microbatch 0"},
        {"0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n", 0, ""},
    };
    for (const auto &c : cases) {
        Arena arena;
        struct detour_plan *plan = nullptr;
        struct detour_repair repair = {};
        struct detour_error error = {};
        ASSERT_EQ(detour_plan_read_repaired(arena, ReadProfile(arena, kPair), "s", c.text, strlen(c.text),
                                            &plan, &repair, &error),
                  DETOUR_OK)
            << error.text;
        EXPECT_EQ(repair.moved, c.moved);
        EXPECT_NE(std::string(repair.problem).find(c.problem), std::string::npos) << repair.problem;
        EXPECT_EQ(repair.problem[0] != 0, c.problem[0] != 0);
        EXPECT_EQ(plan->schedule->op_count, 8u);
    }
}

TEST(Csv, ANulIsNotTheEndOfTheText)
{
    Arena arena;
    std::string error;

    EXPECT_FALSE(ReadPlan(arena, ReadProfile(arena, kPair), std::string("0F0\0,0F1\n", 9), &error));
    EXPECT_EQ(error.rfind("s: row 1, column 1: \"0F0?\" has text after the action", 0), 0u) << error;
}
} // namespace
