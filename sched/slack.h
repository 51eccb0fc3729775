/* SPDX-License-Identifier: Apache-2.0 */
/* Slack of messages: the backward pass of the critical path method over a timed schedule. */
#ifndef DETOUR_SCHED_SLACK_H
#define DETOUR_SCHED_SLACK_H

#include "detour/sched.h"
#include "sched/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `input_ns` is dt_simulate()'s; `links` has stage_count - 1 entries. Scratch memory is given back. */
enum detour_status dt_slack(struct dt_call *call, const struct dt_problem *p,
                            const struct detour_schedule *schedule, const int64_t *input_ns,
                            struct detour_link_report *links);

#ifdef __cplusplus
}
#endif

#endif
