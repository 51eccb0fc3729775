/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending end of a connection: isend and its test, posting, and the completions of payload writes. All
 * functions: owner of the connection.
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_SEND_H
#define DETOUR_TRANSPORT_MESSAGE_SEND_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/message/sender.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------
 * isend
 */

/* isend of a sender without staging: takes the part, and posts the message if it is complete. */
enum dt_status dt_sender_isend(struct dt_sender *sender, void *data, uint32_t bytes, int tag,
                               struct dt_memory *memory, struct dt_request **request);

/* The same without the handing over: *complete becomes the message, if this was its last part, else NULL. */
enum dt_status dt_sender_isend_part(struct dt_sender *sender, void *data, uint32_t bytes, int tag,
                                    struct dt_memory *memory, struct dt_request **request,
                                    struct dt_send_slot **complete);

/* The message that the next isends belong to, or NULL: its CTS has not arrived, or its slot is in use. */
struct dt_send_slot *dt_sender_matching_slot(struct dt_sender *sender);
/* The first free part of the message with this tag, or -1. */
int dt_sender_find_part(const struct dt_send_slot *slot, int tag);
/* Whether the receive has room for this many bytes; if not, the connection fails. */
bool dt_sender_fits(struct dt_sender *sender, const struct dt_send_slot *slot, int part, uint32_t bytes);
/* Gives a part its payload, of which nothing is ready, without a request of its own. True: the message is
 * complete. */
bool dt_sender_fill_part(struct dt_send_slot *slot, int part, void *data, uint32_t bytes,
                         struct dt_memory *memory);
/* All parts of the message have their payload: it is READY. Nothing is posted. */
void dt_sender_hand_over(struct dt_sender *sender, struct dt_send_slot *slot);
/* The body that posts the payload of the message: DATA or SIZED. */
struct dt_send_body dt_sender_payload_body(const struct dt_connection *c, const struct dt_send_slot *slot);
/* The test of a request of dt_sender_isend(). */
dt_test_function dt_send_test;
/* Its answer alone, for an open request whose connection's state is `status` (dt_connection_check). */
enum dt_status dt_send_answer(struct dt_request *request, enum dt_status status, int *done, int *bytes);

/* ------------------------------------------------------------------------------------------------------------
 * Posting
 */

/* Posts the message, all of which is ready, on a path that can carry it. False: none can, or none has room,
 * now. */
bool dt_sender_post_whole(struct dt_sender *sender, struct dt_send_slot *slot);
/* Posts the oldest message that was never posted, as far as it is ready. True: it is posted, try the next
 * one. */
bool dt_sender_post_oldest(struct dt_sender *sender);

/* ------------------------------------------------------------------------------------------------------------
 * Completing
 */

/* Polls the completion queues of all paths that are up. */
void dt_sender_poll(struct dt_sender *sender);
/* The same, then posts what can be posted. */
void dt_sender_progress(struct dt_sender *sender);
/* The receiver has the message. */
void dt_sender_complete(struct dt_sender *sender, struct dt_send_slot *slot);
void dt_sender_handle(struct dt_sender *sender, struct dt_path *path, const struct dt_completion *completion);

#ifdef __cplusplus
}
#endif

#endif
