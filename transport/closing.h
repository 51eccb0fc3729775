/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closing a connection (dt_net_close()). NCCL's close never waits: a sender with staged messages lingers on
 * its device thread until they are delivered, DETOUR_LINGER_MS at most; then the peer gets CLOSE, the session
 * lingers until CLOSE is acknowledged (session/session.h), and queue pairs and memory are freed on the
 * control threads.
 */
#ifndef DETOUR_TRANSPORT_CLOSING_H
#define DETOUR_TRANSPORT_CLOSING_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/message/connection.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The connection has staged messages that may still be delivered. */
bool dt_closing_has_staged(const struct dt_connection *connection);

/* The same of any connection of the device. The caller holds nic->mutex. */
bool dt_closing_nic_has_staged(const struct dt_nic *nic);

/*
 * Device thread, with nic->mutex: ends a connection that NCCL has closed once its staged messages are
 * delivered or its time is over (one WARN). Returns when it needs the next call; DT_NEVER_NS: the connection
 * does not linger, or no longer exists.
 */
uint64_t dt_closing_progress(struct dt_connection *connection, uint64_t now_ns);

/* Ends connections that linger, delivered or not. The device thread has ended. */
void dt_closing_end_lingering(struct dt_nic *nic);

/* Frees the connection's resources, on the control threads where that may block. The connection is on no
 * list. */
void dt_closing_dispose(struct dt_connection *connection);

#ifdef __cplusplus
}
#endif

#endif
