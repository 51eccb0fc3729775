/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of a device: one 64-bit integer for each gradient (pipeline/gradients.h). At the start they
 * follow from the device; each iteration adds the sums of its gradients. So they are known after every
 * iteration and are the same whoever has held them.
 */
#ifndef DETOUR_CLI_PIPELINE_PARAMETERS_H
#define DETOUR_CLI_PIPELINE_PARAMETERS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dt_pipeline_parameters {
    uint64_t *elements; /* NULL: none */
    uint64_t count;
};

/* False when out of memory. */
bool dt_pipeline_parameters_create(struct dt_pipeline_parameters *parameters, int32_t device, uint64_t count);
void dt_pipeline_parameters_free(struct dt_pipeline_parameters *parameters);

/* After an iteration; sums: [count]. */
void dt_pipeline_parameters_add(struct dt_pipeline_parameters *parameters, const uint64_t *sums);

/* False when an element is not what `device` has after that many iterations of `microbatches` each, of all
 * replicas; *wrong is the first one. */
bool dt_pipeline_parameters_check(const struct dt_pipeline_parameters *parameters, int32_t device,
                                  uint32_t iterations, int32_t microbatches, uint64_t *wrong);

#ifdef __cplusplus
}
#endif

#endif
