/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A partition that a search changes, and what is known about it before a schedule is made.
 *
 * dt_space is a model made ready for the search: sums over layers in O(1). dt_pipeline_estimate() is
 * O(stages) and takes about a microsecond where a schedule takes milliseconds, so that most partitions are
 * dismissed by it.
 */
#ifndef DETOUR_PLANNER_PIPELINE_H
#define DETOUR_PLANNER_PIPELINE_H

#include "detour/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Prefix sums over the layers, layer_count + 1 entries each: layers a .. b - 1 have x[b] - x[a]. */
struct dt_space {
    const struct detour_model *model;
    int32_t stages_max;        /* the search makes no more */
    int64_t *f_ns;             /* of nominal speed, like all times here */
    int64_t *b_ns;             /* of B or, where that is shorter, of BW */
    int64_t *work_ns;          /* F and the shorter of B + W and BW */
    int64_t *static_bytes;     /* parameters, gradients, optimizer state */
    int64_t *activation_bytes; /* of one microbatch */
    int64_t *exchange_bytes;   /* parameters and gradients */
};

/* As struct detour_partition, but with room for stages_max stages. */
struct dt_pipeline {
    int32_t stage_count;
    int32_t *first_layer; /* stages_max + 1 */
    int32_t *device;      /* stages_max */
};

/* No iteration with the partition is shorter than bound_ns, and no schedule exists while over_bytes is
 * positive. */
struct dt_estimate {
    int64_t bound_ns;
    int64_t over_bytes;  /* by which the fullest device exceeds its memory with one microbatch; 0: fits */
    int32_t over_device; /* that device */
    int32_t busiest;     /* the device that determines bound_ns; -1: the chain of one microbatch */
    double spread;       /* sum of squares of the devices' bounds, for partitions with equal bounds */
};

/* In the arena. `model` has been checked and outlives the space. DETOUR_NO_MEMORY. */
enum detour_status dt_space_create(struct detour_arena *arena, const struct detour_model *model,
                                   struct dt_space **space, struct detour_error *error);

/* An empty pipeline with room; NULL when out of memory. */
struct dt_pipeline *dt_pipeline_create(struct detour_arena *arena, const struct dt_space *space);

void dt_pipeline_copy(struct dt_pipeline *to, const struct dt_pipeline *from);

/* The public view; valid as long as the pipeline does not change. */
struct detour_partition dt_pipeline_partition(const struct dt_pipeline *pipeline);

/* [device]: how long it exchanges with its replicas. */
void dt_pipeline_exchanges(const struct dt_space *space, const struct dt_pipeline *pipeline,
                           int64_t *exchange_ns);

struct dt_estimate dt_pipeline_estimate(const struct dt_space *space, const struct dt_pipeline *pipeline);

/* < 0 if `a` is the better one: less memory over the limit, then the lower bound, then the evener load. */
int dt_estimate_compare(const struct dt_estimate *a, const struct dt_estimate *b);

#ifdef __cplusplus
}
#endif

#endif
