/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for the proof that an epoch of a path is fenced (failover/fence.h): moves its queue pairs to ERR
 * on the control thread, posts markers, counts what is flushed, and has the queue pairs destroyed when the
 * device does neither. Device thread, as the connection's owner, under nic->mutex.
 */
#ifndef DETOUR_FAILOVER_SWITCHOVER_FENCING_H
#define DETOUR_FAILOVER_SWITCHOVER_FENCING_H

#include <stdint.h>

#include "failover/path_machine.h"
#include "transport/path/path.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Begins to fence the path's queue pairs. The path is not used any more. */
void dt_fencing_begin(struct dt_path *path, uint64_t now_ns);

/* FENCED or UNFENCED when that was decided now, else DT_PATH_EVENT_COUNT. */
enum dt_path_event dt_fencing_progress(struct dt_path *path, uint64_t now_ns);

/* The control thread's task is done: the queue pairs were moved to ERR; or they were destroyed, or the device
 * refused that, and it is tried again later. */
void dt_fencing_requested(struct dt_path *path, uint64_t now_ns);
void dt_fencing_destroyed(struct dt_path *path, bool is_good, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
