/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte streams for set-up and control: the interface that TCP implements (stream_tcp.h), and a simulated
 * network in the tests.
 *
 * Nothing here blocks. A stream belongs to one thread at a time.
 */
#ifndef DETOUR_TRANSPORT_SESSION_STREAM_H
#define DETOUR_TRANSPORT_SESSION_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "transport/protocol/address.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_channel;
struct dt_pair_frame;
struct dt_poller;
struct dt_stream;      /* the implementation's struct begins with it */
struct dt_stream_port; /* a listening port; the same */
struct dt_network;     /* a way to make both; the same */

/*
 * Every function of a stream may report how it ended:
 *   DT_CLOSED       the peer ended it in order (FIN); only from receive, after the last byte
 *   DT_PEER_ERROR   the peer, or its host, is there and has no such stream (refused, reset)
 *   DT_TIMED_OUT    the peer cannot be reached: nothing is known about it
 *   DT_SYSTEM       this end cannot go on
 * An ended stream reports the same status at every call.
 */
struct dt_stream_ops {
    /* DT_AGAIN while it is being established, then DT_OK. */
    enum dt_status (*state)(struct dt_stream *stream);

    /* Sends as many bytes as fit. DT_OK with *sent > 0, or DT_AGAIN when none fits now. bytes > 0. */
    enum dt_status (*send)(struct dt_stream *stream, const void *from, size_t bytes, size_t *sent);

    /* DT_OK with *received > 0, or DT_AGAIN when nothing has come. bytes > 0. */
    enum dt_status (*receive)(struct dt_stream *stream, void *to, size_t bytes, size_t *received);

    /* The other end, as far as it is known. */
    void (*peer)(struct dt_stream *stream, struct dt_address *address);

    /* A file descriptor that is readable when receive() will not return DT_AGAIN; -1: there is none. */
    int (*fd)(struct dt_stream *stream);

    /* Ends the stream in order and frees it. Bytes sent before still arrive, if the peer can be reached. */
    void (*close)(struct dt_stream *stream);

    /* A stream without a descriptor: has the poller woken when receive() will not return DT_AGAIN, when
     * state() has changed, or when send() has room again; NULL: not any more. Or NULL: it has to be tried. */
    void (*set_poller)(struct dt_stream *stream, struct dt_poller *poller);
};

struct dt_stream {
    const struct dt_stream_ops *ops;
};

struct dt_stream_port {
    const struct dt_network_ops *ops;
};

struct dt_network_ops {
    /*
     * Listens on *address; its port is chosen when it is 0, and filled in. DT_SYSTEM with one WARN when that
     * cannot be.
     */
    enum dt_status (*listen)(struct dt_network *network, struct dt_address *address,
                             struct dt_stream_port **port);

    /* The next stream that a peer has opened; DT_AGAIN; DT_SYSTEM (silent) if none can be accepted now, e.g.
     * for lack of file descriptors: try again later. */
    enum dt_status (*accept)(struct dt_stream_port *port, struct dt_stream **stream);

    /* As dt_stream_ops.fd. */
    int (*port_fd)(struct dt_stream_port *port);

    void (*close_port)(struct dt_stream_port *port);

    /* Begins a stream to *address; state() reports the result. DT_SYSTEM (one WARN): it cannot begin. */
    enum dt_status (*dial)(struct dt_network *network, const struct dt_address *address,
                           struct dt_stream **stream);

    /* Takes over a channel on which PAIR has come (pair.h). Or NULL: the network has no carriers. */
    void (*adopt)(struct dt_network *network, struct dt_channel *channel, const struct dt_pair_frame *frame);
};

struct dt_network {
    const struct dt_network_ops *ops;
};

#ifdef __cplusplus
}
#endif

#endif
