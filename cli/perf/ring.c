/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/ring.h"

#include <stdlib.h>

static size_t per_direction(const struct dt_perf_ring *ring)
{
    return (size_t)ring->channels * ring->distances;
}

size_t dt_perf_ring_count(const struct dt_perf_ring *ring)
{
    return 2 * per_direction(ring);
}

static unsigned peer_of(const struct dt_job_net *net, unsigned distance, bool sends)
{
    return sends ? (net->rank + distance) % net->ranks
                 : (net->rank + net->ranks - distance % net->ranks) % net->ranks;
}

bool dt_perf_ring_init(struct dt_perf_ring *ring, struct dt_job_net *net, unsigned channels,
                       unsigned distances, size_t buffer_bytes)
{
    size_t half = (size_t)channels * distances;

    *ring = (struct dt_perf_ring){.net = net, .channels = channels, .distances = distances};
    ring->connections = calloc(2 * half, sizeof *ring->connections);
    if (!ring->connections)
        return false;
    for (size_t i = 0; i < 2 * half; i++) {
        struct dt_job_connection *connection = &ring->connections[i];

        /* Distances that lead to the same peer stay apart: each has a channel number of its own. */
        connection->channel = (unsigned)(i % half);
        connection->sends = i < half;
        connection->peer = peer_of(net, (unsigned)(i % half % distances) + 1, connection->sends);
        connection->dev = (int)(i % half / distances % (unsigned)net->plugin.device_count);
        connection->buffer_bytes = buffer_bytes;
    }
    return true;
}

void dt_perf_ring_free(struct dt_perf_ring *ring)
{
    free(ring->connections);
    ring->connections = NULL;
}

struct dt_job_connection *dt_perf_ring_sending(const struct dt_perf_ring *ring, unsigned channel,
                                               unsigned distance)
{
    return &ring->connections[(size_t)channel * ring->distances + distance - 1];
}

struct dt_job_connection *dt_perf_ring_receiving(const struct dt_perf_ring *ring, unsigned channel,
                                                 unsigned distance)
{
    return dt_perf_ring_sending(ring, channel, distance) + per_direction(ring);
}

unsigned dt_perf_ring_channel(const struct dt_perf_ring *ring, const struct dt_job_connection *connection)
{
    return connection->channel / ring->distances;
}
