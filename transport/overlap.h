/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy and wire at the same time, inside one staged message: what is in the pool already goes out while the
 * rest is still being copied. Private to transport/; owner of the connection.
 *
 * A message can begin when it is the oldest that was not posted, has its clear-to-send and all its parts, as
 * any other. What is copied from the front on goes out as plain writes, of which nobody hears at the
 * receiver. When everything is copied the rest follows, with the size record and the immediate: on the wire
 * it is a message of several writes (split.h), and the receiver cannot tell the difference. In between it is
 * BEGUN, with `begun_bytes` of it posted.
 *
 * Which messages: of one part, on one queue pair, that are still being copied when they could go, and long
 * enough for several writes. Not while injection has rules: what they hold back is whole messages.
 *
 * Why a message that has begun is always finished:
 *   - It stays the oldest that was not posted, and others wait for it, so only messages that are posted again
 *     can take room in the send queue meanwhile. Each of those ends in a signalled write of its own, so their
 *     room comes back without any help of this one's, and what this one has posted never fills a queue
 *     (checked below). Room for all of it is asked for before each step.
 *   - The copy goes on whatever the path does. If it fails the connection fails, as without overlap.
 *
 * If the path fails meanwhile. What was written over epoch e of path p may still arrive for as long as (p,e)
 * is not settled: fenced at both ends, and the receiver has said what it has. Until then a BEGUN message is
 * treated like one that was posted on (p,e): nothing of it goes over any path, not even (p,e) itself. The
 * receiver cannot have it, since no immediate went out, so settling makes it READY, with nothing posted, and
 * it begins again as a whole. It never gets to an engine of failover/rewind.h in parts. The younger ones wait
 * for that, too; NCCL takes the messages of a connection in their order, so it gains nothing from them.
 *
 * A device that refuses a write may have taken it or not. Nothing more goes out on that epoch then: an
 * immediate behind a gap would tell the receiver that all is there.
 */
#ifndef DETOUR_TRANSPORT_OVERLAP_H
#define DETOUR_TRANSPORT_OVERLAP_H

#include <stdbool.h>

#include "transport/connection.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Posts what can go of the oldest message that was not posted, which is staged; `is_copied`: all of it is in
 * the pool. True: it is POSTED.
 */
bool dt_overlap_progress(struct dt_sender *sender, struct dt_send_slot *slot, bool is_copied);

/* The epoch it was begun on is settled: it can begin again. */
void dt_overlap_settled(struct dt_send_slot *slot);

#ifdef __cplusplus
}
#endif

#endif
