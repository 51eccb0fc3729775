/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking failed paths back: when an attempt begins (failover/recovery.h), the probes that show whether fresh
 * queue pairs work, and the end of the old ones. Detour's thread, as the owner.
 */
#ifndef DETOUR_TRANSPORT_RECOVER_H
#define DETOUR_TRANSPORT_RECOVER_H

#include <stdint.h>

#include "failover/path_machine.h"
#include "transport/connection.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Begins to prove the path. */
void dt_recover_prove(struct dt_path *path, uint64_t now_ns);

/* What has come of it: RECOVER, STABLE or FAILED, else DT_PATH_EVENT_COUNT. */
enum dt_path_event dt_recover_progress(struct dt_path *path, uint64_t now_ns);

/* Destroys queue pairs of earlier epochs whose numbers need not be kept any more. */
void dt_recover_retire(struct dt_path *path, uint64_t now_ns);

/* When it wants to be called again. */
uint64_t dt_recover_deadline_ns(const struct dt_path *path, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
