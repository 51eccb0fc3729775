/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants of a connection's failover state, checked after every round of the switchover (DT_CHECK).
 * They relate the rules' state (machine, fence, recovery), the control thread's tasks, and the data
 * path's view of each path.
 */
#ifndef DETOUR_FAILOVER_SWITCHOVER_INVARIANTS_H
#define DETOUR_FAILOVER_SWITCHOVER_INVARIANTS_H

#include "transport/message/connection.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Aborts with one line if an invariant is broken. Device thread, as the connection's owner, at the end of a
 * round. */
void dt_switchover_check(const struct dt_connection *connection);

#ifdef __cplusplus
}
#endif

#endif
