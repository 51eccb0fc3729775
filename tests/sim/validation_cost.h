/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a validation holds a job's messages, in virtual time: FALCON (arXiv 2410.12588), section 4.3. The
 * controller's own state machine (controller/validate.h) holds the messages of all hosts, the pairs of each
 * pass exchange messages over their RNICs, the times are diagnosed, and the messages are released.
 *
 * An RNIC carries one message at a time in each direction, so pairs that share a rank wait for each other. A
 * pass begins when the one before has ended. Controller and agents have rounds of one period each; those of
 * the agents are spread evenly over it. Not included: processes and connections of the command, its barriers,
 * and the test of computing, which all ranks do at the same time.
 */
#ifndef DETOUR_TESTS_SIM_VALIDATION_COST_H
#define DETOUR_TESTS_SIM_VALIDATION_COST_H

#include "detour/mitigate.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_validation_cost_options {
    const struct detour_validation *plan;
    int32_t ranks_per_host;
    int64_t bytes; /* of a message */
    int32_t round_trips;
    int64_t bytes_per_s;
    int64_t latency_ns;
    int64_t period_ns;     /* of rounds */
    int32_t slow_pair;     /* of the plan; -1: none */
    int32_t slow_permille; /* its bytes take that much longer */
};

struct dt_validation_cost {
    int32_t pass_count;      /* with those of a confirmation */
    int64_t hold_ns;         /* from the decision until the command starts */
    int64_t exchange_ns;     /* all passes */
    int64_t total_ns;        /* from the decision until the last host has released its messages */
    int64_t one_by_one_ns;   /* the exchange of one pair after the other */
    int32_t slow_count;      /* what the diagnosis has found */
    struct detour_slow slow; /* the first of it */
};

/* One validation. DETOUR_NO_MEMORY, or an error of the plan. */
enum detour_status dt_validation_cost_run(struct detour_arena *arena,
                                          const struct dt_validation_cost_options *options,
                                          struct dt_validation_cost *cost, struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
