/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending end when a path has failed or the peer closes: which messages are posted again, and which are
 * over; and the operations of a sender. All functions: owner of the connection.
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_SEND_AGAIN_H
#define DETOUR_TRANSPORT_MESSAGE_SEND_AGAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/message/end.h"
#include "transport/message/sender.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first READY message from *sequence on that was posted before and lost with its path, or NULL. */
struct dt_send_slot *dt_sender_find_again(struct dt_sender *sender, uint64_t *sequence);
/* Where that search begins. */
uint64_t dt_sender_first_again(const struct dt_sender *sender);
/* Posts such a message. False: it has no path or no room now. */
bool dt_sender_repost(struct dt_sender *sender, struct dt_send_slot *slot);

/*
 * The peer has closed, and had completed every message before `sequence`: completes these. Returns how many
 * messages are left that it will never complete.
 */
uint32_t dt_sender_complete_closed(struct dt_sender *sender, uint64_t sequence);
/* Fails the connection if messages are left. */
void dt_sender_fail_closed(struct dt_sender *sender, uint32_t left);

extern const struct dt_end_ops dt_sender_ops;
/* Of these, operations that a sender with a stage shares. */
uint32_t dt_sender_count_again(const struct dt_connection *connection);
bool dt_sender_needs_peer(const struct dt_connection *connection);
uint64_t dt_sender_close_sequence(const struct dt_connection *connection);
void dt_sender_close(struct dt_connection *connection);

#ifdef __cplusplus
}
#endif

#endif
