/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failover, the doing of it: what failover/ decides about each path of a connection is carried out here, by
 * Detour's thread, while it is the connection's owner.
 *
 *   switch.c           faults and messages in, table (failover/path_table.h), actions and messages out
 *   switch_fence.c     the search for the proof that an epoch of a path is fenced
 *   switch_sender.c    settling: what the receiver has is done, the rest is posted again
 *   switch_rewind.c    posting again, by either engine of failover/rewind.h
 *   switch_receiver.c  what was received, and publishing open receives again
 *
 * Nothing here runs while all paths are UP and nothing is suspect.
 */
#ifndef DETOUR_TRANSPORT_SWITCH_H
#define DETOUR_TRANSPORT_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/connection.h"

#ifdef __cplusplus
extern "C" {
#endif

/* After set-up, before the first call: the machines start as the paths are. */
void dt_switch_start(struct dt_connection *connection, uint64_t now_ns);

/* Is there something to be done now? Called by Detour's thread, under nic->mutex, without ownership. */
bool dt_switch_is_due(const struct dt_connection *connection, uint64_t now_ns);

/* Does it. Detour's thread, as the owner, under nic->mutex. */
void dt_switch_progress(struct dt_connection *connection, uint64_t now_ns);

/* A path's fault is being dealt with: others that have time let it pass. */
bool dt_switch_is_hurried(const struct dt_connection *connection, uint64_t now_ns);

/*
 * Writes reports of switches (switch_report.h) that are due, at most *lines_left, which it counts down.
 * Called by Detour's thread, under nic->mutex, without ownership.
 */
void dt_switch_report(struct dt_connection *connection, uint64_t now_ns, uint32_t *lines_left);

/* The control channel is a new one: what is being repeated is said at the next look. */
void dt_switch_say_again(struct dt_connection *connection, uint64_t now_ns);

/* When there will be something to do, if nothing happens before. */
uint64_t dt_switch_deadline_ns(const struct dt_connection *connection, uint64_t now_ns);

/* ------------------------------------------------------------------------------------------------------------
 * Between the files of the switch
 */

/* Starts to fence the path's queue pairs. */
void dt_switch_fence(struct dt_path *path, uint64_t now_ns);

/* Looks for the proof. FENCED or UNFENCED when there is news, else DT_PATH_EVENT_COUNT. */
enum dt_path_event dt_switch_fence_progress(struct dt_path *path, uint64_t now_ns);

/* Counts what a job of the control thread did for the fence. */
void dt_switch_fence_told(struct dt_path *path, uint64_t now_ns);
void dt_switch_fence_destroyed(struct dt_path *path);

/* Takes the completions of a path that is not UP: what succeeded counts. */
void dt_switch_drain(struct dt_path *path);

/* Sender: decides every message that was last posted on the path's epoch, by path->resume. */
struct dt_switch_settled dt_switch_settle(struct dt_path *path);

/*
 * Sender: posts READY messages that were last posted on `from`, on paths that are up. Returns how many have
 * no path or no room now.
 */
uint32_t dt_switch_rewind(struct dt_path *from, struct dt_send_slot *const *slots, uint32_t count,
                          uint32_t *engines);

/* Receiver: forgets parts that came over the path, and marks the receives that were published over it. */
uint32_t dt_switch_forget(struct dt_path *path);

/* Receiver: the loopback queue pair goes with its epoch; the next flush that needs one makes it anew. */
struct dt_flush *dt_switch_retire_flush(struct dt_path *path);

/* Receiver: what it has, into path->resume. */
void dt_switch_snapshot(struct dt_path *path);

#ifdef __cplusplus
}
#endif

#endif
