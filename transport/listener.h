/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one port on which a process is reached for set-up, and who comes in there. A stream is a stranger until
 * it has said HELLO with the nonce of one of our handles; strangers are few and short-lived, whatever they
 * send or do not send, and a known peer never waits behind them.
 */
#ifndef DETOUR_TRANSPORT_LISTENER_H
#define DETOUR_TRANSPORT_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "transport/channel.h"
#include "transport/net.h"
#include "transport/nic.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_STRANGERS_MAX     64                  /* the oldest goes when another one comes */
#define DT_STRANGER_NS       (5 * 1000000000ull) /* to say HELLO in */
#define DT_STREAMS_PER_ROUND 256                 /* taken from the system in one call */

/* What NCCL's listenComm is: a place where one peer is expected. */
struct dt_listen {
    struct dt_net *net;
    struct dt_nic *nic;
    uint64_t id;
    uint64_t nonce;
    struct dt_list node;
    struct dt_channel *incoming; /* of the peer that said HELLO, until accept takes it */
    struct dt_hello hello;
    struct dt_setup *setup; /* accept's, while it is under way */
    uint64_t deadline_ns;   /* of accept, from its first call; 0: not called yet */
};

/*
 * The line of a connection, as strangers find it: whoever says REJOIN with its number and nonce is its peer.
 * Members without a remark are constant while it is on the list.
 */
struct dt_door {
    struct dt_list node;
    struct dt_nic *nic; /* woken when somebody has come */
    uint64_t connection_id;
    uint64_t nonce;
    bool is_sender;
    uint32_t round;              /* sender: the channel in use; receiver: the newest that came [atomic] */
    struct dt_channel *incoming; /* receiver: the peer's new channel, or NULL [atomic pointer] */
    uint32_t is_lost;            /* sender: the peer says that it lost the channel in use [atomic] */
};

/* Opens the port. *address is completed with it. The caller holds net->mutex in all of these. */
enum dt_status dt_listener_create(struct dt_network *network, struct dt_address *address,
                                  struct dt_listener **listener);
void dt_listener_destroy(struct dt_listener *listener);

void dt_listener_add(struct dt_listener *listener, struct dt_listen *listen);
void dt_listener_remove(struct dt_listener *listener, struct dt_listen *listen);

void dt_listener_add_door(struct dt_listener *listener, struct dt_door *door);
void dt_listener_remove_door(struct dt_listener *listener, struct dt_door *door);

/* Readable (epoll) when dt_listener_progress() has something to do; -1 when the network cannot tell.
 * Constant, and needs no mutex. */
int dt_listener_fd(const struct dt_listener *listener);

/* Takes in who has come, hears strangers, drops the late ones. */
void dt_listener_progress(struct dt_listener *listener, uint64_t now_ns);

/* For tests and counters. */
struct dt_listener_stats {
    uint32_t strangers;       /* now */
    uint64_t dropped_silent;  /* said nothing, or ended */
    uint64_t dropped_garbage; /* said something else */
    uint64_t dropped_crowd;   /* had to make room */
    uint64_t rejected;        /* named a listener, or a connection, that we do not have */
    uint64_t rejoined;        /* the new channel of a connection */
    uint64_t knocked;         /* came to see whether we live */
};
void dt_listener_query_stats(const struct dt_listener *listener, struct dt_listener_stats *stats);

/* Sends REJECT with the reason and ends the channel. */
void dt_listener_reject(struct dt_channel *channel, const char *reason);

#ifdef __cplusplus
}
#endif

#endif
