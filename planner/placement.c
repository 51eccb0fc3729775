/* SPDX-License-Identifier: Apache-2.0 */
/* The placements that have a name. */
#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "detour/model.h"
#include "sched/call.h"

static const char *const names[DETOUR_PLACEMENT_COUNT] = {"sequential", "interleaved", "wave"};

const char *detour_placement_name(enum detour_placement placement)
{
    return (unsigned)placement < DT_COUNT_OF(names) ? names[placement] : NULL;
}

bool detour_placement_find(const char *name, enum detour_placement *placement)
{
    for (size_t i = 0; i < DT_COUNT_OF(names); i++) {
        if (!strcmp(name, names[i])) {
            *placement = (enum detour_placement)i;
            return true;
        }
    }
    return false;
}

enum detour_status detour_placement_fill(enum detour_placement placement, int32_t stage_count,
                                         int32_t device_count, int32_t *device, struct detour_error *error)
{
    if ((unsigned)placement >= DETOUR_PLACEMENT_COUNT || device_count < 1)
        return dt_error_set(error, DETOUR_INVALID, "no such placement");
    if (stage_count < 1 || stage_count % device_count ||
        (placement == DETOUR_PLACEMENT_SEQUENTIAL && stage_count != device_count))
        return dt_error_set(
            error, DETOUR_UNSUPPORTED,
            "%s needs %s as many stages as devices; there are %" PRId32 " stages and %" PRId32 " devices",
            names[placement], placement == DETOUR_PLACEMENT_SEQUENTIAL ? "exactly" : "one or more times",
            stage_count, device_count);
    for (int32_t i = 0; i < stage_count; i++) {
        bool backwards = placement == DETOUR_PLACEMENT_WAVE && i / device_count % 2 == 1;
        device[i] = backwards ? device_count - 1 - i % device_count : i % device_count;
    }
    return DETOUR_OK;
}
