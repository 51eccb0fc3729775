/* SPDX-License-Identifier: Apache-2.0 */
/* What a device thread keeps of a device that is dead, or was (reopen.h). */
#ifndef DETOUR_TRANSPORT_REOPEN_STATE_H
#define DETOUR_TRANSPORT_REOPEN_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/path/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_device;

enum dt_reopen_state { DT_REOPEN_IDLE, DT_REOPEN_BUSY, DT_REOPEN_DONE };

struct dt_reopen {
    struct dt_task task;
    uint32_t state;           /* enum dt_reopen_state; the task takes BUSY to DONE [atomic] */
    bool has_old;             /* contexts of before are open */
    struct dt_device *opened; /* by the task; NULL: not now */
    bool is_refused;          /* by the device, which is there [the same] */
    uint32_t old_count;       /* contexts of before [the same] */
    uint64_t next_ns;         /* while it is dead */
    uint64_t next_old_ns;     /* while it works */
};

#ifdef __cplusplus
}
#endif

#endif
