/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of a grid of replicas x devices: the ranks of a replica follow each other. */
#ifndef DETOUR_PIPELINE_GRID_H
#define DETOUR_PIPELINE_GRID_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A device of one replica of the pipeline. */
struct dt_pipeline_position {
    int32_t device;
    int32_t replica;
};

/* devices: of one replica. */
static inline unsigned dt_pipeline_rank_of(int32_t devices, struct dt_pipeline_position position)
{
    return (unsigned)(position.replica * devices + position.device);
}

static inline struct dt_pipeline_position dt_pipeline_position_of(int32_t devices, unsigned rank)
{
    struct dt_pipeline_position position = {(int32_t)rank % devices, (int32_t)rank / devices};

    return position;
}

#ifdef __cplusplus
}
#endif

#endif
