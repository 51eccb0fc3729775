/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage of a sender: bytes in flight, and the decision of DETOUR_HOSTPATH=auto from the service times
 * of messages. All functions: owner of the connection.
 */
#ifndef DETOUR_HOSTPATH_STAGED_STAGE_INFLIGHT_H
#define DETOUR_HOSTPATH_STAGED_STAGE_INFLIGHT_H

#include <stdint.h>

#include "hostpath/staged/stage.h"

#ifdef __cplusplus
extern "C" {
#endif

uint64_t dt_stage_message_bytes(const struct dt_send_slot *slot);

/* `bytes` were in flight when something was handed over, at this stamp, that is delivered now. */
void dt_stage_decide(struct dt_sender *sender, uint64_t handed, uint64_t bytes);

/* The message was handed over: it is in flight. */
void dt_stage_inflight_message(struct dt_sender *sender, const struct dt_send_slot *slot);
/*
 * The same for an eager payload: it is in flight (returns all that is, with it); it has arrived, was handed
 * over at this stamp, with so much in flight; or it never will.
 */
uint64_t dt_stage_inflight_add(struct dt_sender *sender, uint64_t bytes);
void dt_stage_inflight_arrived(struct dt_sender *sender, uint64_t handed, uint64_t bytes,
                               uint64_t inflight_bytes);
void dt_stage_inflight_lost(struct dt_sender *sender, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
