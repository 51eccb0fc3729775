/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of a path's machine (failover/path_machine.h): its actions and its answer to the peer. Device
 * thread, as the connection's owner, under nic->mutex.
 */
#ifndef DETOUR_FAILOVER_SWITCHOVER_ACTIONS_H
#define DETOUR_FAILOVER_SWITCHOVER_ACTIONS_H

#include <stdint.h>

#include "failover/path_machine.h"
#include "failover/switchover/state.h"
#include "transport/message/connection.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gives the event to the path's machine and carries out the step. */
void dt_switchover_step(struct dt_path *path, enum dt_path_event event, uint64_t now_ns);

/* Carries out a step that the machine has taken; nothing if the table has no row for it. */
void dt_switchover_follow(struct dt_path *path, const struct dt_path_step *taken, uint64_t now_ns);

/* Sends a message about the machine's epoch. Without a channel, or room in it, it is left to the
 * retransmission. */
void dt_switchover_send(struct dt_path *path, enum dt_path_message message, uint64_t now_ns);

/* Makes drained paths suspect: the connection leaves them as soon as another path is UP. */
void dt_switchover_leave_drained(struct dt_connection *connection);

#ifdef __cplusplus
}
#endif

#endif
