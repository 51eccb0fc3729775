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

/* One message that comes later than the others. */
struct LateMessage {
    int from = -1; /* stage */
    int to = -1;
    int microbatch = 0;
    int64_t late_ns = 0;
};

/*
 * With `started`, the first started[d] operations of each device keep the times that the schedule has, and
 * nothing else starts before now_ns.
 */
SlowResult SlowSimulate(Profile &profile, const struct detour_schedule *schedule,
                        const std::vector<size_t> &started = {}, int64_t now_ns = 0,
                        const LateMessage &late = {});
} // namespace sched_test

#endif
