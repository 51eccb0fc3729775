/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/parameters.h"

#include <stdlib.h>

#include "pipeline/gradients.h"
#include "pipeline/payload.h"

static uint64_t first_of(int32_t device, uint64_t index)
{
    return dt_pipeline_mix(((uint64_t)device + 1) << 48 ^ index);
}

bool dt_pipeline_parameters_create(struct dt_pipeline_parameters *parameters, int32_t device, uint64_t count)
{
    parameters->elements = calloc(count, sizeof *parameters->elements);
    parameters->count = count;
    for (uint64_t i = 0; parameters->elements && i < count; i++)
        parameters->elements[i] = first_of(device, i);
    return parameters->elements;
}

void dt_pipeline_parameters_free(struct dt_pipeline_parameters *parameters)
{
    free(parameters->elements);
    *parameters = (struct dt_pipeline_parameters){0};
}

void dt_pipeline_parameters_add(struct dt_pipeline_parameters *parameters, const uint64_t *sums)
{
    for (uint64_t i = 0; i < parameters->count; i++)
        parameters->elements[i] += sums[i];
}

bool dt_pipeline_parameters_check(const struct dt_pipeline_parameters *parameters, int32_t device,
                                  uint32_t iterations, int32_t microbatches, uint64_t *wrong)
{
    uint64_t factor = 0;

    for (uint32_t i = 0; i < iterations; i++)
        factor += dt_gradients_factor(device, i, 0, microbatches);
    for (uint64_t i = 0; i < parameters->count; i++) {
        if (parameters->elements[i] == first_of(device, i) + dt_gradients_element(factor, i))
            continue;
        *wrong = i;
        return false;
    }
    return true;
}
