/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving end when its peer closes, and the operations of a receiver (end.h); those that are named here
 * are shared by receivers with staging. All functions: owner of the connection.
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_RECEIVE_END_H
#define DETOUR_TRANSPORT_MESSAGE_RECEIVE_END_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/message/end.h"
#include "transport/message/receiver.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct dt_end_ops dt_receiver_ops;

void dt_receiver_progress_end(struct dt_connection *connection);
void dt_receiver_peer_closed(struct dt_connection *connection, uint64_t sequence);
bool dt_receiver_needs_peer(const struct dt_connection *connection);
void dt_receiver_peer_drained(struct dt_connection *connection);
uint32_t dt_receiver_post_again(struct dt_connection *connection);
uint32_t dt_receiver_count_again(const struct dt_connection *connection);
uint64_t dt_receiver_close_sequence(const struct dt_connection *connection);

#ifdef __cplusplus
}
#endif

#endif
