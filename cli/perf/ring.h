/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of `detour perf`: per channel and distance one to the rank that many places on and one from
 * the rank that many places back.
 */
#ifndef DETOUR_CLI_PERF_RING_H
#define DETOUR_CLI_PERF_RING_H

#include <stdbool.h>
#include <stddef.h>

#include "job/net.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_perf_ring {
    struct dt_job_net *net;
    unsigned channels;
    unsigned distances;
    struct dt_job_connection *connections; /* those that send, then those that receive */
};

/*
 * Lists the connections for a net whose plugin is initialized; each has a buffer of `buffer_bytes`. Channels
 * take the plugin's devices in turn. False when memory is short.
 */
bool dt_perf_ring_init(struct dt_perf_ring *ring, struct dt_job_net *net, unsigned channels,
                       unsigned distances, size_t buffer_bytes);
void dt_perf_ring_free(struct dt_perf_ring *ring);

/* The number of connections. */
size_t dt_perf_ring_count(const struct dt_perf_ring *ring);

/* The connection of a channel and a distance >= 1. */
struct dt_job_connection *dt_perf_ring_sending(const struct dt_perf_ring *ring, unsigned channel,
                                               unsigned distance);
struct dt_job_connection *dt_perf_ring_receiving(const struct dt_perf_ring *ring, unsigned channel,
                                                 unsigned distance);

/* The channel that a connection belongs to. */
unsigned dt_perf_ring_channel(const struct dt_perf_ring *ring, const struct dt_job_connection *connection);

#ifdef __cplusplus
}
#endif

#endif
