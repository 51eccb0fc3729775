/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An experiment: can a new order for the rest of an iteration that is under way absorb delays that change
 * faster than iterations last (PipeMorph section 8, "Intra-iteration re-scheduling")? It computes iterations
 * of a pipeline in the model of detour_simulate(), but a message has the delay that its link has when the
 * message leaves. What is sought is an upper limit, so whoever re-plans here is better off than any
 * implementation:
 *
 *   - the delays of all links are known, exactly, at the instant at which they change;
 *   - the present state of all devices is known as well;
 *   - detour_replan() costs nothing, and `decision_ns` later all devices use its order for the operations
 *     that have not begun then. No agreement fails and no message of one is late.
 *
 * The bound goes further. It holds for every order of operations, also for one that is chosen with all
 * delays of the future known.
 */
#ifndef DETOUR_TESTS_SIM_INTRA_H
#define DETOUR_TESTS_SIM_INTRA_H

#include <stdbool.h>
#include <stdint.h>

#include "delay/rule.h"
#include "detour/sched.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_intra_options {
    int32_t devices; /* a stage on each */
    int32_t microbatches;
    int64_t f_ns, b_ns, w_ns;       /* of every stage */
    int64_t serial_ns;              /* every link, each way: a message occupies it for so long */
    int64_t latency_ns;             /* and arrives so much later, on top of the delay */
    struct dt_delay_rule rule;      /* the delay of every link (changing_links.h) */
    int64_t planned_ns;             /* the delay for which the first schedule is made */
    enum detour_algorithm schedule; /* that makes it */
    bool follows;                   /* the schedule follows the delays between iterations (pipeline_loop.h) */
    bool replans;                   /* and within them, as above */
    bool measures;                  /* but knows only the delay of the last message that has arrived */
    int64_t decision_ns;
    uint32_t iteration_count;
    uint64_t seed;
};

/* Means over the iterations. */
struct dt_intra_result {
    int64_t mean_ns;
    int64_t bound_ns; /* no order of operations takes less in the same iterations */
    uint32_t changes; /* of the schedule between iterations */
    uint64_t replans; /* with an order that promised to be better */
};

/* The statuses of detour_generate(); DETOUR_NO_MEMORY. Checks that no iteration goes below its bound. */
enum detour_status dt_intra_run(const struct dt_intra_options *options, struct dt_intra_result *result,
                                struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
