/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sender's part of a switchover: RESUME{p,e} decides the messages that were last posted on (p,e), and no
 * others. A message that the receiver has is complete; the rest is posted again, whole messages in the order
 * of their sequence.
 */
#ifndef DETOUR_FAILOVER_SWITCHOVER_SETTLE_H
#define DETOUR_FAILOVER_SWITCHOVER_SETTLE_H

#include "failover/switchover/report.h"
#include "transport/path/path.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Settles the path's epoch by path->switchover->resume. Owner; the epoch is fenced at both ends. */
struct dt_switchover_settled dt_settle(struct dt_path *path);

#ifdef __cplusplus
}
#endif

#endif
