/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of one rank, exactly those that its program needs: each is a direction between two ranks
 * and has a buffer that is registered with the plugin. Set-up and teardown run on the rank's service thread,
 * in NCCL's order: listen; the handles travel as plain bytes; connect and accept until every connection is
 * there, closeListen as soon as accept has succeeded, then the buffer; at the end deregMr, free, close.
 */
#ifndef DETOUR_JOB_NET_H
#define DETOUR_JOB_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/link.h"
#include "job/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One direction between this rank and a peer. A rank that sends to `peer` over `channel` needs a peer that
 * receives from it over the same channel: the number distinguishes connections between the same two ranks.
 */
struct dt_job_connection {
    /* The command sets these. */
    unsigned peer;
    unsigned channel;
    bool sends;
    int dev; /* of the plugin, on this rank */
    size_t buffer_bytes;
    /* dt_job_net_*() set these; 0 at first. */
    void *comm; /* NULL until connected */
    void *listen_comm;
    bool has_handle;
    /* The receiver's: what connect() gets, and may use as scratch; aligned as NCCL's allocations are. */
    char handle[NCCL_NET_HANDLE_MAXSIZE] __attribute__((aligned(16)));
    char *buffer;
    void *mhandle;
};

struct dt_job_net {
    struct dt_job_plugin plugin;
    unsigned rank;
    unsigned ranks;
    struct dt_job_connection *connections; /* the command's */
    size_t connection_count;
    unsigned connected; /* with their buffers; relaxed, any thread may read */
    uint64_t heartbeat; /* counts steps forward, of connections and of the command's work; relaxed */
};

/* Service thread: listens for every receiving connection. */
bool dt_job_net_listen(struct dt_job_net *net, struct dt_job_error *error);

/*
 * Main thread: passes the handles of the receiving connections to the ranks that send. Fails on each rank
 * that has a connection without a counterpart at its peer.
 */
bool dt_job_net_exchange(struct dt_job_net *net, struct dt_job_link *link, struct dt_job_error *error);

/* Service thread: connects everything and registers the buffers. */
bool dt_job_net_connect(struct dt_job_net *net, struct dt_job_error *error);

/* Service thread, after all work has ended: releases everything but the list of connections. */
bool dt_job_net_close(struct dt_job_net *net, struct dt_job_error *error);

#ifdef __cplusplus
}
#endif

#endif
