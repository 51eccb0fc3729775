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

/* Slots that a device's queues can hold for every part; 0: not even DT_SLOTS_MIN. */
uint32_t dt_path_slots_max(const struct dt_device_info *info);

/*
 * Creates completion queues, queue pairs and control memory, and posts the receiver's blank receives. After
 * connection->setup_pending has come down, path->state says DT_PATH_UP if all of that is there.
 */
void dt_path_submit_create(struct dt_path *path);

/* What the peer has to know about the path. */
void dt_path_offer(const struct dt_path *path, struct dt_path_offer *offer);

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

#ifdef __cplusplus
}
#endif

#endif
