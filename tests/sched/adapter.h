/* SPDX-License-Identifier: Apache-2.0 */
/* detour_adapt() with the schedule of ADAPTRA's figure 5 in use. */
#ifndef DETOUR_TESTS_SCHED_ADAPTER_H
#define DETOUR_TESTS_SCHED_ADAPTER_H

#include "tests/sched/sched_test.h"

namespace sched_test
{
/* Four stages, 12 microbatches, all times 10 ms, link 0 with a delay. */
inline Profile Anchor(int64_t c0_ms)
{
    Profile profile = Profile::Uniform(4, 12, 10 * kMs, 10 * kMs, 10 * kMs);
    profile.Delay(0, c0_ms * kMs);
    return profile;
}

/* One call after the other. */
class Adapter
{
  public:
    Adapter() : planned_(Anchor(0))
    {
        options_.generate.algorithm = DETOUR_ALGORITHM_ADAPTRA;
        present_ = Generate(arena_, planned_, DETOUR_ALGORITHM_ADAPTRA)->schedule;
    }

    const struct detour_adaptation *Measure(Profile measured)
    {
        struct detour_adaptation *adaptation = nullptr;
        struct detour_error error = {};
        measured_ = measured;
        EXPECT_EQ(detour_adapt(arena_, planned_.get(), measured_.get(), present_, &options_, &state_,
                               &adaptation, &error),
                  DETOUR_OK)
            << error.text;
        return adaptation;
    }

    Arena arena_;
    Profile planned_;
    Profile measured_;
    struct detour_schedule *present_;
    struct detour_adapt_options options_ = {};
    struct detour_adapt_state state_ = {};
};
} // namespace sched_test

#endif
