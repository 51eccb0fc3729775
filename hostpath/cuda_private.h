/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by cuda.c and cuda_lane.c. */
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
 * Makes the GPU's context current and sets the capture mode in which driver calls and stream captures
 * coexist. Returns the result of the first call. dt_cuda_leave() undoes both.
 */
int dt_cuda_enter(const struct dt_cuda_gpu *gpu, int *capture_mode);
void dt_cuda_leave(const struct dt_cuda_gpu *gpu, int capture_mode, int entered);

/* The driver's error text for a result. */
const char *dt_cuda_text(const struct dt_cuda_table *table, int result);

#ifdef __cplusplus
}
#endif

#endif
