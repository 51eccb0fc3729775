/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Detour's thread of a device does, without the thread: looks after the connections whose default device
 * it is.
 *
 * - Reads their control lines, so that a goodbye or the death of a peer is noticed, and keeps them up.
 * - Reads the device's events and tells the connections that use it.
 * - Takes over a connection that has work pending while NCCL sleeps, moves it on, and gives it back.
 * - Fences the queue pairs of a connection that fails, and then lets its error be seen.
 */
#ifndef DETOUR_TRANSPORT_SERVICE_H
#define DETOUR_TRANSPORT_SERVICE_H

#include "transport/connection.h"
#include "transport/nic.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One round over everything. Returns when the next is due. Takes nic->mutex. */
uint64_t dt_service_progress(struct dt_nic *nic, uint64_t now_ns);

/*
 * Hands a connection that is set up to Detour's thread. DT_SYSTEM (one WARN) when the thread cannot be
 * started.
 */
enum dt_status dt_service_add(struct dt_connection *connection, uint64_t now_ns);

/* Takes it away again: when it returned, Detour's thread does not touch it any more. */
void dt_service_remove(struct dt_connection *connection);

/*
 * NCCL has closed the connection: Detour's thread delivers what is staged, for DETOUR_LINGER_MS at most, and
 * then ends it. False: nothing is staged that could be delivered; nothing was done.
 */
bool dt_service_linger(struct dt_connection *connection);

/* A connection has staged messages that may still be delivered. The caller holds nic->mutex. */
bool dt_service_has_staged(const struct dt_nic *nic);

/* Ends connections that linger, delivered or not. Detour's thread has ended. */
void dt_service_end_lingering(struct dt_nic *nic);

/*
 * After its removal, with nic->mutex: says CLOSE{sequence} to the peer. The control line is not the
 * connection's any more; it lingers
 * until the peer has heard (line.h).
 */
void dt_service_part(struct dt_connection *connection, uint64_t sequence);

#ifdef __cplusplus
}
#endif

#endif
