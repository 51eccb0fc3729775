/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiver's part of a switchover. Receives need no replay, since the immediate names the message: the
 * parts that arrived over a fenced epoch are discarded or reported in RESUME, and open receives are published
 * over another path. All functions: owner.
 */
#ifndef DETOUR_FAILOVER_SWITCHOVER_REPUBLISH_H
#define DETOUR_FAILOVER_SWITCHOVER_REPUBLISH_H

#include <stdint.h>

#include "transport/path/path.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The epoch is fenced: discards the parts of unfinished messages that arrived over it, and marks the receives
 * that were published over it. Returns how many those are.
 */
uint32_t dt_republish_discard(struct dt_path *path);

/* Fills path->switchover->resume: the messages that are complete. */
void dt_republish_snapshot(struct dt_path *path);

/*
 * Takes the loopback queue pair out of use with its epoch; the next flush that needs one makes a new one.
 * Returns it, or NULL.
 */
struct dt_flush *dt_republish_retire_flush(struct dt_path *path);

#ifdef __cplusplus
}
#endif

#endif
