// SPDX-License-Identifier: Apache-2.0
#include "tests/sched/slow_simulator.h"

using namespace sched_test;

namespace
{
/* Two stages; the forward of microbatch 1 has started on stage 0 at 15. */
struct Iteration {
    Arena arena;
    Profile profile = Profile::Uniform(2, 2, 10, 10, 10);
    struct detour_schedule *s;
    struct detour_error error = {};

    Iteration()
    {
        s = Schedule(arena, profile, {"F0 F1 BW0 BW1", "F0 BW0 F1 BW1"});
        Makespan(profile, s);
    }

    enum detour_status Resume(std::vector<size_t> started, int64_t now_ns, int64_t *makespan_ns)
    {
        return detour_simulate_from(arena, profile.get(), s, started.data(), now_ns, makespan_ns, &error);
    }
};
} // namespace

TEST(Resume, StartedOperationsKeepTheirTimesAndTheRestIsDelayed)
{
    Iteration it;
    int64_t whole_ns = 0, slow_ns = 0;
    ASSERT_EQ(it.Resume({0, 0}, 0, &whole_ns), DETOUR_OK) << it.error.text;
    EXPECT_EQ(whole_ns, Makespan(it.profile, it.s));
    it.profile.Delay(0, 100);
    ASSERT_EQ(it.Resume({2, 1}, 15, &slow_ns), DETOUR_OK) << it.error.text;
    EXPECT_EQ(it.s->ops[0].start_ns, 0);
    EXPECT_EQ(it.s->ops[1].start_ns, 10);
    SlowResult expected = SlowSimulate(it.profile, it.s, {2, 1}, 15);
    EXPECT_EQ(slow_ns, expected.makespan_ns);
    EXPECT_GT(slow_ns, whole_ns);
}

TEST(Resume, AnImpossiblePastIsRefused)
{
    Iteration it;
    EXPECT_EQ(it.Resume({5, 0}, 100, nullptr), DETOUR_INVALID);
    EXPECT_STREQ(it.error.text, "started[0] is 5; the device has 4 operations");
    EXPECT_EQ(it.Resume({2, 0}, 5, nullptr), DETOUR_TIMES) << "F1 starts at 10, after now";
    EXPECT_EQ(it.Resume({0, 0}, -1, nullptr), DETOUR_INVALID);
    EXPECT_EQ(it.Resume({1, 2}, 20, nullptr), DETOUR_OK) << it.error.text;
    EXPECT_EQ(detour_simulate_from(it.arena, it.profile.get(), it.s, nullptr, 0, nullptr, &it.error),
              DETOUR_INVALID);
    EXPECT_STREQ(it.error.text, "started is NULL");
}
