/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of a device thread, without the thread: one round serves the connections whose default device
 * this is, the busy ones of them first (turns.h).
 *
 *   peer_frames.h    progresses the control session, reads the peer's frames
 *   device_events.h  reads the device's events and notifies the connections that use the device
 *   takeover.h       progresses a connection with pending work that NCCL is not calling
 *   failing.h        fences the queue pairs of a connection that fails, then lets its error be seen
 *   closing.h        delivers the staged messages of a connection that NCCL has closed, then ends it
 *
 * and switchover.h does what failover requires. A simulation calls the rounds itself.
 */
#ifndef DETOUR_TRANSPORT_SERVICE_H
#define DETOUR_TRANSPORT_SERVICE_H

#include "transport/message/connection.h"
#include "transport/net_state.h"
#include "transport/service_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One round over everything. Returns when the next is due. Takes nic->mutex. */
uint64_t dt_service_progress(struct dt_nic *nic, uint64_t now_ns);

/*
 * Hands a connection that is set up to the device thread. DT_SYSTEM (one WARN) when the thread cannot be
 * started.
 */
enum dt_status dt_service_add(struct dt_connection *connection, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
