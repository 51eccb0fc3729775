/* SPDX-License-Identifier: Apache-2.0 */
/* The small changes of a pipeline that a search tries. What the model fixes never changes. */
#ifndef DETOUR_PLANNER_MOVE_H
#define DETOUR_PLANNER_MOVE_H

#include "base/prng.h"
#include "planner/pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

enum dt_move_kind {
    DT_MOVE_CUT,   /* the cut before stage `a` moves by `b` layers */
    DT_MOVE_SHIFT, /* stage `a` gives one layer to stage `b`, all cuts in between move by one */
    DT_MOVE_PLACE, /* stage `a` goes to device `b` */
    DT_MOVE_SWAP,  /* stages `a` and `b` exchange devices */
    DT_MOVE_TRADE, /* devices `a` and `b` exchange all their stages */
    DT_MOVE_SPLIT, /* the layers of stage `a` from layer `b` on become a stage on device `c` */
    DT_MOVE_MERGE, /* stages `a` and a + 1 become one on device `b` */
    DT_MOVE_KINDS,
};

struct dt_move {
    uint8_t kind;
    int32_t a;
    int32_t b;
    int32_t c;
};

/* Which kinds the model's fixed parts and the parts to be tuned (DETOUR_TUNE_...) leave, as a mask of kinds.
 */
unsigned dt_moves_allowed(const struct dt_space *space, int parts);

/* Applies the move in place; false, with the pipeline as it was, if the result would not be a valid
 * partition. */
bool dt_move_apply(const struct dt_space *space, struct dt_pipeline *pipeline, const struct dt_move *move);

/* A move of one of the allowed kinds, which need not be valid. */
struct dt_move dt_move_draw(const struct dt_space *space, const struct dt_pipeline *pipeline,
                            unsigned allowed, struct dt_prng *prng);

/*
 * All moves of the allowed kinds that change the load of device `busiest` (-1: any), and all cuts by one. At
 * most `room`; returns how many.
 */
size_t dt_moves_list(const struct dt_space *space, const struct dt_pipeline *pipeline, unsigned allowed,
                     int32_t busiest, struct dt_move *moves, size_t room);

#ifdef __cplusplus
}
#endif

#endif
