/* SPDX-License-Identifier: Apache-2.0 */
/* --uniform and --delay: the profiles that they make, and what they refuse. */
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/sched/sched.h"

namespace
{
struct Shorthand {
    struct dt_sched_options options = {};
    struct dt_sched_run run = {};
    struct detour_profile *profile = nullptr;
    std::string err;
    int code;

    Shorthand(const char *uniform, const std::vector<const char *> &delays)
    {
        options.command = "detour sched x";
        options.uniform = uniform;
        for (const char *delay : delays)
            options.delay[options.delay_count++] = delay;
        run.options = &options;
        run.arena = detour_arena_create();
        testing::internal::CaptureStderr();
        code = dt_sched_make_uniform(&run, &profile);
        if (code == DT_EXIT_OK)
            code = dt_sched_add_delays(&run, &profile);
        err = testing::internal::GetCapturedStderr();
    }

    ~Shorthand()
    {
        detour_arena_destroy(run.arena);
    }
};

TEST(SchedShorthand, UniformStagesHaveTheirTimesAndNoDelays)
{
    Shorthand s("8x32:9,10.5,6", {});
    ASSERT_EQ(s.code, DT_EXIT_OK) << s.err;
    EXPECT_EQ(s.profile->stage_count, 8);
    EXPECT_EQ(s.profile->device_count, 8);
    EXPECT_EQ(s.profile->microbatch_count, 32);
    for (int i = 0; i < 8; i++) {
        EXPECT_EQ(s.profile->stages[i].f_ns, 9000000);
        EXPECT_EQ(s.profile->stages[i].b_ns, 10500000);
        EXPECT_EQ(s.profile->stages[i].w_ns, 6000000);
    }
    for (int i = 0; i < 7; i++)
        EXPECT_EQ(s.profile->links[i].forward_ns + s.profile->links[i].backward_ns, 0);
    Shorthand one("1x1:1,1,1", {});
    EXPECT_EQ(one.code, DT_EXIT_OK) << one.err;
}

TEST(SchedShorthand, DelaysAreAddedToTheirLinksInBothDirections)
{
    Shorthand s("4x12:10,10,10", {"last=60ms", "first=1500us", "1=0.002s"});
    ASSERT_EQ(s.code, DT_EXIT_OK) << s.err;
    const int64_t expected_ns[] = {1500000, 2000000, 60000000};
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(s.profile->links[i].forward_ns, expected_ns[i]) << i;
        EXPECT_EQ(s.profile->links[i].backward_ns, expected_ns[i]) << i;
    }
}

TEST(SchedShorthand, ABadTextIsOneLineWithAnExample)
{
    for (const char *bad : {"", "8", "8x32", "8x32:9,10", "8x32:9,10,6,1", "8x32:9,10,6 ", "0x4:1,1,1",
                            "x4:1,1,1", "9999x4:1,1,1", "-2x4:1,1,1", "nanx4:1,1,1"}) {
        Shorthand s(bad, {});
        EXPECT_EQ(s.code, DT_EXIT_USAGE) << bad;
        EXPECT_EQ(s.err.rfind(
                      std::string("detour sched x: --uniform ") + bad + ": expected STAGESxMICROBATCHES", 0),
                  0u)
            << s.err;
    }
    for (const char *bad : {"8x0:1,1,1", "8x1.5:1,1,1", "8x70000:1,1,1", "8x4:1e9,1,1", "2x2:inf,1,1"}) {
        Shorthand s(bad, {});
        EXPECT_EQ(s.code, DT_EXIT_USAGE) << bad;
        EXPECT_EQ(s.err.find('\n'), s.err.size() - 1) << s.err;
    }
    for (const char *bad : {"", "last", "last=", "last=60", "last=60m", "3=1ms", "-1=1ms", "0.5=1ms",
                            "middle=1ms", "last=-1ms", "last=1ms,first=1ms", "nan=1ms"}) {
        Shorthand s("4x4:1,1,1", {bad});
        EXPECT_EQ(s.code, DT_EXIT_USAGE) << bad;
        EXPECT_EQ(s.err.rfind(std::string("detour sched x: --delay ") + bad + ": expected LINK=TIME", 0), 0u)
            << s.err;
    }
    Shorthand none("1x4:1,1,1", {"last=1ms"});
    EXPECT_EQ(none.code, DT_EXIT_USAGE) << "a single stage has no link";
    Shorthand far("2x4:1,1,1", {"last=1000s"});
    EXPECT_EQ(far.code, DT_EXIT_USAGE) << "beyond the limit of a time";
}
} // namespace
