/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a path's queue pairs, as jobs of its device's control thread: create, link to the peer's,
 * fence, destroy. Each submit takes a reference to the connection until its job has finished.
 */
#ifndef DETOUR_TRANSPORT_PATH_H
#define DETOUR_TRANSPORT_PATH_H

#include "transport/connection.h"
#include "transport/wire_messages.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Creates completion queues, queue pairs and control memory, and posts the receiver's blank receives. After
 * connection->setup_pending has come down, path->state says DT_PATH_UP if all of that is there.
 */
void dt_path_submit_create(struct dt_path *path);

/* What the peer has to know about the path, whose queue pairs are there if it is usable. */
void dt_path_offer(const struct dt_path *path, bool is_usable, struct dt_path_offer *offer);

/* Takes down what the peer said about it. */
void dt_path_accept_offer(struct dt_path *path, const struct dt_path_offer *offer);

/* Connects the queue pairs to the peer's; afterwards path->state is as above. */
void dt_path_submit_link(struct dt_path *path);

/* Moves the queue pairs to the error state; then brings connection->fences_pending down by one. */
void dt_path_submit_fence(struct dt_path *path);

/* The same on the calling thread. Blocks as the device does. */
void dt_path_fence(struct dt_path *path);

/* Makes path->flush. */
void dt_path_submit_flush(struct dt_path *path);

/* Fences the path and frees everything of it. */
void dt_path_submit_destroy(struct dt_path *path);

/*
 * One of failover's jobs; path->op_state becomes DONE, with path->op_status, and Detour's thread is woken.
 * There is one at a time; op_state is IDLE.
 *
 *   FENCE    the queue pairs go to ERR, as far as the device does it
 *   DESTROY  path->doomed is destroyed and freed
 *   MAKE     path->fresh is made for path->make_epoch; at the receiver connected to path->peer_offer
 *   LINK     sender: the queue pairs in use are connected to path->peer_offer
 *   QUERY    is a queue pair in use in the error state? path->stopped_qpn
 */
void dt_path_submit_op(struct dt_path *path, enum dt_path_op op);

/*
 * Asks whether the path works: a write over the probe queue pair, whose completion has DT_WORK_PROBE. Of
 * nothing, or of a full path MTU, into memory of the peer's that is there for that: a switch may lose only
 * what is large. What is refused is never answered.
 */
enum dt_status dt_path_send_probe(struct dt_path *path, bool is_full);

/*
 * What a work request of this path ended with, and between which queue pairs:
 * "queue pair 17 to 21: transport retry count exceeded (status 12, vendor_err 0x81)".
 */
void dt_path_describe_error(const struct dt_path *path, const struct dt_completion *bad, char *text,
                            size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
