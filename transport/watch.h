/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks for grey failure (failover/stall.h): paths in use whose work makes no progress are probed, together
 * with another path, the peer is asked what it has, and the device, on its control thread, what has become of
 * its queue pairs. Detour's thread, as the owner, every quarter of DETOUR_STALL_MS while requests are open,
 * or while NCCL has long asked in vain for one.
 */
#ifndef DETOUR_TRANSPORT_WATCH_H
#define DETOUR_TRANSPORT_WATCH_H

#include <stdint.h>

#include "transport/connection.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Is it time to look? Without ownership. */
bool dt_watch_is_due(const struct dt_connection *connection, uint64_t now_ns);

/* Detour's thread has looked whether NCCL called, without ownership. */
void dt_watch_visits(struct dt_connection *connection, bool is_called, uint64_t now_ns);

/* The peer asks about a message, or answers (connection->heard_fact). As the owner. */
void dt_watch_hear(struct dt_connection *connection, uint64_t now_ns);

/* The device has said what it knows of the path's queue pairs (path->stopped_qpn). As the owner. */
void dt_watch_queried(struct dt_path *path);

/* The path that has failed, with its `why`, or NULL. */
struct dt_path *dt_watch_progress(struct dt_connection *connection, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
