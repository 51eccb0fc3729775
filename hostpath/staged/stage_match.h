/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage of a sender: entries of the queue become parts of messages, whose ready bytes and body are
 * brought up to date before transport/message/ posts them. All functions: owner of the connection.
 */
#ifndef DETOUR_HOSTPATH_STAGED_STAGE_MATCH_H
#define DETOUR_HOSTPATH_STAGED_STAGE_MATCH_H

#include <stdint.h>

#include "hostpath/staged/stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Matches entries of the queue with messages whose CTS is there, and posts these. */
void dt_stage_match(struct dt_sender *sender);
/* All parts of the message are there, staged or not: hands it over and posts what can be posted. */
void dt_stage_hand_over(struct dt_sender *sender, struct dt_send_slot *slot);
/* Posts ready messages in their order. */
void dt_stage_post(struct dt_sender *sender);
/* Posts and announces again the messages lost with their path. Returns how many remain. */
uint32_t dt_stage_post_again(struct dt_sender *sender);

#ifdef __cplusplus
}
#endif

#endif
