/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one TCP port of a process, for set-up and for control channels that replace a lost one.
 *
 * A new stream is a pending peer: it is unauthenticated until it has sent HELLO with the nonce of one of our
 * handles, or REJOIN with the nonce of one of our connections. Pending peers are bounded in number and time,
 * whatever they send, and an authenticated peer never waits behind them.
 *
 * The caller holds net->mutex, except where it says otherwise.
 */
#ifndef DETOUR_TRANSPORT_SESSION_LISTENER_H
#define DETOUR_TRANSPORT_SESSION_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "transport/session/channel.h"
#include "transport/session/poller.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_listener;
struct dt_net;
struct dt_nic;
struct dt_setup;

#define DT_PENDING_PEERS_MAX 64                  /* the oldest is dropped for a new one */
#define DT_PENDING_PEER_NS   (5 * 1000000000ull) /* a pending peer is dropped after this time */
#define DT_STREAMS_PER_ROUND 256                 /* accepted in one call */

/* NCCL's listenComm: waits for one peer, which has the handle. */
struct dt_listen {
    struct dt_net *net;
    struct dt_nic *nic;
    uint64_t id;
    uint64_t nonce;
    struct dt_list node;
    struct dt_channel *incoming; /* of the peer that sent HELLO, until accept takes it */
    struct dt_hello hello;
    struct dt_setup *setup; /* accept's, while it is under way */
    uint64_t deadline_ns;   /* of accept, from its first call; 0: not called yet */
};

/*
 * The end of a connection's control session that a new stream can reach: a pending peer that sends REJOIN
 * with the connection's id and nonce is the connection's peer. Members without a remark are constant while
 * the endpoint is on the listener's list.
 */
struct dt_endpoint {
    struct dt_list node;
    struct dt_poller *poller; /* woken when the peer has dialed */
    uint64_t connection_id;
    uint64_t nonce;
    bool is_sender;
    uint32_t round; /* the channel's number; sender: in use; receiver: the newest that came [atomic] */
    struct dt_channel *incoming; /* receiver: the peer's new channel, or NULL [atomic pointer] */
    uint32_t is_lost;            /* sender: the receiver has lost the channel in use [atomic] */
};

/* Opens the port and fills it into *address. DT_NO_MEMORY; DT_SYSTEM with one WARN. */
enum dt_status dt_listener_create(struct dt_network *network, struct dt_address *address,
                                  struct dt_listener **listener);
void dt_listener_destroy(struct dt_listener *listener);

void dt_listener_add(struct dt_listener *listener, struct dt_listen *listen);
void dt_listener_remove(struct dt_listener *listener, struct dt_listen *listen);

void dt_listener_add_endpoint(struct dt_listener *listener, struct dt_endpoint *endpoint);
void dt_listener_remove_endpoint(struct dt_listener *listener, struct dt_endpoint *endpoint);

/* Readable (epoll) when dt_listener_progress() has something to do; -1: the network has no descriptors.
 * Constant: needs no mutex. */
int dt_listener_fd(const struct dt_listener *listener);

/* Accepts new streams, reads from pending peers, drops those whose time is over. True: more streams may wait.
 */
bool dt_listener_progress(struct dt_listener *listener, uint64_t now_ns);

/* For tests and counters. */
struct dt_listener_stats {
    uint32_t pending_peers;   /* now */
    uint64_t dropped_silent;  /* pending peers that sent nothing in time, or ended */
    uint64_t dropped_garbage; /* that sent an invalid frame */
    uint64_t dropped_crowd;   /* that were dropped for a newer one */
    uint64_t rejected;        /* that named a listener, or a connection, which does not exist here */
    uint64_t carriers;        /* handed to the network (pair.h) */
    uint64_t rejoined;        /* new channels of connections */
    uint64_t liveness_dials;  /* liveness probes that were answered */
};
void dt_listener_query_stats(const struct dt_listener *listener, struct dt_listener_stats *stats);

/* Sends REJECT with the reason and ends the channel. */
void dt_listener_reject(struct dt_channel *channel, const char *reason);

#ifdef __cplusplus
}
#endif

#endif
