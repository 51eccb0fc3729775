/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames in band: written to the peer's mailbox (protocol/mailbox.h) by the path's probe queue pair, so that
 * a switchover needs no control network while one path works. Their completions prove the same as those of
 * liveness probes, and count as such.
 *
 * Writes need no receive at the peer, so that a peer that does not read delays nothing.
 */
#ifndef DETOUR_TRANSPORT_PATH_INBAND_H
#define DETOUR_TRANSPORT_PATH_INBAND_H

#include "transport/path/path.h"
#include "transport/protocol/mailbox.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Device thread, or with nic->mutex, the path's queue pairs linked: writes a whole frame to the peer.
 * DT_FULL: too much is outstanding, or the frame is too long; the caller repeats the frame later. One slot of
 * the outbox is kept for the last frame of a connection, which is not repeated. DT_PATH_ERROR: the device
 * refused.
 */
enum dt_status dt_inband_send(struct dt_path *path, const uint8_t *frame, size_t bytes, bool is_last);

/* Device thread: whether a frame of the peer may have come. */
bool dt_inband_has_news(const struct dt_path *path);

/* Device thread: the next frame that has come over this path; *mail is a copy. False: none. */
bool dt_inband_receive(struct dt_path *path, struct dt_mail *mail);

#ifdef __cplusplus
}
#endif

#endif
