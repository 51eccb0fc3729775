/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile in the form that the algorithms use: checked, flattened, and completed by what the model
 * implies (no delay between stages of one device, bw_ns). Read-only once made; lives in the arena of the
 * call.
 *
 * An operation has a flat index, kind * cell_count + stage * microbatch_count + microbatch, with kind F, B
 * or W; BW takes the place of B, and its W does not exist. Tables by operation are arrays with
 * dt_op_index_count() entries.
 */
#ifndef DETOUR_SCHED_PROBLEM_H
#define DETOUR_SCHED_PROBLEM_H

#include <stddef.h>
#include <stdint.h>

#include "detour/sched.h"
#include "sched/call.h"

#ifdef __cplusplus
extern "C" {
#endif

/* No limit, no such time. Far from overflow when times are added to it. */
#define DT_FOREVER (INT64_MAX / 2)

/* No iteration within the limits of a profile takes longer: every operation, message and copy once. */
#define DT_TIMELINE_MAX_NS ((int64_t)3 * 5 * DETOUR_CELLS_MAX * DETOUR_TIME_MAX_NS)

enum { DT_KIND_COUNT = 4 };

struct dt_problem {
    const struct detour_profile *profile;
    int32_t stage_count;
    int32_t microbatch_count;
    int32_t device_count;
    enum detour_release release;
    int64_t *duration_ns[DT_KIND_COUNT]; /* [kind][stage] */
    int64_t *forward_ns;                 /* [stage]: latency from stage to stage + 1 */
    int64_t *backward_ns;                /* [stage]: latency from stage + 1 to stage */
    int64_t *forward_serial_ns;
    int64_t *backward_serial_ns;
    int32_t *device;        /* [stage] */
    int32_t *max_inflight;  /* [stage]; INT32_MAX for no limit */
    int64_t *bytes_f;       /* [stage] */
    int64_t *bytes_w;       /* [stage] */
    int64_t *capacity;      /* [device], bytes; INT64_MAX for no limit */
    int32_t *device_first;  /* [device_count + 1]: where its stages begin in device_stages */
    int32_t *device_stages; /* stages by device, ascending */
    bool one_stage_per_device;
    bool limited; /* some max_inflight or capacity is set */
    bool serial;  /* some link has a serialization time */
};

static inline size_t dt_cell_count(const struct dt_problem *p)
{
    return (size_t)p->stage_count * (size_t)p->microbatch_count;
}

static inline size_t dt_op_index_count(const struct dt_problem *p)
{
    return 3 * dt_cell_count(p);
}

static inline size_t dt_op_index(const struct dt_problem *p, enum detour_op_kind kind, int32_t stage,
                                 int32_t microbatch)
{
    size_t row = (size_t)(kind == DETOUR_OP_BW ? DETOUR_OP_B : kind);

    return (row * (size_t)p->stage_count + (size_t)stage) * (size_t)p->microbatch_count + (size_t)microbatch;
}

static inline bool dt_is_backward(int kind)
{
    return kind == DETOUR_OP_B || kind == DETOUR_OP_BW;
}

/*
 * Checks a profile and makes the problem in call->arena. `profile` must outlive it.
 * DETOUR_INVALID, DETOUR_LIMIT, DETOUR_MEMORY_TOO_SMALL or DETOUR_NO_MEMORY with the field's name in the
 * text.
 */
enum detour_status dt_problem_create(struct dt_call *call, const struct detour_profile *profile,
                                     struct dt_problem **problem);

#ifdef __cplusplus
}
#endif

#endif
