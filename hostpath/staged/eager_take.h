/* SPDX-License-Identifier: Apache-2.0 */
/* Eager send, at the sender: the work requests of a message whose payload was sent eagerly, and the steps
 * when a path has failed. All functions: owner of the connection. */
#ifndef DETOUR_HOSTPATH_STAGED_EAGER_TAKE_H
#define DETOUR_HOSTPATH_STAGED_EAGER_TAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "failover/resume.h"
#include "hostpath/staged/eager.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A part of the message was sent eagerly. */
bool dt_eager_is_any(const struct dt_sender *sender, const struct dt_send_slot *slot);
/* The message need not wait at the gate: its payload has passed it. */
bool dt_eager_has_passed_gate(const struct dt_sender *sender, const struct dt_send_slot *slot);
/* The work to post for a READY message with staged parts, all of which are copied. */
struct dt_send_body dt_eager_choose_body(struct dt_sender *sender, struct dt_send_slot *slot);
/* The operations settle and announce_again (transport/message/end.h). */
void dt_eager_settle(struct dt_path *path, const struct dt_resume *resume);
bool dt_eager_announce_again(struct dt_sender *sender, const struct dt_send_slot *slot);
/* Posts TAKE again for complete messages, as far as a path has room; returns how many. */
uint32_t dt_eager_resend_takes(struct dt_sender *sender);

#ifdef __cplusplus
}
#endif

#endif
