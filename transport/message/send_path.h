/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending end: which path can carry a message now, and that it was posted there. All functions: owner of
 * the connection.
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_SEND_PATH_H
#define DETOUR_TRANSPORT_MESSAGE_SEND_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/message/sender.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The path that can carry the message now, or NULL. */
struct dt_path *dt_sender_path_for(struct dt_sender *sender, const struct dt_send_slot *slot);
/* The same, if the usual one cannot: another one that is up, or NULL. Fails the connection if there never
 * will be one. */
__attribute__((cold)) struct dt_path *dt_sender_other_path_for(struct dt_sender *sender,
                                                               const struct dt_send_slot *slot);
/* Whether each queue pair of the path has room for this many work requests. */
bool dt_sender_has_room(const struct dt_path *path, uint32_t writes);

/* All of the message is posted on the path. */
static inline __attribute__((always_inline)) void dt_sender_mark_posted(const struct dt_path *path,
                                                                        struct dt_send_slot *slot)
{
    slot->path = (uint8_t)path->index;
    slot->epoch = path->epoch;
    slot->qps_left = (uint8_t)path->share_count;
    dt_send_slot_set(slot, DT_SEND_POSTED);
}

#ifdef __cplusplus
}
#endif

#endif
