/* SPDX-License-Identifier: Apache-2.0 */
/* A search that a test drives step by step with the functions of sched/search/. */
#ifndef DETOUR_TESTS_SCHED_SEARCH_ONE_SEARCH_H
#define DETOUR_TESTS_SCHED_SEARCH_ONE_SEARCH_H

#include "sched/search/algorithms.h"
#include "tests/sched/sched_test.h"

namespace sched_test
{
/* Begun, with a budget of `nodes`; its memory lives as long as the object. */
struct Search {
    Arena arena;
    struct detour_options options = {};
    struct dt_call call;
    struct dt_problem *p = nullptr;
    struct dt_timeline start;
    struct dt_search search;

    Search(const struct detour_profile *profile, uint64_t nodes)
    {
        options.node_budget = nodes;
        dt_call_init(&call, arena, nullptr, &options);
        EXPECT_EQ(dt_problem_create(&call, profile, &p), DETOUR_OK);
        EXPECT_EQ(dt_timeline_init(&call, p, &start), DETOUR_OK);
        EXPECT_EQ(dt_search_begin(&call, &start, &search), DETOUR_OK);
    }
};

} // namespace sched_test

#endif
