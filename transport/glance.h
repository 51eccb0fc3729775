/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look at a connection that reads two cache lines of it, while a visit (service.h) reads some twenty, most
 * of them in different pages. With thousands of connections a round costs these reads and little else.
 *
 * A glance notices that NCCL calls the connection, and that it does not although requests are open, so that a
 * takeover is as early as with a visit. Nothing else that a visit does is urgent on a connection whose paths
 * and session are up: slowness is judged from stamps, gray failure is looked for at an interval of its own
 * (failover/switchover/stall_watch.h), and everything that is reported wakes the device thread, whose next
 * round visits all. Only a frame in band may wait for the next visit, where the control network has failed
 * and the session does not know yet.
 *
 * With few connections each round visits all (turns.h). Device thread, with nic->mutex.
 */
#ifndef DETOUR_TRANSPORT_GLANCE_H
#define DETOUR_TRANSPORT_GLANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_connection;
struct dt_turns;

#define DT_VISIT_PERIOD_NS (100 * DT_NS_PER_MS)
/* Messages that complete between two visits; a visit takes their stamps, of which few hundred are kept. */
#define DT_VISIT_COMPLETIONS 64

/* What a round does with a connection. */
enum dt_glance_finding {
    DT_GLANCE_VISIT,    /* nothing is known without a visit */
    DT_GLANCE_TAKEOVER, /* a takeover is due (takeover.h), and nothing else */
    DT_GLANCE_QUIET,    /* nothing is due; NCCL is not calling, and no request is open */
    DT_GLANCE_IN_USE    /* nothing is due */
};

/* Looks, and notes NCCL's calls except for DT_GLANCE_VISIT, where the visit does. */
enum dt_glance_finding dt_glance(const struct dt_turns *turns, struct dt_connection *connection,
                                 uint64_t now_ns);

/* After a visit: until when glances are enough. */
void dt_glance_settle(const struct dt_turns *turns, struct dt_connection *connection, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
