/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the two ends of each path can talk, shown at the end of set-up: queue pairs that are connected
 * prove nothing, since no packet was sent. Each end writes one path MTU over each path's probe queue pair,
 * and takes the acknowledgement for an answer. A path without one is named with both addresses and not used
 * before it has been shown to work by recovery (recover.h), so a wrong address, VLAN, route or MTU is found
 * here and not half a minute into the job.
 *
 * The set-up's thread, before the connection has an owner.
 */
#ifndef DETOUR_TRANSPORT_REACHABILITY_H
#define DETOUR_TRANSPORT_REACHABILITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/message/connection.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_reachability {
    uint64_t asked_ns;
    uint32_t waiting_mask; /* paths whose answer is not there yet */
    uint32_t answered_mask;
};

/* Writes a probe over each path that is DT_PATH_UP. */
void dt_reachability_ask(struct dt_connection *connection, struct dt_reachability *reach, uint64_t now_ns);

/*
 * Polls for answers. True: every path has answered or timed out. A path times out, with one line, when its
 * write failed, or without an answer after 2 s while another path has one, or after 10 s, or at deadline_ns;
 * it is DT_PATH_NONE then, and path->switchover->why is the reason.
 */
bool dt_reachability_is_known(struct dt_connection *connection, struct dt_reachability *reach,
                              uint64_t now_ns, uint64_t deadline_ns);

/* "mlx5_0 (GID ::ffff:10.0.0.1) to mlx5_0 (GID ::ffff:10.0.0.2): why" for each path that was given up. */
void dt_reachability_describe(const struct dt_connection *connection, char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
