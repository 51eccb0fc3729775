/* SPDX-License-Identifier: Apache-2.0 */
/* The stage of a sender: delivered messages release their memory. All functions: owner of the connection.
 */
#ifndef DETOUR_HOSTPATH_STAGED_STAGE_DELIVER_H
#define DETOUR_HOSTPATH_STAGED_STAGE_DELIVER_H

#include <stdint.h>

#include "hostpath/staged/stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Releases the entries and the memory of complete messages, in their order. */
void dt_stage_reclaim(struct dt_sender *sender);
/*
 * The peer has closed, and had completed every message before `sequence`: completes these. Messages
 * that remain in the queue may have been sent eagerly and taken.
 */
void dt_stage_peer_closed(struct dt_sender *sender, uint64_t sequence);

#ifdef __cplusplus
}
#endif

#endif
