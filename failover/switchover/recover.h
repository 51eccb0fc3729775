/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovery of failed paths: when an attempt begins (failover/recovery.h), the probes that show whether fresh
 * queue pairs work, and the destruction of retired ones. Device thread, as the owner.
 */
#ifndef DETOUR_FAILOVER_SWITCHOVER_RECOVER_H
#define DETOUR_FAILOVER_SWITCHOVER_RECOVER_H

#include <stdint.h>

#include "failover/switchover/state.h"
#include "failover/path_machine.h"
#include "transport/message/connection.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Begins to probe the path's fresh queue pairs. */
void dt_recover_begin_probing(struct dt_path *path, uint64_t now_ns);

/* RECOVER (time for an attempt), STABLE or FAILED when that was decided now, else DT_PATH_EVENT_COUNT. */
enum dt_path_event dt_recover_progress(struct dt_path *path, uint64_t now_ns);

/* Destroys queue pairs of earlier epochs once DETOUR_LATE_MS are over: no late packet carries their numbers.
 */
void dt_recover_retire(struct dt_path *path, uint64_t now_ns);

/* The control thread's task is done, and the device refused to destroy a queue pair: again after as long. */
void dt_recover_retire_again(struct dt_path *path, uint64_t now_ns);

/* The next time at which these functions have work. */
uint64_t dt_recover_deadline_ns(const struct dt_path *path, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
