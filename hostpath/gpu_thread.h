/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of dt_gpus (gpu.h): when dt_gpus_run() is called. */
#ifndef DETOUR_HOSTPATH_GPU_THREAD_H
#define DETOUR_HOSTPATH_GPU_THREAD_H

#include "hostpath/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Under gpus->mutex. True when it runs, or is not to; false (one WARN): it cannot be started. */
bool dt_gpu_thread_start(struct dt_gpus *gpus);

/* Ends it when nothing is left to copy, or after two seconds. Harmless when it does not run. */
void dt_gpu_thread_stop(struct dt_gpus *gpus);

#ifdef __cplusplus
}
#endif

#endif
