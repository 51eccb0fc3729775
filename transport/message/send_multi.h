/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending end: messages of several writes, as parts, queue pairs and chunks make them
 * (transport/protocol/split.h). All functions: owner of the connection.
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_SEND_MULTI_H
#define DETOUR_TRANSPORT_MESSAGE_SEND_MULTI_H

#include <stdint.h>

#include "transport/message/sender.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Posts all that the message has on queue pair q, one of its own, without ringing. The caller has checked the
 * room. */
enum dt_status dt_sender_post_shares(struct dt_path *path, uint32_t q, const struct dt_send_slot *slot);
/* Posts the whole message and rings. DT_FULL: no room now. After any other error part of it may be posted. */
enum dt_status dt_sender_post_all(struct dt_path *path, const struct dt_send_slot *slot);
/*
 * Posts the rest of a message of one part on one queue pair of which the first `posted_bytes` are posted: one
 * write with the size record and the immediate, without ringing. The caller has checked the room.
 */
enum dt_status dt_sender_post_last(struct dt_path *path, const struct dt_send_slot *slot,
                                   uint32_t posted_bytes);

#ifdef __cplusplus
}
#endif

#endif
