/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/mode.h"

#include <string.h>

#include "base/util.h"

static const char *const names[] = {
#define MODE_NAME(name, text) text,
    DT_PIPELINE_MODE_LIST(MODE_NAME)
#undef MODE_NAME
};

const char *dt_pipeline_mode_name(enum dt_pipeline_mode mode)
{
    return (unsigned)mode < DT_COUNT_OF(names) ? names[mode] : NULL;
}

bool dt_pipeline_mode_find(const char *name, enum dt_pipeline_mode *mode)
{
    for (unsigned i = 0; i < DT_COUNT_OF(names); i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *mode = (enum dt_pipeline_mode)i;
        return true;
    }
    return false;
}

static const struct dt_pipeline_launch launches[] = {
    {.name = "sends"},
    {.name = "isend", .has_kernels = true, .is_per_pair = true},
    {.name = "isend-free", .has_kernels = true, .is_per_pair = true, .is_free = true},
    {.name = "batched", .has_kernels = true, .batches = true},
    {.name = "batched-free", .has_kernels = true, .batches = true, .is_free = true},
};

const struct dt_pipeline_launch *dt_pipeline_launch_at(unsigned index)
{
    return index < DT_COUNT_OF(launches) ? &launches[index] : NULL;
}

const struct dt_pipeline_launch *dt_pipeline_launch_find(const char *name)
{
    for (unsigned i = 0; i < DT_COUNT_OF(launches); i++)
        if (!strcmp(name, launches[i].name))
            return &launches[i];
    return NULL;
}
