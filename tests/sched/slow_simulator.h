/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model once more, as directly as it can be written and without a line of the library: start times grow
 * from 0 until every rule holds. Quadratic and worse; only for tests.
 */
#ifndef DETOUR_TESTS_SLOW_SIMULATOR_H
#define DETOUR_TESTS_SLOW_SIMULATOR_H

#include <vector>

#include "tests/sched/sched_test.h"

namespace sched_test
{
struct SlowResult {
    bool finished; /* false: the rules never held, there is a cycle */
    int64_t makespan_ns;
    std::vector<int64_t> start_ns; /* by position in schedule->ops */
    std::vector<int64_t> peak_bytes;
    std::vector<int32_t> peak_inflight;
};

/* Offloading is not modelled. */
SlowResult SlowSimulate(Profile &profile, const struct detour_schedule *schedule);
} // namespace sched_test

#endif
