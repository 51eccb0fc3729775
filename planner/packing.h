/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers are not divisible: can all of them be packed into devices with these limits? Layers of equal work
 * are a class, and models have few classes, so that a dynamic program over the counts of the classes answers
 * exactly: for every count of all classes but one, the most layers of that last class that fit beside them.
 */
#ifndef DETOUR_PLANNER_PACKING_H
#define DETOUR_PLANNER_PACKING_H

#include "planner/pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DT_PACKING_CLASSES_MAX = 6 };

/* What a layer adds to a bin, and what a bin has room for. */
enum dt_packing_limit {
    DT_PACKING_WORK,  /* ns */
    DT_PACKING_LATER, /* of it, what a bin counts that has to wait; at most the work */
    DT_PACKING_BYTES,
    DT_PACKING_LIMITS,
};

/* Not negative for a layer; a bin with a negative one holds nothing. */
struct dt_packing_sizes {
    int64_t of[DT_PACKING_LIMITS];
};

/* Layers with more classes than that are merged with the next lighter ones, which can only make packing
 * easier. */
struct dt_packing {
    int32_t class_count;
    struct dt_packing_sizes size[DT_PACKING_CLASSES_MAX]; /* work is positive; of the others the class's
                                                             least; the most frequent class is the last */
    int32_t count[DT_PACKING_CLASSES_MAX];
    size_t states; /* of the table: counts of all classes but the last */
    int32_t *table;
    int32_t *next;
};

/* `layers`: the one with the most work first. In the arena; DETOUR_NO_MEMORY. */
enum detour_status dt_packing_create(struct detour_arena *arena, const struct dt_packing_sizes *layers,
                                     int32_t layer_count, struct dt_packing *packing,
                                     struct detour_error *error);

/*
 * False if no assignment of the layers leaves every bin within its limits. True if there is one, or if
 * the answer would take too long, which is the case where a bin holds many layers and their size hardly
 * matters.
 */
bool dt_packing_fits(struct dt_packing *packing, const struct dt_packing_sizes *bins, int32_t bin_count);

#ifdef __cplusplus
}
#endif

#endif
