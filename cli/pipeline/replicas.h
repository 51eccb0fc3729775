/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replicas of a pipeline (--dp), which sum up their gradients at the end of each iteration: the
 * all-reduce of a run's options (pipeline/gradients.h), and its time (pipeline/ring_model.h). Pure.
 */
#ifndef DETOUR_CLI_PIPELINE_REPLICAS_H
#define DETOUR_CLI_PIPELINE_REPLICAS_H

#include "cli/pipeline/options.h"
#include "pipeline/gradients.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As NCCL's slots: transfers of a direction at a time, and most bytes of one. */
#define DT_PIPELINE_GRADIENT_SLOTS       8
#define DT_PIPELINE_GRADIENT_SLICE_BYTES (512 * 1024)

/* The all-reduce of the gradients of all stages of a device. first_flow is left 0. */
struct dt_gradients_options dt_pipeline_replicas_gradients(const struct dt_pipeline_options *options,
                                                           const struct detour_profile *profile,
                                                           struct dt_pipeline_position position);

/*
 * When the last device has the sums of all its gradients; ended_ns: [rank], the end of its pipeline. Without
 * replicas, the last of these. -1 when out of memory.
 */
int64_t dt_pipeline_replicas_end_ns(const struct dt_pipeline_options *options,
                                    const struct detour_profile *profile, uint32_t iteration,
                                    const int64_t *ended_ns);

#ifdef __cplusplus
}
#endif

#endif
