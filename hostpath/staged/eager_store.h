/* SPDX-License-Identifier: Apache-2.0 */
/* Eager send, at the receiver: the memory that it grants. */
#ifndef DETOUR_HOSTPATH_STAGED_EAGER_STORE_H
#define DETOUR_HOSTPATH_STAGED_EAGER_STORE_H

#include "failover/resume.h"
#include "hostpath/staged/eager.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Set-up, before the paths are made: memory to grant, if some is left of DETOUR_HOSTPATH_BYTES, which all
 * receivers of the process share. If not, the receiver grants nothing, which is no error.
 */
void dt_eager_open(struct dt_connection *connection);
/* After the last path is gone. */
void dt_eager_close(struct dt_receiver *receiver);
/* Device thread: sends GRANT. The sender ignores all but the first. */
void dt_eager_grant(struct dt_receiver *receiver);
/* The operation snapshot (transport/message/end.h). */
void dt_eager_snapshot(const struct dt_receiver *receiver, struct dt_resume *resume);

#ifdef __cplusplus
}
#endif

#endif
