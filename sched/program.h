/* SPDX-License-Identifier: Apache-2.0 */
/* Adds sends and receives to a schedule, and checks that such a program cannot deadlock. */
#ifndef DETOUR_SCHED_PROGRAM_H
#define DETOUR_SCHED_PROGRAM_H

#include "detour/sched.h"
#include "sched/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `schedule` is timed and has been simulated, so it has no cycle. */
enum detour_status dt_program_create(struct dt_call *call, const struct dt_problem *p,
                                     const struct detour_schedule *schedule, struct detour_program **program);

/* Scratch memory is not given back. */
enum detour_status dt_program_check(struct dt_call *call, const struct dt_problem *p,
                                    const struct detour_program *program);

/*
 * The computations of a program, in their order, and whether they alone are a schedule. Not timed, and no
 * operation has flags.
 */
enum detour_status dt_program_computations(struct dt_call *call, const struct dt_problem *p,
                                           const struct detour_program *program,
                                           struct detour_schedule **schedule);

/*
 * The link that an action's message takes, -1 for a computation. `consumer` receives the op index of the
 * operation that uses the message.
 */
int32_t dt_action_link(const struct dt_problem *p, const struct detour_action *action, size_t *consumer);

/* "SEND_F of microbatch 3 on stage 1" into `text`; returns `text`. */
enum { DT_ACTION_TEXT_BYTES = 64 };
const char *dt_action_text(char text[DT_ACTION_TEXT_BYTES], const struct detour_action *action);

#ifdef __cplusplus
}
#endif

#endif
