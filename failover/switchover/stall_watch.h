/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver of gray-failure detection (failover/stall.h): paths in use whose work makes no progress are
 * probed together with the others, the peer is queried for the message, and the device, on its control
 * thread, for its queue pairs. Device thread, as the owner, every quarter of DETOUR_STALL_MS while requests
 * are open or NCCL calls in vain.
 */
#ifndef DETOUR_FAILOVER_SWITCHOVER_STALL_WATCH_H
#define DETOUR_FAILOVER_SWITCHOVER_STALL_WATCH_H

#include <stdint.h>

#include "failover/switchover/post.h"
#include "failover/switchover/state.h"
#include "transport/message/connection.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the next look is due. Without ownership. */
bool dt_stall_watch_is_due(const struct dt_connection *connection, uint64_t now_ns);
/* When it is, if a request is open then. */
uint64_t dt_stall_watch_due_ns(const struct dt_connection *connection);

/*
 * Once a round, without ownership: whether NCCL has called since the last one, and since when it has not.
 */
void dt_stall_watch_visits(struct dt_connection *connection, bool is_called, uint64_t idle_since_ns,
                           uint64_t now_ns);

/* The same for a connection that no round has visited for a while, because NCCL has not called it. */
void dt_stall_watch_rested(struct dt_connection *connection, uint64_t now_ns);

/* The peer queries a message, or answers such a query (connection->switchover->fact). As the owner. */
void dt_stall_watch_receive(struct dt_connection *connection, uint64_t now_ns);

/* The query of the path's queue pairs is done (path->stopped_qpn). As the owner. */
void dt_stall_watch_queried(struct dt_path *path);

/* One look. Returns the path that has failed, with its `why`, or NULL. As the owner. */
struct dt_path *dt_stall_watch_progress(struct dt_connection *connection, uint64_t now_ns);

/*
 * Device thread: posts a frame, or without one (NULL) a probe, on the path's probe queue pair, and stores the
 * time if nothing of that queue pair was outstanding. is_last: the last frame of the connection. False: the
 * path is not up, or its device refuses. The answer to either proves that the peer's process lives: nothing
 * of the probe queue pair is outstanding then, and nothing of it has failed.
 */
bool dt_stall_watch_post(struct dt_path *path, const struct dt_post *frame, bool is_last, uint64_t now_ns);
bool dt_stall_watch_is_answered(struct dt_path *path, uint64_t now_ns);

/* Takes the completions of probes and of frames in band. */
void dt_stall_watch_poll(struct dt_path *path, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
