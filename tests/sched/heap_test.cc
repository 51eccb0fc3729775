// SPDX-License-Identifier: Apache-2.0
#include "sched/heap.h"

#include <set>

#include "tests/sched/sched_test.h"

using namespace sched_test;

/* Random insertions, moves and removals, compared with an ordered set. */
TEST(Heap, AgreesWithAnOrderedSet)
{
    constexpr int32_t kDevices = 20;
    struct dt_prng prng;
    Arena arena;
    struct dt_heap heap;
    std::set<std::pair<int64_t, int32_t>> expected;
    std::vector<int64_t> time(kDevices, -1);

    dt_prng_init(&prng, 5);
    ASSERT_TRUE(dt_heap_init(arena, kDevices, &heap));
    for (int step = 0; step < 20000; step++) {
        int32_t device = static_cast<int32_t>(dt_prng_below(&prng, kDevices));
        int64_t when = static_cast<int64_t>(dt_prng_below(&prng, 10)); // small, so that ties are common
        switch (dt_prng_below(&prng, 4)) {
        case 0:
            dt_heap_remove(&heap, device);
            expected.erase({time[device], device});
            break;
        case 1: {
            int32_t first = expected.empty() ? -1 : expected.begin()->second;
            ASSERT_EQ(dt_heap_pop(&heap), first) << "step " << step;
            if (first >= 0)
                expected.erase(expected.begin());
            break;
        }
        default:
            dt_heap_set(&heap, device, when);
            expected.erase({time[device], device});
            expected.insert({when, device});
            time[device] = when;
        }
        ASSERT_EQ(heap.count, static_cast<int32_t>(expected.size()));
    }
}
