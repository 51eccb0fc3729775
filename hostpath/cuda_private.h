/* SPDX-License-Identifier: Apache-2.0 */
/* What cuda.c and cuda_lane.c share. */
#ifndef DETOUR_HOSTPATH_CUDA_PRIVATE_H
#define DETOUR_HOSTPATH_CUDA_PRIVATE_H

#include "hostpath/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_cuda_gpu {
    const struct dt_cuda_table *table;
    int ordinal;
    int device;
    void *context; /* primary, retained */
};

/*
 * Makes the GPU's context the calling thread's and lets it work beside stream captures; the result of the
 * former. dt_cuda_leave() undoes both.
 */
int dt_cuda_enter(const struct dt_cuda_gpu *gpu, int *capture_mode);
void dt_cuda_leave(const struct dt_cuda_gpu *gpu, int capture_mode, int entered);

/* The driver's words for a result. */
const char *dt_cuda_text(const struct dt_cuda_table *table, int result);

#ifdef __cplusplus
}
#endif

#endif
