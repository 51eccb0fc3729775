/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control session of a connection: frames out of band, over TCP, for as long as both processes live. The
 * session survives its channel (channel.h) and, for a while, its connection.
 *
 * A channel that ends without CLOSE decides nothing: a killed process with unread data resets it, and so does
 * a firewall. The end that dialed (the sender) therefore dials the peer's listener again and sends REJOIN:
 *
 * - refused, twice: no process listens there, so the peer's process is dead, unless a probe of a path is
 *   answered (dt_session_judge());
 * - REJECT: another process, or the peer's end of the connection no longer exists;
 * - WELCOME: the new channel replaces the old one, and unacknowledged frames are sent again;
 * - no answer, unreachable: nothing is known, the management network is down. Data continues without the
 *   channel, and the session dials again, at most once a second.
 *
 * The receiver waits for that. Meanwhile it dials the sender's listener as a liveness probe, with the same
 * conclusions, except that WELCOME ends the attempt: the probe tells a dead process from one that has not
 * dialed yet, and notifies a sender that has not noticed the loss.
 *
 * No frame is lost or applied twice with a channel. Path messages are repeated until answered and idempotent
 * (failover/path_table.h), and CLOSE is repeated until CLOSE_ACK. A session therefore lingers after the close
 * of its connection: until the peer has acknowledged CLOSE, has closed as well, or is dead, at most
 * DETOUR_LINGER_MS. CLOSE answers every frame of a sender during a switchover: it is a RESUME
 * for every epoch.
 *
 * A session belongs to the device thread (nic->mutex), before that to the set-up, except for its endpoint
 * (listener.h).
 */
#ifndef DETOUR_TRANSPORT_SESSION_SESSION_H
#define DETOUR_TRANSPORT_SESSION_SESSION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "failover/retransmit.h"
#include "transport/session/channel.h"
#include "transport/session/listener.h"
#include "transport/session/poller.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 *   UP -> PAUSE -> DIALING -> JOINING -> UP     the channel was lost and replaced
 *   JOINING, DIALING -> PAUSE                   the attempt failed, or the liveness probe was answered
 *   any -> UP                                   receiver: the sender's new channel has come
 *   any -> ENDED
 */
enum dt_session_state {
    DT_SESSION_UP,      /* the channel carries frames */
    DT_SESSION_PAUSE,   /* there is no channel: the next attempt is at retry_ns */
    DT_SESSION_DIALING, /* a new channel is being established */
    DT_SESSION_JOINING, /* it is established, and REJOIN was sent */
    DT_SESSION_ENDED,   /* both ends have closed, the peer is dead, or it broke the protocol */
    DT_SESSION_STATE_COUNT
};

/* "UP", "PAUSE", ...: for the log. */
const char *dt_session_state_text(enum dt_session_state state);

/* State shared by the sessions of a process. Part of struct dt_net. */
struct dt_session_host {
    struct dt_network *network;
    pthread_mutex_t *mutex;       /* guards the listener */
    struct dt_listener *listener; /* or NULL: there is none (yet) */
    uint64_t linger_ns;           /* how long a session may outlive its connection */
};

struct dt_session {
    struct dt_channel channel; /* before the start the set-up's */
    struct dt_endpoint endpoint;
    struct dt_session_host *host;
    struct dt_poller *poller;
    struct dt_address peer_address; /* the peer's listener; family NONE: it has none */
    struct dt_list node;            /* in nic->service->sessions, once the connection is closed */
    uint32_t state;                 /* enum dt_session_state */
    bool has_endpoint;    /* the endpoint is on the listener's list, whose nodes net->mutex guards */
    bool is_ready;        /* the channel may have something to receive */
    bool is_restored;     /* a new channel has come since this was cleared */
    bool is_condemned;    /* PAUSE, refused twice: dt_session_judge() decides */
    bool is_peer_dead;    /* its process is */
    bool has_peer_closed; /* it sent CLOSE */

    enum dt_status loss; /* how the lost channel ended */
    bool is_loss_logged;
    uint32_t refusals;   /* of attempts in a row */
    uint64_t delay_ns;   /* the pause after the next attempt, should it fail */
    uint64_t retry_ns;   /* PAUSE: the next attempt */
    uint64_t attempt_ns; /* DIALING, JOINING: the attempt times out then */
    uint64_t lost_ns;    /* when the channel was lost; 0: it was not */

    bool is_closing; /* CLOSE is to be sent, or was */
    bool is_close_acknowledged;
    uint64_t close_sequence;
    struct dt_retransmit close_repeat;
    uint64_t linger_ns; /* the session ends then at the latest; 0: it does not linger yet */
};

/* NULL: out of memory. */
struct dt_session *dt_session_create(void);

/* Ends and frees it, without waiting for anything. Without nic->mutex. NULL is accepted. */
void dt_session_destroy(struct dt_session *session);

/*
 * The set-up is over: the channel becomes the session's, whose endpoint, host, poller and peer_address are
 * filled in. dt_session_start() with nic->mutex; dt_session_open_endpoint() before it, without.
 */
void dt_session_open_endpoint(struct dt_session *session);
void dt_session_start(struct dt_session *session);

/*
 * The connection's answer to is_condemned: the peer is dead, or it lives although its address refuses, and
 * the session dials again after the longest pause.
 */
void dt_session_judge(struct dt_session *session, bool is_alive, uint64_t now_ns);

/* Replaces a lost channel, repeats CLOSE, sends buffered frames. Returns when it needs the next call. */
uint64_t dt_session_progress(struct dt_session *session, uint64_t now_ns);

/* Whether the channel may have something to receive. */
bool dt_session_is_ready(const struct dt_session *session);

/*
 * The next frame for the connection: PATH, CLOSE (which is acknowledged already), or an invalid one.
 * DT_AGAIN: none now. DT_PROTOCOL: the peer does not speak our protocol; the session has ended.
 */
enum dt_status dt_session_receive(struct dt_session *session, struct dt_frame *frame, uint64_t now_ns);

/* Receives and drops frames; CLOSE is still acknowledged. */
void dt_session_discard(struct dt_session *session, uint64_t now_ns);

/* Where frames may be appended; NULL while there is no channel. The caller repeats frames that do not fit or
 * are lost. */
static inline struct dt_writer *dt_session_out(struct dt_session *session)
{
    return session->state == DT_SESSION_UP ? &session->channel.out : NULL;
}

/* Sends appended frames, as far as there is room. */
void dt_session_flush(struct dt_session *session);

/* The peer sent an invalid frame: ends the session. */
void dt_session_break(struct dt_session *session);

/* Sends CLOSE, and repeats it until it is acknowledged. The sequence of the first call counts. */
void dt_session_send_close(struct dt_session *session, uint64_t sequence, uint64_t now_ns);

/* Progresses a session without a connection, after dt_session_send_close(). True: it is over, destroy it. */
bool dt_session_linger(struct dt_session *session, uint64_t now_ns, uint64_t *deadline_ns);

#ifdef __cplusplus
}
#endif

#endif
