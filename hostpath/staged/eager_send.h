/* SPDX-License-Identifier: Apache-2.0 */
/* Eager send, at the sender: from the stage's queue into places, and DISCARD. */
#ifndef DETOUR_HOSTPATH_STAGED_EAGER_SEND_H
#define DETOUR_HOSTPATH_STAGED_EAGER_SEND_H

#include "hostpath/staged/eager.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Owner of the connection: sends eagerly what may be, and posts DISCARD where it is pending. */
void dt_eager_progress(struct dt_sender *sender);

#ifdef __cplusplus
}
#endif

#endif
