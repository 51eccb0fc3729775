/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replay: messages that were last posted on a settled epoch go to the other paths. Builds a
 * connection's work requests for the engines of failover/replay.h, and chooses the path of each message.
 */
#ifndef DETOUR_FAILOVER_SWITCHOVER_REPLAY_H
#define DETOUR_FAILOVER_SWITCHOVER_REPLAY_H

#include <stdint.h>

#include "transport/message/send.h"
#include "transport/path/path.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Posts READY messages that were last posted on `from` on paths that are UP. Returns how many have no path or
 * no room now; *engines gets enum dt_switchover_engines. Owner.
 */
uint32_t dt_switchover_replay(struct dt_path *from, struct dt_send_slot *const *slots, uint32_t count,
                              uint32_t *engines);

#ifdef __cplusplus
}
#endif

#endif
