/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of one rank: per channel and distance one to send over and one to receive over, each with a
 * buffer registered with the plugin. Set-up and teardown run on the rank's service thread, in NCCL's order:
 * listen; handles travel as plain bytes; connect and accept over and over until all are there, closeListen as
 * soon as accept has succeeded, then the buffer; at the end deregMr, free, close.
 */
#ifndef DETOUR_CLI_PERF_NET_H
#define DETOUR_CLI_PERF_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/perf_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes behind the largest message in a receive buffer of --raw: part of the capacity, never written. */
#define DT_PERF_GUARD_BYTES 128

struct dt_perf_connection {
    void *comm; /* NULL until connected */
    void *listen_comm;
    unsigned peer;
    unsigned channel;
    unsigned distance;
    int dev;
    bool sends;
    /* The connecting side's scratch; aligned as NCCL's allocations are. */
    char handle[NCCL_NET_HANDLE_MAXSIZE] __attribute__((aligned(16)));
    char *buffer;
    size_t buffer_bytes;
    void *mhandle;
};

struct dt_perf_net {
    struct dt_perf_plugin plugin;
    unsigned rank;
    unsigned ranks;
    unsigned channels;
    unsigned distances;
    size_t buffer_bytes;                  /* per connection */
    struct dt_perf_connection *sending;   /* [channel * distances + distance - 1] */
    struct dt_perf_connection *receiving; /* likewise */
    unsigned connected;      /* of both kinds, with their buffers; relaxed, any thread may read */
    uint64_t *heartbeat;     /* counts steps forward; relaxed */
    uint64_t bytes_received; /* in receives that are done; relaxed, any thread may read */
};

/* The connection of a channel and a distance >= 1. */
struct dt_perf_connection *dt_perf_net_sending(struct dt_perf_net *net, unsigned channel, unsigned distance);
struct dt_perf_connection *dt_perf_net_receiving(struct dt_perf_net *net, unsigned channel,
                                                 unsigned distance);

/*
 * Fills in the connections after `plugin`, rank, ranks, channels, distances, buffer_bytes and heartbeat are
 * set. Channels take the plugin's devices in turn.
 */
bool dt_perf_net_init(struct dt_perf_net *net, struct dt_perf_error *error);

/* The number of handles a rank gives out. */
size_t dt_perf_net_handle_count(const struct dt_perf_net *net);

/* Service thread: listens on every receiving connection. handles: handle_count x NCCL_NET_HANDLE_MAXSIZE. */
bool dt_perf_net_listen(struct dt_perf_net *net, char *handles, struct dt_perf_error *error);

/* Service thread: connects everything, given the handles of all ranks, and registers the buffers. */
bool dt_perf_net_connect(struct dt_perf_net *net, const char *all_handles, struct dt_perf_error *error);

/* Service thread, after the progress thread has ended: takes everything down. */
bool dt_perf_net_close(struct dt_perf_net *net, struct dt_perf_error *error);

#ifdef __cplusplus
}
#endif

#endif
