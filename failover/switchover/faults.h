/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The causes of a switchover: faults that make a path suspect, hints that a port has a link again, and a
 * connection without any path. Device thread, as the connection's owner, under nic->mutex.
 */
#ifndef DETOUR_FAILOVER_SWITCHOVER_FAULTS_H
#define DETOUR_FAILOVER_SWITCHOVER_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/message/connection.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Takes connection->faults: each path with one is fenced, unless the fault may wait for another path. */
void dt_faults_process(struct dt_connection *connection, uint64_t now_ns);

/*
 * The path has failed. A receiver whose device still receives has the sender stop first: some devices discard
 * completions that were not polled when their queue pair enters the error state, and with them messages that
 * the sender counts as acknowledged.
 */
void dt_faults_begin(struct dt_path *path, uint64_t now_ns);

/* Receiver: whether the path's device still receives, and SWITCH can come: the sender has neither closed nor
 * died. */
bool dt_faults_may_await_switch(const struct dt_path *path);

/* Receiver: fences a path whose sender has not stopped within DETOUR_FENCE_MS, or cannot stop any more. */
void dt_faults_expire_stop(struct dt_path *path, uint64_t now_ns);

/* Takes connection->hints: a sender tries the path soon, a receiver asks the sender to. */
void dt_hints_process(struct dt_connection *connection, uint64_t now_ns);

/*
 * Whether the path is drained (dt_path_is_drained()) and another path is up: then this one, which is not, is
 * not tried. Without ownership.
 */
bool dt_faults_is_out_of_use(const struct dt_path *path);

/* Fails the connection once no path has been UP for DETOUR_DEAD_MS. */
void dt_faults_watch_pathless(struct dt_connection *connection, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
