/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving end of a connection: irecv with its clear-to-send, arrivals, and the test of a receive. All
 * functions: owner of the connection.
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_RECEIVE_H
#define DETOUR_TRANSPORT_MESSAGE_RECEIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/message/receiver.h"
#include "transport/protocol/cts.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------
 * irecv
 */

/* irecv of a receiver without staging. False: not now. */
bool dt_receiver_irecv(struct dt_receiver *receiver, unsigned n, void *const *data, const uint32_t *bytes,
                       const int *tags, struct dt_memory *const *memories, struct dt_request **request);

/*
 * The same in three steps, between which the module above extends the request and the row:
 * opens the slot (NULL: not now), fills in the row of its CTS, and writes the row to the sender.
 */
struct dt_recv_slot *dt_receiver_open(struct dt_receiver *receiver, unsigned n, const uint32_t *bytes,
                                      struct dt_memory *const *memories);
struct dt_cts_row *dt_receiver_fill_row(struct dt_receiver *receiver, const struct dt_recv_slot *slot,
                                        void *const *data, const int *tags);
void dt_receiver_publish(struct dt_receiver *receiver, struct dt_recv_slot *slot);

/* Publishes again the open receives whose CTS was lost with its path, as far as a path has room. */
void dt_receiver_publish_again(struct dt_receiver *receiver);

/* ------------------------------------------------------------------------------------------------------------
 * Arrivals, completing, and the test
 */
void dt_receiver_handle(struct dt_receiver *receiver, struct dt_path *path,
                        const struct dt_completion *completion);
/* Polls the queues that may have completions, completes finished messages, and progresses flushes and copies.
 */
void dt_receiver_progress(struct dt_receiver *receiver);
/* Reports a receive that is done: frees its slot; `bytes` (or NULL) gets the size of each part. */
void dt_receiver_report(struct dt_receiver *receiver, struct dt_recv_slot *slot, int *bytes);
/* The same of one whose payload is in place, but whose TAKE is missing: the slot stays open until that
 * arrives. */
void dt_receiver_report_early(struct dt_receiver *receiver, struct dt_recv_slot *slot, int *bytes);
/* The test of a request of dt_receiver_irecv(). */
dt_test_function dt_receive_test;

/*
 * The path is in use again, and its device has been opened again since messages before path->keys_since were
 * offered: offers the open ones again over it, with the keys of now.
 */
void dt_receiver_renew_keys(struct dt_receiver *receiver, struct dt_path *path);

#ifdef __cplusplus
}
#endif

#endif
