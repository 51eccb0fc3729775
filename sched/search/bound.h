/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lower bounds on the makespan of every completion of a partial schedule.
 *
 * Each operation that has not been placed gets a head (no schedule starts it earlier) and a tail (the least
 * time between its finish and the end). Per device, Jackson's preemptive schedule ("of the released
 * operations always the one with the longest tail") of the remaining operations is optimal for a machine
 * that may interrupt operations, so the largest finish + tail in it is a lower bound (Carlier, "The
 * one-machine sequencing problem", 1982).
 *
 * Heads follow from the state by the precedence of the chains, messages and memory limits ("F of microbatch
 * j + M only after B of microbatch j"), and from the work that a device must do before an operation. Tails
 * are the mirror image and depend on the problem only.
 */
#ifndef DETOUR_SCHED_SEARCH_BOUND_H
#define DETOUR_SCHED_SEARCH_BOUND_H

#include "sched/search/shop.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_bound {
    const struct dt_shop *shop;
    int64_t *tail_ns[3];     /* [F, B, W][cell] */
    int64_t *head_ns[3];     /* [F, B, W][cell]: scratch, of the state looked at last */
    const int64_t *least_ns; /* dt_bound_raise(); NULL: none */
    int64_t *device_ns;      /* [device]: the bound that each device gave for it */
    struct dt_bound_block *block_f;
    struct dt_bound_block *block_b;
    struct dt_bound_chain *chains; /* scratch */
};

enum detour_status dt_bound_create(struct dt_call *call, const struct dt_shop *shop, struct dt_bound **bound);

/*
 * Takes lower bounds of problems with fewer microbatches into account: least_ns[n] for n of them, 0 if none
 * is known, up to microbatch_count - 1. All of the last n have to pass behind the start of the first one's F
 * on stage 0.
 */
void dt_bound_raise(struct dt_bound *bound, const int64_t *least_ns);

/* No completion of the state has a smaller makespan. Fills bound->device_ns. */
int64_t dt_bound_ns(struct dt_bound *bound, const struct dt_shop_state *state);

#ifdef __cplusplus
}
#endif

#endif
