/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failover: carries out the decisions of failover/ about each path of a connection. Device thread,
 * while it is the connection's owner, under nic->mutex, except where a function says otherwise. Nothing here
 * runs while all paths are UP and no path is suspect.
 *
 *   switchover.c    the driver: faults, frames and finished tasks in; deadlines out
 *   actions.c       one step of a path's machine (failover/path_table.h)
 *   faults.c        why a path is suspect, and a connection without a path
 *   fencing.c       the search for the proof that an epoch is fenced
 *   settle.c        sender: messages of a fenced epoch are complete, or posted again
 *   replay.c        sender: posts them again, by either engine of failover/replay.h
 *   republish.c     receiver: the snapshot of arrivals, and open receives published again
 *   recover.c       probes of fresh queue pairs, and the end of retired ones
 *   stall_watch.c   gray failure: no progress although no fault is reported
 *   invariants.c    conditions that hold after every round
 *   report.c        one line and one event for each switchover
 */
#ifndef DETOUR_FAILOVER_SWITCHOVER_SWITCHOVER_H
#define DETOUR_FAILOVER_SWITCHOVER_SWITCHOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "failover/switchover/state.h"
#include "transport/message/connection.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the failover state of a new connection, before its paths are used. DT_NO_MEMORY. */
enum dt_status dt_switchover_create(struct dt_connection *connection);

/* After set-up, before the first data call: starts the machines in the state of their paths. */
void dt_switchover_start(struct dt_connection *connection, uint64_t now_ns);

/* Whether dt_switchover_progress() has work now. Without ownership. */
bool dt_switchover_is_due(const struct dt_connection *connection, uint64_t now_ns);

/* Does the work that is due. */
void dt_switchover_progress(struct dt_connection *connection, uint64_t now_ns);

/* Whether a switchover has begun lately and is not over: work that has time waits for it. Without ownership.
 */
bool dt_switchover_is_hurried(const struct dt_connection *connection, uint64_t now_ns);

/*
 * Writes the reports (report.h) that are due, at most *lines_left, which it counts down. Without ownership.
 */
void dt_switchover_write_reports(struct dt_connection *connection, uint64_t now_ns, uint32_t *lines_left);

/* The out-of-band channel was replaced: messages that are retransmitted are due at once. */
void dt_switchover_resend(struct dt_connection *connection, uint64_t now_ns);

/* The next time at which there is work, unless something happens before. Without ownership. */
uint64_t dt_switchover_deadline_ns(const struct dt_connection *connection, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
