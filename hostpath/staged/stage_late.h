/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage of a sender: copies out of a GPU that are late. The driver may hold a copy back for as long as a
 * kernel runs: an application's thread in a synchronizing call (cudaFree) keeps the driver's lock until the
 * GPU is idle, and the kernel may wait for this very message. So after DT_STAGE_LATE_NS a message no longer
 * waits for its copy: the bytes that were not posted yet are sent directly from the GPU's memory, as without
 * the host path, and the isend is done when the message is delivered.
 *
 * The copy cannot be stopped in the driver. Nothing reads what it still writes: its place in the pool, and
 * its entry, are not used again before its end. No further chunk of it is started.
 *
 * All functions: owner of the connection.
 */
#ifndef DETOUR_HOSTPATH_STAGED_STAGE_LATE_H
#define DETOUR_HOSTPATH_STAGED_STAGE_LATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "hostpath/staged/stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* From the isend on. A copy of the largest message takes some milliseconds. */
#define DT_STAGE_LATE_NS (250 * DT_NS_PER_MS)

/*
 * Part `i` of the message, READY or PARTIAL, has this entry: if its copy is late, and the path that the
 * message takes can read the GPU's memory, the part is sent directly from now on.
 */
void dt_stage_late_check(struct dt_sender *sender, struct dt_send_slot *slot, uint32_t i,
                         struct dt_staged *entry);

/* Entries in stage->late whose copies have ended are free again, with their places in the pool. */
void dt_stage_late_collect(struct dt_stage *stage);

/* A copy is late and has not ended: isends of GPU memory go directly meanwhile. */
bool dt_stage_late_is_any(struct dt_stage *stage);

#ifdef __cplusplus
}
#endif

#endif
