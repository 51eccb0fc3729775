/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of activations. dt_memory tracks the memory while an order is built; dt_memory_peaks() computes
 * the peaks of a finished schedule. Without offloading both depend on the order only, not on times.
 */
#ifndef DETOUR_SCHED_MEMORY_H
#define DETOUR_SCHED_MEMORY_H

#include "detour/sched.h"
#include "sched/offload.h"
#include "sched/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Memory held after the operations done so far, in the order of each device. */
struct dt_memory {
    const struct dt_problem *problem;
    int64_t *bytes;    /* [device] */
    int32_t *inflight; /* [stage], released as problem->release specifies */
};

enum detour_status dt_memory_init(struct dt_call *call, const struct dt_problem *p, struct dt_memory *memory);

/* Bytes that an operation takes when it starts. */
static inline int64_t dt_memory_taken(const struct dt_problem *p, int kind, int32_t stage)
{
    if (kind == DETOUR_OP_F)
        return p->bytes_f[stage];
    return kind == DETOUR_OP_B && p->bytes_w[stage] > p->bytes_f[stage]
               ? p->bytes_w[stage] - p->bytes_f[stage]
               : 0;
}

/* Bytes that an operation releases when it has finished. */
static inline int64_t dt_memory_freed(const struct dt_problem *p, int kind, int32_t stage)
{
    switch (kind) {
    case DETOUR_OP_B:
        return p->bytes_f[stage] > p->bytes_w[stage] ? p->bytes_f[stage] - p->bytes_w[stage] : 0;
    case DETOUR_OP_W:
        return p->bytes_w[stage];
    case DETOUR_OP_BW:
        return p->bytes_f[stage];
    default:
        return 0;
    }
}

/* +1, 0 or -1: what a finished operation does to the number of microbatches in flight. */
static inline int dt_memory_inflight_change(const struct dt_problem *p, int kind)
{
    if (kind == DETOUR_OP_F)
        return 1;
    return kind == DETOUR_OP_BW || kind == (p->release == DETOUR_RELEASE_B ? DETOUR_OP_B : DETOUR_OP_W) ? -1
                                                                                                        : 0;
}

/* Whether the operation may start now. */
static inline bool dt_memory_fits(const struct dt_memory *memory, int kind, int32_t stage)
{
    const struct dt_problem *p = memory->problem;
    int32_t device = p->device[stage];

    return (kind != DETOUR_OP_F || memory->inflight[stage] < p->max_inflight[stage]) &&
           dt_memory_taken(p, kind, stage) <= p->capacity[device] - memory->bytes[device];
}

/* Applies the operation, from start to finish. */
static inline void dt_memory_apply(struct dt_memory *memory, int kind, int32_t stage)
{
    const struct dt_problem *p = memory->problem;

    memory->bytes[p->device[stage]] += dt_memory_taken(p, kind, stage) - dt_memory_freed(p, kind, stage);
    memory->inflight[stage] += dt_memory_inflight_change(p, kind);
}

struct dt_peaks {
    int64_t *bytes;    /* [device] */
    int32_t *inflight; /* [stage] */
};

/*
 * The peaks of a schedule that dt_schedule_check_ops() accepts, in call->arena. With offloaded activations it
 * must be timed.
 */
enum detour_status dt_memory_peaks(struct dt_call *call, const struct dt_problem *p,
                                   const struct detour_schedule *schedule, struct dt_peaks *peaks);

/* A moment at which a device's memory changes. */
struct dt_memory_event {
    int64_t time_ns;
    size_t sequence; /* in the order of the device, for equal times */
    int64_t bytes;
    int32_t inflight;
    int32_t stage;
    int32_t microbatch;
};

/*
 * The events of one device of a timed schedule by time, at most 3 per operation; returns how many. `copies`
 * is fresh for this device.
 */
size_t dt_memory_events(const struct detour_schedule *schedule, int32_t device, struct dt_copies *copies,
                        struct dt_memory_event *events);

/* DETOUR_OVER_MEMORY with device or stage and both numbers if the peaks are beyond the limits. */
enum detour_status dt_memory_check(struct dt_call *call, const struct dt_problem *p,
                                   const struct detour_schedule *schedule);

#ifdef __cplusplus
}
#endif

#endif
