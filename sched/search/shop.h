/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The problem as a job shop, for the algorithms that search: devices are machines, and each kind of operation
 * of a stage is a chain that runs in the order of the microbatches. Microbatches are interchangeable, so
 * nothing is lost by that order, and a partial schedule is described by how many operations of each chain
 * have been placed, when each device is free, and when the messages in progress arrive.
 *
 * Operations are placed as Giffler and Thompson do ("Algorithms for solving production-scheduling problems",
 * 1960): of all operations whose inputs are known, take the one that could finish first; on its device only
 * operations that could start before that finish may come next. Some best schedule is among those made so.
 */
#ifndef DETOUR_SCHED_SEARCH_SHOP_H
#define DETOUR_SCHED_SEARCH_SHOP_H

#include "sched/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_shop {
    const struct dt_problem *p;
    const struct dt_timeline *start; /* what has been done already; nothing, as a rule */
    int64_t origin_ns;               /* from which the makespan counts */
    int32_t op_count;                /* operations to place; BW counts as two */
    int32_t moves_max;               /* at one time */
    /* Most microbatches between the start of F and the end of B, and of W; what memory of all kinds implies.
     */
    int32_t *limit_b; /* [stage] */
    int32_t *limit_w; /* [stage] */
    bool *fuses;      /* [stage]: BW is worth trying */
    /* Durations that no mix of B, W and BW undercuts: BW is never shorter than the two together. */
    int64_t *low_b_ns; /* [stage] */
    int64_t *low_w_ns; /* [stage] */
    bool *guarded;     /* [device]: microbatches could block each other's memory there */
    size_t state_bytes;
    bool complete; /* a best schedule is known to be among those that the placing rule makes */
};

/* A partial schedule. One block of memory, shop->state_bytes long: see dt_shop_copy(). */
struct dt_shop_state {
    int32_t *done[3];    /* [F, B, W][stage]: placed; a BW counts as a B and a W */
    int64_t *free_ns;    /* [device]: finish of the operation placed last */
    int64_t *last_w_ns;  /* [device]: start of that one if it is a W, else -1 */
    int64_t *held_bytes; /* [device] */
    int64_t *link_f_ns;  /* [stage]: the link behind the stage is occupied until then */
    int64_t *link_b_ns;  /* [stage]: the link before the stage */
    int64_t *input_f_ns; /* [cell]: when the input is there, for those whose producer has been placed */
    int64_t *input_b_ns; /* [cell] */
    int32_t placed;      /* operations; BW counts as two */
};

/* An operation that may come next, or has been placed. */
struct dt_shop_move {
    int64_t start_ns;
    int16_t stage;
    uint8_t kind;  /* enum detour_op_kind */
    bool wasteful; /* see dt_shop_moves() */
};

/* What undoing a move needs. */
struct dt_shop_undo {
    int64_t free_ns;
    int64_t last_w_ns;
    int64_t link_ns;
};

static inline size_t dt_shop_cell(const struct dt_shop *shop, int32_t stage, int32_t microbatch)
{
    return (size_t)stage * (size_t)shop->p->microbatch_count + (size_t)microbatch;
}

/* The shop in which everything that is not yet in `start` is to be placed. Keeps `start`. DETOUR_NO_MEMORY.
 */
enum detour_status dt_shop_create(struct dt_call *call, const struct dt_timeline *start,
                                  struct dt_shop **shop);

/* The state in which nothing has been placed. NULL when out of memory. */
struct dt_shop_state *dt_shop_state_create(struct dt_call *call, const struct dt_shop *shop);

void dt_shop_copy(const struct dt_shop *shop, struct dt_shop_state *to, const struct dt_shop_state *from);

/*
 * The moves that may come next, all of one device, ordered by stage and kind; 0 only when everything has been
 * placed. A move that follows a W whose place it could have taken is marked as wasteful: an exhaustive search
 * need not try it, because the two the other way round are never worse.
 */
int32_t dt_shop_moves(const struct dt_shop *shop, const struct dt_shop_state *state,
                      struct dt_shop_move *moves);

void dt_shop_place(const struct dt_shop *shop, struct dt_shop_state *state, const struct dt_shop_move *move,
                   struct dt_shop_undo *undo);

/* Takes back the operation placed last. */
void dt_shop_take_back(const struct dt_shop *shop, struct dt_shop_state *state,
                       const struct dt_shop_move *move, const struct dt_shop_undo *undo);

/* From the origin to the last finish on any device. */
int64_t dt_shop_makespan_ns(const struct dt_shop *shop, const struct dt_shop_state *state);

#ifdef __cplusplus
}
#endif

#endif
