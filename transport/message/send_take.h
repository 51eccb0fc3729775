/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending end: a message whose payload the receiver has already. TAKE is posted for it: a zero-length
 * write whose immediate names the message and the place of its payload. All functions: owner of the
 * connection.
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_SEND_TAKE_H
#define DETOUR_TRANSPORT_MESSAGE_SEND_TAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/message/sender.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Posts a READY message whose body is TAKE. False: it has no path or no room now. */
bool dt_sender_post_taken(struct dt_sender *sender, struct dt_send_slot *slot);
/* Posts TAKE for the message and rings. The caller has checked the room. */
void dt_sender_post_take(struct dt_path *path, const struct dt_send_slot *slot, uint64_t wr_id);

#ifdef __cplusplus
}
#endif

#endif
