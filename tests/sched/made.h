/* SPDX-License-Identifier: Apache-2.0 */
/* A profile made ready for the library's internals: arena, call and problem. */
#ifndef DETOUR_TESTS_SCHED_MADE_H
#define DETOUR_TESTS_SCHED_MADE_H

#include "sched/problem.h"
#include "tests/sched/sched_test.h"

namespace sched_test
{
struct Made {
    Arena arena;
    struct detour_error error = {};
    struct detour_options options = {};
    struct dt_call call = {};
    struct dt_problem *p = nullptr;

    /* `profile` must outlive this. */
    explicit Made(Profile &profile)
    {
        dt_call_init(&call, arena, &error, &options);
        EXPECT_EQ(dt_problem_create(&call, profile.get(), &p), DETOUR_OK) << error.text;
    }
};
} // namespace sched_test

#endif
