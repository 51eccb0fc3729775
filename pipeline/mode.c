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
