/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames that a peer sends to an established connection, on the control channel or in band, and the
 * session. Device thread, with nic->mutex.
 */
#ifndef DETOUR_TRANSPORT_PEER_FRAMES_H
#define DETOUR_TRANSPORT_PEER_FRAMES_H

#include <stdint.h>

#include "transport/message/connection.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Progresses the session in every state of the connection; frames that the old channel may have lost are
 * sent again over a new one. Returns when the session needs the next call.
 */
uint64_t dt_peer_frames_session(struct dt_connection *connection, uint64_t now_ns);

/* Whether there may be frames to read, and when to look again. */
bool dt_peer_frames_are_ready(const struct dt_connection *connection);
uint64_t dt_peer_frames_deadline_ns(const struct dt_connection *connection, uint64_t now_ns);

/*
 * Reads frames, up to one that the switchover has to handle before the next (switchover->is_frame_pending) or
 * DT_FRAMES_PER_ROUND of them. A frame of the channel that this connection cannot get breaks the
 * session and adds DT_NOTICE_PEER_BROKEN; in band it is dropped.
 */
void dt_peer_frames_read(struct dt_connection *connection, uint64_t now_ns);

/* For a connection that has failed or was abandoned: reads frames and discards them; CLOSE is still
 * acknowledged. */
void dt_peer_frames_discard(struct dt_connection *connection, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
