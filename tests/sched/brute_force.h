/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best makespan of a tiny problem by looking at every order of every device, in any order of the
 * microbatches. Without a line of the library.
 */
#ifndef DETOUR_TESTS_BRUTE_FORCE_H
#define DETOUR_TESTS_BRUTE_FORCE_H

#include "tests/sched/sched_test.h"

namespace sched_test
{
/* The first started[d] operations of each device of `schedule` ran as it says; all others start from `now`
 * on. */
struct Past {
    const struct detour_schedule *schedule = nullptr;
    std::vector<size_t> started;
    int64_t now = 0;
};

/* -1 if there is no schedule, or more than `orders_max` combinations of orders would have to be tried. */
int64_t BruteForce(Profile &profile, double orders_max, const Past &past = {});

/* A problem small enough for it, with everything the model has. */
Profile TinyProfile(struct dt_prng *prng);
} // namespace sched_test

#endif
