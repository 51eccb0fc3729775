/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the two ends of each path can talk, shown at the end of set-up: queue pairs that are connected
 * prove nothing, since no packet was sent. Each end writes one path MTU over each path's probe queue pair,
 * and takes the acknowledgement for an answer. A path without one is named with both addresses and not used
 * before it has been shown to work by recovery (recover.h), so a wrong address, VLAN, route or MTU is found
 * here and not half a minute into the job.
 *
 * The set-up's thread, before anybody owns the connection.
 */
#ifndef DETOUR_TRANSPORT_REACH_H
#define DETOUR_TRANSPORT_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/connection.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The probe queue pair's own transport timer and retries during set-up, whatever the data's are: 0.5 s, eight
 * times. Data that may wait for minutes, or for a millisecond, says nothing about how long set-up should.
 */
#define DT_REACH_TIMEOUT_EXPONENT 17
#define DT_REACH_RETRY_COUNT      7

struct dt_reach {
    uint64_t asked_ns;
    uint32_t waiting_mask; /* paths whose answer is not there yet */
    uint32_t answered_mask;
};

/* Writes a probe over each path that is DT_PATH_UP. */
void dt_reach_ask(struct dt_connection *connection, struct dt_reach *reach, uint64_t now_ns);

/*
 * Looks for answers. True: every path has answered or is given up, each with one line; those are DT_PATH_NONE
 * now, path->why says why. Given up is a path whose write failed, or that has no answer after 2 s while
 * another has one, or after 10 s, or at deadline_ns.
 */
bool dt_reach_is_known(struct dt_connection *connection, struct dt_reach *reach, uint64_t now_ns,
                       uint64_t deadline_ns);

/* "mlx5_0 (GID ::ffff:10.0.0.1) to mlx5_0 (GID ::ffff:10.0.0.2): why" for each path that was given up. */
void dt_reach_describe(const struct dt_connection *connection, char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
