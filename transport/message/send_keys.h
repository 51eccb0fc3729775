/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiver's keys after its device was opened again (dt_device_reopen()). CTS entries that the receiver
 * wrote before have keys of the device's old context; with the new one they name nothing, or other memory. So
 * the sender never uses them on a path of the new context:
 *
 *   - OPENED tells the first message whose entries have the new keys (dt_path_offer.keys_since). From then on
 *     entries of earlier messages do not offer this path, unless they came over this path itself: its ring
 *     was cleared between OPENED and USED, when nothing is written to it, and the receiver fills it with the
 *     keys of now.
 *   - Once the path is in use the receiver offers its open receives again over it, in that ring; a message
 * that was fetched before and has no other path takes its keys from there.
 *
 * All functions: owner.
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_SEND_KEYS_H
#define DETOUR_TRANSPORT_MESSAGE_SEND_KEYS_H

#include <stdint.h>

#include "transport/message/sender.h"
#include "transport/path/path.h"

#ifdef __cplusplus
extern "C" {
#endif

/* OPENED of an epoch has arrived; nothing changes if its keys are those of the epoch before. */
void dt_sender_keys_renewed(struct dt_sender *sender, struct dt_path *path,
                            const struct dt_path_offer *offer);

/* The entries in slot->entry are of message `sequence` and came over path `ring`. */
void dt_sender_drop_stale_keys(const struct dt_sender *sender, struct dt_send_slot *slot, uint64_t sequence,
                               uint32_t ring);

/*
 * The paths for which the message's entries had keys of before, or none. slot->stale_mask is meaningful for
 * messages before sender->keys_since alone, so that the usual message, which is not, need not clear it.
 */
static inline uint32_t dt_sender_stale_mask(const struct dt_sender *sender, const struct dt_send_slot *slot)
{
    return slot->sequence < sender->keys_since ? slot->stale_mask : 0;
}

/* Takes the keys of paths in dt_sender_stale_mask() that have arrived meanwhile. */
void dt_sender_fetch_keys(struct dt_sender *sender, struct dt_send_slot *slot);

#ifdef __cplusplus
}
#endif

#endif
