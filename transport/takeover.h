/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections with pending work that NCCL is not calling. NCCL's progress thread sleeps between operations;
 * after DETOUR_IDLE_TAKEOVER_US without a call (sooner while messages are staged) the device thread takes the
 * connection, progresses it, and gives it back (message/owner.h).
 *
 * The same observation yields when a connection last made progress, and ends the drain period after the
 * peer's death or close. Device thread, with nic->mutex.
 */
#ifndef DETOUR_TRANSPORT_TAKEOVER_H
#define DETOUR_TRANSPORT_TAKEOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/message/connection.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Staged messages are progressed at this interval while NCCL is not calling. */
#define DT_STAGED_PERIOD_NS 100000ull

/*
 * Drain period: after the peer's death, or its close, messages that it has sent may still arrive. The
 * connection is notified (DT_NOTICE_PEER_LOST) once no completion has arrived for this time: the network's
 * latency after a death; time for a retransmit after a close.
 */
#define DT_PEER_DEAD_WAIT_NS   20000000ull
#define DT_PEER_CLOSED_WAIT_NS 100000000ull

/* Requests are open, and for the takeover time neither NCCL nor the device thread has progressed them; NCCL
 * is not inside a call. */
bool dt_takeover_is_due(const struct dt_connection *connection, uint64_t now_ns);

/* Progresses the connection, which the device thread owns. */
void dt_takeover_run(struct dt_connection *connection, uint64_t now_ns);

/* Observes visits and completions since the last round. Returns whether the connection is in use. */
bool dt_takeover_observe(struct dt_connection *connection, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
