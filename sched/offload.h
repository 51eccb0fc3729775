/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times at which offloaded activations (DETOUR_OP_OFFLOADED) leave a device and return. Each direction
 * copies one at a time. Call dt_copies_out() for every F that is offloaded and dt_copies_in() for every B
 * and BW of a device, in the device's order.
 */
#ifndef DETOUR_SCHED_OFFLOAD_H
#define DETOUR_SCHED_OFFLOAD_H

#include "sched/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_copies {
    const struct dt_problem *problem;
    int64_t *gone_ns; /* [cell]: has left the device; -1: never left */
    int64_t *out_ns;  /* [device]: copies to the host go on until then */
    int64_t *in_ns;   /* [device]: copies from the host */
};

static inline bool dt_schedule_offloads(const struct detour_schedule *s)
{
    for (size_t i = 0; i < s->op_count; i++)
        if (s->ops[i].flags & DETOUR_OP_OFFLOADED)
            return true;
    return false;
}

static inline bool dt_copies_init(struct detour_arena *arena, const struct dt_problem *p,
                                  struct dt_copies *copies)
{
    copies->problem = p;
    copies->gone_ns = (int64_t *)dt_arena_alloc_raw(arena, dt_cell_count(p), sizeof(*copies->gone_ns));
    for (size_t i = 0; copies->gone_ns && i < dt_cell_count(p); i++)
        copies->gone_ns[i] = -1;
    return copies->gone_ns && dt_arena_new(arena, copies->out_ns, p->device_count) &&
           dt_arena_new(arena, copies->in_ns, p->device_count);
}

/* The activation of the finished F goes out; returns when it has left. */
static inline int64_t dt_copies_out(struct dt_copies *copies, const struct detour_op *f)
{
    const struct dt_problem *p = copies->problem;
    int64_t *out_ns = &copies->out_ns[p->device[f->stage]];

    *out_ns = (f->finish_ns > *out_ns ? f->finish_ns : *out_ns) + p->profile->stages[f->stage].offload_ns;
    copies->gone_ns[dt_op_index(p, DETOUR_OP_F, f->stage, f->microbatch)] = *out_ns;
    return *out_ns;
}

/*
 * When the activation of a B or BW is back on its device; 0 if it never left. `b` is an operation of a
 * schedule and not the first of its device. The copy is timed to end with the operation before B, but
 * begins no earlier than that one. `begin_ns` may be NULL; it receives when the copy begins and takes memory.
 */
static inline int64_t dt_copies_in(struct dt_copies *copies, const struct detour_op *b, int64_t *begin_ns)
{
    const struct dt_problem *p = copies->problem;
    int64_t gone_ns = copies->gone_ns[dt_op_index(p, DETOUR_OP_F, b->stage, b->microbatch)];
    int64_t copy_ns = p->profile->stages[b->stage].offload_ns;
    int64_t *in_ns = &copies->in_ns[p->device[b->stage]];

    if (gone_ns < 0)
        return 0;
    int64_t start_ns = b[-1].finish_ns - copy_ns;
    start_ns = start_ns > b[-1].start_ns ? start_ns : b[-1].start_ns;
    start_ns = start_ns > gone_ns ? start_ns : gone_ns;
    start_ns = start_ns > *in_ns ? start_ns : *in_ns;
    if (begin_ns)
        *begin_ns = start_ns;
    *in_ns = start_ns + copy_ns;
    return *in_ns;
}

#ifdef __cplusplus
}
#endif

#endif
