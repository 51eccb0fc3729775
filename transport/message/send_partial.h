/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy and wire at the same time, inside one message: the part of its payload that is ready goes out while
 * the rest is still being put in place.
 *
 * The oldest message that was not posted may start when it has its CTS and all its parts. The ready bytes go
 * out as plain writes, of which the receiver gets no completion. When all of the payload is ready the rest
 * follows, with the size record and the immediate: on the wire it is a message of several writes (split.h),
 * and the receiver cannot tell the difference. In between the message is PARTIAL, with `posted_bytes` of it
 * posted.
 *
 * Which messages: of one part, on one queue pair, whose payload is not ready when they could go, and long
 * enough for several writes. Not while injection has rules, since these hold back whole messages.
 *
 * Why a PARTIAL message is always finished:
 *   - It stays the oldest that was not posted, and younger ones wait for it, so only messages that are posted
 * again can take room in the send queue meanwhile. Each of those ends in a signaled write of its own, so
 * their room comes back without any completion of this message, and its own writes never fill a queue
 * (checked below). Each step first asks for room for the whole message.
 *   - Its payload becomes ready whatever the path does. If that fails, the connection fails.
 *
 * If the path fails meanwhile: the writes on epoch e of path p may still arrive until (p,e) is settled, that
 * is fenced at both ends, with the receiver's RESUME. Until then a PARTIAL message is treated like one that
 * was posted on (p,e): nothing of it goes over any path, not even over (p,e). The receiver cannot have it,
 * since no immediate went out, so settling makes it READY with nothing posted (dt_sender_restart), and it
 * starts again as a whole. The engines of failover/replay.h never see a part of it. Younger messages wait for
 * that, too; NCCL takes the messages of a connection in order and would gain nothing from them.
 *
 * A device that refuses a write may or may not have taken it. Nothing more goes out on that epoch then: an
 * immediate behind a gap would tell the receiver that all of the message is there.
 *
 * All functions: owner of the connection.
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_SEND_PARTIAL_H
#define DETOUR_TRANSPORT_MESSAGE_SEND_PARTIAL_H

#include <stdbool.h>

#include "transport/message/sender.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Posts the ready bytes of the oldest message that was not posted, which is PARTIAL, or READY with payload
 * that is not. True: it is POSTED.
 */
bool dt_sender_post_partial(struct dt_sender *sender, struct dt_send_slot *slot);

#ifdef __cplusplus
}
#endif

#endif
