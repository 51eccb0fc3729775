/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A schedule under construction: the operations so far with their times, and the operations that could come
 * next. Generators that decide by time append operations here; the times equal those of dt_simulate().
 *
 * Microbatches are interchangeable, so each stage takes them in order for each kind of operation (FIFO):
 * the stage and the kind identify the next operation.
 */
#ifndef DETOUR_SCHED_TIMELINE_H
#define DETOUR_SCHED_TIMELINE_H

#include "sched/memory.h"
#include "sched/problem.h"
#include "sched/schedule.h"
#include "sched/simulate.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_timeline {
    const struct dt_problem *p;
    struct dt_builder builder;
    struct dt_memory memory;
    int64_t *reserve_bytes;    /* [stage]: must stay free behind an F, see dt_timeline_fits() */
    int64_t *input_ns;         /* [op index]: when the input is there; DT_FOREVER: not produced yet */
    int32_t *done[3];          /* [kind][stage]: operations done */
    bool *fused;               /* [cell]: B and W were one operation */
    int64_t *free_ns;          /* [device] */
    int64_t *forward_busy_ns;  /* [stage], as in simulate.c */
    int64_t *backward_busy_ns; /* [stage] */
    int64_t now_ns;            /* nothing new starts earlier */
};

/* An empty timeline. */
enum detour_status dt_timeline_init(struct dt_call *call, const struct dt_problem *p, struct dt_timeline *tl);

/*
 * Whether `schedule` is one of the problem and its prefix lies in the past, one operation behind the other:
 * else DETOUR_INVALID, DETOUR_TIMES or the status of dt_schedule_check_ops().
 */
enum detour_status dt_prefix_check(struct dt_call *call, const struct dt_problem *p,
                                   const struct detour_schedule *schedule, const struct dt_prefix *prefix);

/*
 * A timeline in which the first started[d] operations of each device have been done at the times that
 * `present` has. DETOUR_UNSUPPORTED if they are not FIFO, DETOUR_DEPENDENCY if one lacks its input.
 */
enum detour_status dt_timeline_resume(struct dt_call *call, const struct dt_problem *p,
                                      const struct detour_schedule *present, const struct dt_prefix *prefix,
                                      struct dt_timeline *tl);

/* Microbatch of the next operation of that kind; microbatch_count when all are done. */
static inline int32_t dt_timeline_next(struct dt_timeline *tl, int kind, int32_t stage)
{
    if (kind == DETOUR_OP_W)
        while (tl->done[DETOUR_OP_W][stage] < tl->done[DETOUR_OP_B][stage] &&
               tl->fused[dt_op_index(tl->p, DETOUR_OP_F, stage, tl->done[DETOUR_OP_W][stage])])
            tl->done[DETOUR_OP_W][stage]++;
    return tl->done[kind][stage];
}

/* When the input of the next operation is there; DT_FOREVER if it is not produced yet or all are done. */
static inline int64_t dt_timeline_input_ns(struct dt_timeline *tl, int kind, int32_t stage)
{
    int32_t microbatch = dt_timeline_next(tl, kind, stage);

    if (microbatch >= tl->p->microbatch_count)
        return DT_FOREVER;
    return tl->input_ns[dt_op_index(tl->p, (enum detour_op_kind)kind, stage, microbatch)];
}

/*
 * Whether memory allows the next operation of that kind now. After an F there must be room for one
 * microbatch to pass through all later stages of the device: then the oldest microbatch can always be
 * finished, and no order of decisions deadlocks.
 */
static inline bool dt_timeline_fits(const struct dt_timeline *tl, int kind, int32_t stage)
{
    const struct dt_problem *p = tl->p;
    int32_t device = p->device[stage];

    if (!dt_memory_fits(&tl->memory, kind, stage))
        return false;
    return kind != DETOUR_OP_F ||
           p->capacity[device] - tl->memory.bytes[device] - p->bytes_f[stage] >= tl->reserve_bytes[stage];
}

/* Appends the next operation of that kind as soon as possible; returns its finish. Its input exists. */
int64_t dt_timeline_put(struct dt_timeline *tl, enum detour_op_kind kind, int32_t stage);

/* The finished schedule; DETOUR_MEMORY_TOO_SMALL if some operations were never done. */
enum detour_status dt_timeline_finish(struct dt_call *call, struct dt_timeline *tl,
                                      struct detour_schedule **schedule);

#ifdef __cplusplus
}
#endif

#endif
