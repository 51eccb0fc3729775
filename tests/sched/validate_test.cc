// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "tests/sched/sched_test.h"

using namespace sched_test;

namespace
{
struct BadSchedule {
    enum detour_status status;
    const char *text; /* part of the error line */
    std::vector<std::string> lines;
    std::function<void(Profile &)> change;
};

void Nothing(Profile &) {}

void OneDevice(Profile &profile)
{
    profile.stages[1].device = 0;
}

const BadSchedule kBadSchedules[] = {
    {DETOUR_MISSING_OP,
     "W of microbatch 1 on stage 1 is missing on device 1",
     {"F0 F1 BW0 BW1", "F0 B0 W0 F1 B1"},
     Nothing},
    {DETOUR_MISSING_OP,
     "B (or BW) of microbatch 0 on stage 0 is missing",
     {"F0 F1 BW1", "F0 BW0 F1 BW1"},
     Nothing},
    {DETOUR_DUPLICATE_OP,
     "device 0, position 2: F of microbatch 0 on stage 0 is there already",
     {"F0 F1 F0 BW0 BW1", "F0 BW0 F1 BW1"},
     Nothing},
    {DETOUR_DUPLICATE_OP,
     "W of microbatch 0 on stage 0 is there already",
     {"F0 F1 BW0 W0 BW1", "F0 BW0 F1 BW1"},
     Nothing},
    {DETOUR_UNKNOWN_OP,
     "device 0, position 1: F of microbatch 2 on stage 0 does not exist",
     {"F0 F2 BW0", "F0 BW0 F1 BW1"},
     Nothing},
    {DETOUR_UNKNOWN_OP,
     "device 0, position 1: F of microbatch 1 on stage 1 belongs to device 1",
     {"F0 F1@1 BW0", "F0 BW0 F1 BW1"},
     Nothing},
    {DETOUR_DEPENDENCY,
     "device 1, position 0: BW of microbatch 0 on stage 1 precedes its F",
     {"F0 F1 BW0 BW1", "BW0 F0 F1 BW1"},
     Nothing},
    {DETOUR_DEPENDENCY,
     "W of microbatch 1 on stage 0 precedes its B",
     {"F0 F1 W1 B0 W0 B1", "F0 BW0 F1 BW1"},
     Nothing},
    {DETOUR_ORDER,
     "device 1, position 0: F of microbatch 1 on stage 1 comes where microbatch 0 should",
     {"F0 F1 BW0 BW1", "F1 F0 BW0 BW1"},
     Nothing},
    {DETOUR_DEADLOCK, "deadlock: device 0, position 1", {"F0 BW0 F1 BW1", "F0 F1 BW0 BW1"}, Nothing},
    {DETOUR_DEADLOCK,
     "device 0, position 0: F of microbatch 0 on stage 1 waits for F of microbatch 0 on stage 0",
     {"F0@1 F0@0 F1@0 F1@1 BW0@1 BW1@1 BW0@0 BW1@0"},
     OneDevice},
    {DETOUR_OVER_MEMORY,
     "stage 0: the schedule keeps 2 microbatches in flight; max_inflight is 1",
     {"F0 F1 BW0 BW1", "F0 BW0 F1 BW1"},
     [](Profile &p) { p.stages[0].max_inflight = 1; }},
    {DETOUR_OVER_MEMORY,
     "device 0: the schedule needs 20 bytes; its capacity is 19",
     {"F0 F1 BW0 BW1", "F0 BW0 F1 BW1"},
     [](Profile &p) {
         p.stages[0].bytes_f = 10;
         p.devices[0].capacity_bytes = 19;
     }},
};

enum detour_status Validate(Profile &profile, const struct detour_schedule *schedule,
                            struct detour_error *error)
{
    Arena arena;
    return detour_validate(arena, profile.get(), schedule, error);
}
} // namespace

TEST(Validate, AcceptsExecutableSchedules)
{
    Arena arena;
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    struct detour_error error = {};
    struct detour_schedule *schedule = Schedule(arena, profile, {"F0 F1 B0 BW1 W0", "F0 BW0 F1 B1 W1"});
    EXPECT_EQ(Validate(profile, schedule, &error), DETOUR_OK) << error.text;
    Makespan(profile, schedule);
    EXPECT_TRUE(schedule->timed);
    EXPECT_EQ(Validate(profile, schedule, &error), DETOUR_OK) << error.text;
}

TEST(Validate, NamesTheError)
{
    for (const BadSchedule &bad : kBadSchedules) {
        Arena arena;
        Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
        struct detour_error error = {};
        bad.change(profile);
        struct detour_schedule *schedule = Schedule(arena, profile, bad.lines);
        EXPECT_EQ(Validate(profile, schedule, &error), bad.status) << error.text;
        EXPECT_NE(std::string(error.text).find(bad.text), std::string::npos) << error.text;
    }
}

TEST(Validate, ChecksTimes)
{
    Arena arena;
    Profile profile = Profile::Uniform(2, 1, 10, 10, 10);
    profile.Delay(0, 5);
    struct detour_error error = {};
    struct detour_schedule *schedule = Schedule(arena, profile, {"F0 BW0", "F0 BW0"});
    Makespan(profile, schedule); /* 0-10; 15-25, 25-45; 50-70 */
    struct detour_op *last = &schedule->ops[1];
    last->start_ns++;
    last->finish_ns++;
    EXPECT_EQ(Validate(profile, schedule, &error), DETOUR_OK) << error.text;
    last->start_ns -= 2;
    last->finish_ns -= 2;
    EXPECT_EQ(Validate(profile, schedule, &error), DETOUR_TIMES);
    EXPECT_STREQ(error.text,
                 "device 0, position 1: BW of microbatch 0 on stage 0 starts at 49 ns; its input is "
                 "there at 50 ns only");
    last->start_ns = 60;
    EXPECT_EQ(Validate(profile, schedule, &error), DETOUR_TIMES);
    EXPECT_STREQ(
        error.text,
        "device 0, position 1: BW of microbatch 0 on stage 0 takes 9 ns; in the profile it is 20 ns");
    last->finish_ns = INT64_MAX;
    EXPECT_EQ(Validate(profile, schedule, &error), DETOUR_TIMES);
    last->start_ns = -1;
    EXPECT_EQ(Validate(profile, schedule, &error), DETOUR_TIMES);
}

TEST(Validate, RefusesBadShapes)
{
    Arena arena;
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    struct detour_error error = {};
    EXPECT_EQ(Validate(profile, nullptr, &error), DETOUR_INVALID);
    struct detour_schedule *schedule = Schedule(arena, profile, {"F0 F1 BW0 BW1", "F0 BW0 F1 BW1"});
    schedule->first[1] = 9;
    EXPECT_EQ(Validate(profile, schedule, &error), DETOUR_INVALID);
    schedule->first[1] = 4;
    schedule->first[2] = 7;
    EXPECT_EQ(Validate(profile, schedule, &error), DETOUR_INVALID);
    schedule->first[2] = 8;
    schedule->microbatch_count = 3;
    EXPECT_EQ(Validate(profile, schedule, &error), DETOUR_INVALID);
    EXPECT_EQ(detour_validate(nullptr, profile.get(), schedule, &error), DETOUR_INVALID);
}
