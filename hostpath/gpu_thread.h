/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of dt_gpus (gpu.h), which calls dt_gpus_run(). */
#ifndef DETOUR_HOSTPATH_GPU_THREAD_H
#define DETOUR_HOSTPATH_GPU_THREAD_H

#include "hostpath/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Under gpus->mutex. True: it runs, or none is wanted (has_threads); false (one WARN): it cannot be started.
 */
bool dt_gpu_thread_start(struct dt_gpus *gpus);

/* Stops it once all copies are complete, or after two seconds. No effect if it does not run. */
void dt_gpu_thread_stop(struct dt_gpus *gpus);

#ifdef __cplusplus
}
#endif

#endif
