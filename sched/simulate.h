/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The times that follow from an order. Exact: no time step. A device advances until it reaches an operation
 * whose input has not been produced yet; the producer wakes it up. Every operation is visited once or
 * twice, so the cost is linear.
 */
#ifndef DETOUR_SCHED_SIMULATE_H
#define DETOUR_SCHED_SIMULATE_H

#include "detour/sched.h"
#include "sched/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The past of the simulation: the first started[d] operations of each device with their times. */
struct dt_prefix {
    const size_t *started; /* device_count */
    int64_t now_ns;        /* no other operation starts earlier */
};

struct dt_times {
    int64_t makespan_ns; /* first start to last finish */
    int64_t longest_span_ns;
    int32_t longest_span_device;
};

/* < 0 if `a` is the better result: the smaller makespan, then the smaller longest span. */
static inline int dt_times_compare(const struct dt_times *a, const struct dt_times *b)
{
    if (a->makespan_ns != b->makespan_ns)
        return a->makespan_ns < b->makespan_ns ? -1 : 1;
    return a->longest_span_ns < b->longest_span_ns ? -1 : a->longest_span_ns > b->longest_span_ns;
}

/*
 * Writes start_ns and finish_ns of every operation of a schedule that dt_schedule_check_ops() accepts.
 * `prefix` may be NULL. `input_ns` may be NULL; else it has dt_op_index_count() entries and receives when the
 * input of each operation was there: arrival of its message, or the finish of what precedes it on the stage.
 * Scratch memory is given back. DETOUR_DEADLOCK with the cycle, DETOUR_NO_MEMORY.
 */
enum detour_status dt_simulate(struct dt_call *call, const struct dt_problem *p,
                               struct detour_schedule *schedule, const struct dt_prefix *prefix,
                               int64_t *input_ns, struct dt_times *times);

#ifdef __cplusplus
}
#endif

#endif
