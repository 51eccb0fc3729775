/* SPDX-License-Identifier: Apache-2.0 */
/* Building, copying and checking schedules. */
#ifndef DETOUR_SCHED_SCHEDULE_H
#define DETOUR_SCHED_SCHEDULE_H

#include "detour/sched.h"
#include "sched/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Collects operations device by device while a generator decides on them in any interleaving of devices:
 * dt_builder_push() appends to a device's list, dt_builder_finish() makes the schedule.
 */
struct dt_builder {
    const struct dt_problem *problem;
    struct detour_op *ops; /* device d's list begins at room_first[d] */
    size_t *room_first;    /* device_count + 1 */
    size_t *count;         /* device_count */
};

/* Room for every operation of every stage with B and W apart. */
enum detour_status dt_builder_init(struct dt_call *call, const struct dt_problem *p,
                                   struct dt_builder *builder);

/* Appends to the list of the stage's device. */
void dt_builder_push(struct dt_builder *builder, enum detour_op_kind kind, int32_t stage, int32_t microbatch);

/* The schedule of what was pushed, not timed yet; copied, so the builder's memory may be rewound. */
enum detour_status dt_builder_finish(struct dt_call *call, const struct dt_builder *builder,
                                     struct detour_schedule **schedule);

/* A copy in call->arena. */
enum detour_status dt_schedule_copy(struct dt_call *call, const struct detour_schedule *from,
                                    struct detour_schedule **to);

/*
 * Shape, device and count of every operation: each stage has N F's and for each microbatch either B and W
 * or BW, on its device. Simulation and validation check a caller's schedule with it first.
 */
enum detour_status dt_schedule_check_ops(struct dt_call *call, const struct dt_problem *p,
                                         const struct detour_schedule *schedule);

/* Losses are collected in the order in which the last stage runs forward, and used by microbatch. */
enum detour_status dt_schedule_check_last_stage(struct dt_call *call, const struct dt_problem *p,
                                                const struct detour_schedule *s);

/* "B of microbatch 3 on stage 1" into `text`; returns `text`. */
enum { DT_OP_TEXT_BYTES = 64 };
const char *dt_op_text(char text[DT_OP_TEXT_BYTES], const struct detour_op *op);

#ifdef __cplusplus
}
#endif

#endif
