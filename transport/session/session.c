/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/session/session.h"

#include <stdlib.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "failover/planted.h"

#define RETRY_NS_FIRST (5 * DT_NS_PER_MS)
#define RETRY_NS_MAX   DT_NS_PER_S
/* The sender dials at once; the receiver waits for this time before it probes the sender's liveness. */
#define LIVENESS_NS (5 * DT_NS_PER_MS)
/* The interval of liveness probes once one was answered. */
#define LIVENESS_NS_MAX DT_NS_PER_S
/* Timeout of an attempt, for the connection and the answer: TCP retransmits a SYN after 1 s and 3 s. */
#define ATTEMPT_NS (5 * DT_NS_PER_S)
/* How many frames of one peer one call reads: a peer may send without end. */
#define FRAMES_PER_ROUND 64
/* One refusal may come from a process that is just starting or ending. */
#define REFUSALS_MAX 2

struct dt_session *dt_session_create(void)
{
    struct dt_session *session = calloc(1, sizeof *session);

    if (!session)
        return NULL;
    dt_list_init(&session->node);
    dt_list_init(&session->endpoint.node);
    dt_retransmit_stop(&session->close_repeat);
    return session;
}

void dt_session_destroy(struct dt_session *session)
{
    if (!session)
        return;
    DT_CHECK(dt_list_is_empty(&session->node));
    if (session->has_endpoint) {
        pthread_mutex_lock(session->host->mutex);
        dt_listener_remove_endpoint(session->host->listener, &session->endpoint);
        pthread_mutex_unlock(session->host->mutex);
    }
    dt_channel_free(dt_exchange_acq_rel(&session->endpoint.incoming, (struct dt_channel *)NULL));
    dt_channel_close(&session->channel);
    free(session);
}

void dt_session_open_endpoint(struct dt_session *session)
{
    struct dt_session_host *host = session->host;

    DT_CHECK(!session->has_endpoint && dt_list_is_empty(&session->endpoint.node));
    pthread_mutex_lock(host->mutex);
    session->has_endpoint = host->listener != NULL;
    if (session->has_endpoint)
        dt_listener_add_endpoint(host->listener, &session->endpoint);
    pthread_mutex_unlock(host->mutex);
}

/* ------------------------------------------------------------------------------------------------------------
 * States
 */
#define TO(state) (1u << DT_SESSION_##state)

/* The states that may follow each state. A dead peer returns to UP if its new channel comes after all. */
static const uint32_t next_states[DT_SESSION_STATE_COUNT] = {
    [DT_SESSION_UP] = TO(UP) | TO(PAUSE) | TO(ENDED),
    [DT_SESSION_PAUSE] = TO(UP) | TO(PAUSE) | TO(DIALING) | TO(ENDED),
    [DT_SESSION_DIALING] = TO(UP) | TO(PAUSE) | TO(JOINING) | TO(ENDED),
    [DT_SESSION_JOINING] = TO(UP) | TO(PAUSE) | TO(ENDED),
    [DT_SESSION_ENDED] = TO(UP) | TO(ENDED),
};

const char *dt_session_state_text(enum dt_session_state state)
{
    static const char *const text[DT_SESSION_STATE_COUNT] = {"UP", "PAUSE", "DIALING", "JOINING", "ENDED"};

    return state < DT_SESSION_STATE_COUNT ? text[state] : "?";
}

static void enter(struct dt_session *session, enum dt_session_state state)
{
    DT_CHECK(session->state < DT_SESSION_STATE_COUNT && next_states[session->state] & 1u << state);
    if (session->state != state)
        dt_trace("connection %016llx: control session %s -> %s",
                 (unsigned long long)session->endpoint.connection_id,
                 dt_session_state_text((enum dt_session_state)session->state), dt_session_state_text(state));
    session->state = state;
}

/* ------------------------------------------------------------------------------------------------------------
 * Loss and return of the channel
 */
static void watch(struct dt_session *session)
{
    session->poller->ops->watch(session->poller, session);
}

static void close_channel(struct dt_session *session)
{
    session->poller->ops->forget(session->poller, session);
    dt_channel_close(&session->channel);
    session->is_ready = false;
}

void dt_session_start(struct dt_session *session)
{
    DT_CHECK(session->state == DT_SESSION_UP && session->channel.stream);
    session->is_ready = true; /* a frame may have come with the last message of the set-up */
    watch(session);
}

static void end(struct dt_session *session, bool is_peer_dead)
{
    close_channel(session);
    enter(session, DT_SESSION_ENDED);
    session->is_peer_dead = is_peer_dead;
}

static void die(struct dt_session *session, const char *why)
{
    dt_info("peer-dead", "connection %016llx: the peer is dead: %s",
            (unsigned long long)session->endpoint.connection_id, why);
    end(session, true);
}

/* The channel has ended; `status` is the cause (stream.h). */
static void lose(struct dt_session *session, enum dt_status status, uint64_t now_ns)
{
    close_channel(session);
    if (session->has_peer_closed) {
        enter(session, DT_SESSION_ENDED);
        return;
    }
    if (DT_PLANTED(RESET_IS_DEATH) && status == DT_PEER_ERROR) {
        die(session, "reset");
        return;
    }
    enter(session, DT_SESSION_PAUSE);
    session->lost_ns = now_ns;
    session->delay_ns = RETRY_NS_FIRST;
    session->retry_ns = session->endpoint.is_sender ? now_ns : now_ns + LIVENESS_NS;
    session->refusals = 0;
    session->loss = status;
    session->is_loss_logged = false;
}

/* The new channel is in use; the peer knows, or will once it reads WELCOME. */
static void restore(struct dt_session *session, uint64_t now_ns)
{
    DT_CHECK(session->channel.stream != NULL);
    enter(session, DT_SESSION_UP);
    session->is_ready = true;
    session->is_restored = true;
    session->is_condemned = session->is_peer_dead = false;
    if (session->lost_ns)
        dt_info("channel-replaced", "connection %016llx: the control channel was replaced after %llu us",
                (unsigned long long)session->endpoint.connection_id,
                (unsigned long long)((now_ns - session->lost_ns) / DT_NS_PER_US));
    session->lost_ns = 0;
    dt_retransmit_now(&session->close_repeat, now_ns);
}

/* Receiver: the sender has dialed again. */
static void take_incoming(struct dt_session *session, uint64_t now_ns)
{
    struct dt_channel *incoming = dt_load_relaxed(&session->endpoint.incoming);

    if (incoming)
        incoming = dt_exchange_acq_rel(&session->endpoint.incoming, (struct dt_channel *)NULL);
    if (!incoming)
        return;
    DT_CHECK(!session->endpoint.is_sender && incoming->stream); /* only a sender dials a new channel */
    close_channel(session);
    dt_channel_move(&session->channel, incoming);
    free(incoming);
    dt_empty_frame_encode(DT_FRAME_WELCOME, &session->channel.out);
    watch(session);
    restore(session, now_ns);
}

/* ------------------------------------------------------------------------------------------------------------
 * Dialing
 */

/* An attempt has failed: the next one comes after the pause. */
static void pause_dialing(struct dt_session *session, uint64_t now_ns)
{
    close_channel(session);
    if (!session->is_loss_logged && session->refusals == 0)
        dt_info("channel-lost",
                "connection %016llx: the control channel is lost (%s), and the peer cannot be reached to "
                "replace it; data continues without it",
                (unsigned long long)session->endpoint.connection_id, dt_status_text(session->loss));
    session->is_loss_logged |= session->refusals == 0;
    enter(session, DT_SESSION_PAUSE);
    DT_CHECK(session->delay_ns >= RETRY_NS_FIRST && session->delay_ns <= RETRY_NS_MAX);
    session->retry_ns = now_ns + session->delay_ns;
    session->delay_ns = dt_earlier_ns(2 * session->delay_ns, RETRY_NS_MAX);
}

static void take_refusal(struct dt_session *session, uint64_t now_ns)
{
    DT_CHECK(session->refusals < REFUSALS_MAX);
    session->refusals++;
    pause_dialing(session, now_ns);
    session->is_condemned = session->refusals >= REFUSALS_MAX;
}

void dt_session_judge(struct dt_session *session, bool is_alive, uint64_t now_ns)
{
    DT_CHECK(session->is_condemned && session->state == DT_SESSION_PAUSE);
    session->is_condemned = false;
    session->refusals = 0;
    session->delay_ns = RETRY_NS_MAX;
    session->retry_ns = now_ns + RETRY_NS_MAX;
    if (!is_alive)
        die(session,
            "the control channel closed without CLOSE, and no process listens at its address any more");
}

/* No answer, or an invalid one: the peer's state is unknown. */
static void take_silence(struct dt_session *session, uint64_t now_ns)
{
    session->refusals = 0;
    pause_dialing(session, now_ns);
}

/* Receiver: the sender is alive, and knows that the channel is lost. */
static void take_liveness(struct dt_session *session, uint64_t now_ns)
{
    close_channel(session);
    enter(session, DT_SESSION_PAUSE);
    session->refusals = 0;
    session->delay_ns = RETRY_NS_FIRST;
    session->retry_ns = now_ns + LIVENESS_NS_MAX;
}

static void dial(struct dt_session *session, uint64_t now_ns)
{
    struct dt_network *network = session->host->network;
    struct dt_stream *stream;

    DT_CHECK(session->state == DT_SESSION_PAUSE && !session->channel.stream);
    if (network->ops->dial(network, &session->peer_address, &stream) != DT_OK) {
        take_silence(session, now_ns);
        return;
    }
    if (session->endpoint.is_sender)
        dt_store_relaxed(&session->endpoint.round, session->endpoint.round + 1);
    dt_channel_open(&session->channel, stream);
    enter(session, DT_SESSION_DIALING);
    session->attempt_ns = now_ns + ATTEMPT_NS;
    watch(session);
}

static void send_rejoin(struct dt_session *session)
{
    struct dt_rejoin rejoin = {
        .connection_id = session->endpoint.connection_id,
        .nonce = session->endpoint.nonce,
        .round = dt_load_relaxed(&session->endpoint.round),
        .is_sender = session->endpoint.is_sender,
    };

    enter(session, DT_SESSION_JOINING);
    dt_rejoin_encode(&rejoin, &session->channel.out);
    watch(session);
}

static void progress_dialing(struct dt_session *session, uint64_t now_ns)
{
    enum dt_status status = session->channel.stream->ops->state(session->channel.stream);

    if (status == DT_OK)
        send_rejoin(session);
    else if (status == DT_PEER_ERROR)
        take_refusal(session, now_ns);
    else if (status != DT_AGAIN || now_ns >= session->attempt_ns)
        take_silence(session, now_ns);
}

static void progress_joining(struct dt_session *session, uint64_t now_ns)
{
    enum dt_status status = dt_channel_flush(&session->channel);
    struct dt_frame frame;

    if (status == DT_OK)
        status = dt_channel_receive(&session->channel, &frame);
    if (status == DT_AGAIN && now_ns < session->attempt_ns)
        return;
    if (status == DT_OK && frame.type == DT_FRAME_REJECT)
        die(session, "its process no longer knows the connection");
    else if (status != DT_OK || frame.type != DT_FRAME_WELCOME)
        take_silence(session, now_ns);
    else if (session->endpoint.is_sender)
        restore(session, now_ns);
    else
        take_liveness(session, now_ns);
}

/* ------------------------------------------------------------------------------------------------------------
 * Frames
 */
static void append_close(struct dt_session *session)
{
    struct dt_close close = {session->close_sequence};

    dt_close_encode(&close, &session->channel.out);
}

void dt_session_send_close(struct dt_session *session, uint64_t sequence, uint64_t now_ns)
{
    if (session->is_closing)
        return;
    session->is_closing = true;
    session->close_sequence = sequence;
    dt_retransmit_start(&session->close_repeat, now_ns);
    if (session->state != DT_SESSION_UP)
        return;
    append_close(session);
    dt_session_flush(session);
}

void dt_session_flush(struct dt_session *session)
{
    if (session->state == DT_SESSION_UP && session->channel.out.used > 0)
        dt_channel_flush(&session->channel); /* the next receive reports an end of the stream */
}

void dt_session_break(struct dt_session *session)
{
    end(session, false);
}

bool dt_session_is_ready(const struct dt_session *session)
{
    return session->is_ready || !session->poller->ops->is_running(session->poller) ||
           !dt_channel_has_fd(&session->channel);
}

/* CLOSE_ACK is for the session alone. The next round reads the rest of many. */
static enum dt_status receive_frame(struct dt_session *session, struct dt_frame *frame)
{
    enum dt_status status = dt_channel_receive(&session->channel, frame);

    for (int i = 1; status == DT_OK && frame->type == DT_FRAME_CLOSE_ACK; i++) {
        session->is_close_acknowledged = true;
        dt_retransmit_stop(&session->close_repeat);
        if (i == FRAMES_PER_ROUND)
            return DT_AGAIN;
        status = dt_channel_receive(&session->channel, frame);
    }
    session->is_ready &= status == DT_OK;
    return status;
}

enum dt_status dt_session_receive(struct dt_session *session, struct dt_frame *frame, uint64_t now_ns)
{
    enum dt_status status = DT_AGAIN;

    if (session->state == DT_SESSION_UP)
        status = receive_frame(session, frame);
    if (status == DT_OK && frame->type == DT_FRAME_CLOSE) {
        session->has_peer_closed = true;
        dt_empty_frame_encode(DT_FRAME_CLOSE_ACK, &session->channel.out);
        dt_session_flush(session);
    }
    if (status == DT_OK)
        return DT_OK;
    if (session->state != DT_SESSION_UP)
        session->is_ready = false;
    if (status == DT_PROTOCOL)
        end(session, false);
    else if (status != DT_AGAIN)
        lose(session, status, now_ns);
    return status == DT_PROTOCOL ? DT_PROTOCOL : DT_AGAIN;
}

void dt_session_discard(struct dt_session *session, uint64_t now_ns)
{
    struct dt_frame frame;

    for (int i = 0; i < FRAMES_PER_ROUND && dt_session_receive(session, &frame, now_ns) == DT_OK; i++)
        continue;
}

/* ------------------------------------------------------------------------------------------------------------
 * Progress
 */
static void progress_up(struct dt_session *session, uint64_t now_ns)
{
    if (session->is_closing && !session->is_close_acknowledged &&
        dt_retransmit_due(&session->close_repeat, now_ns) && !DT_PLANTED(CLOSE_ONCE))
        append_close(session);
    dt_session_flush(session);
}

static uint64_t next_call_ns(const struct dt_session *session)
{
    switch ((enum dt_session_state)session->state) {
    case DT_SESSION_UP:
        return session->is_closing && !session->is_close_acknowledged ? session->close_repeat.next_ns
                                                                      : DT_NEVER_NS;
    case DT_SESSION_PAUSE:
        return session->peer_address.family && !session->is_condemned ? session->retry_ns : DT_NEVER_NS;
    case DT_SESSION_DIALING:
    case DT_SESSION_JOINING:
        return session->attempt_ns;
    default:
        return DT_NEVER_NS;
    }
}

uint64_t dt_session_progress(struct dt_session *session, uint64_t now_ns)
{
    take_incoming(session, now_ns);
    if (dt_load_relaxed(&session->endpoint.is_lost) && dt_exchange_acq_rel(&session->endpoint.is_lost, 0u) &&
        session->state == DT_SESSION_UP)
        lose(session, DT_CLOSED, now_ns);
    if (session->state == DT_SESSION_PAUSE && !session->is_condemned && now_ns >= session->retry_ns &&
        session->peer_address.family)
        dial(session, now_ns);
    if (session->state == DT_SESSION_DIALING)
        progress_dialing(session, now_ns);
    if (session->state == DT_SESSION_JOINING)
        progress_joining(session, now_ns);
    if (session->state == DT_SESSION_UP)
        progress_up(session, now_ns);
    return next_call_ns(session);
}

bool dt_session_linger(struct dt_session *session, uint64_t now_ns, uint64_t *deadline_ns)
{
    uint64_t wake_ns = dt_session_progress(session, now_ns);

    DT_CHECK(session->is_closing && !dt_list_is_empty(&session->node));
    if (session->is_condemned) /* no connection is left that could object */
        dt_session_judge(session, false, now_ns);
    if (session->linger_ns == 0)
        session->linger_ns = dt_deadline_ns(now_ns, session->host->linger_ns);
    if (dt_session_is_ready(session))
        dt_session_discard(session, now_ns);
    if (session->is_close_acknowledged || session->has_peer_closed || session->state == DT_SESSION_ENDED ||
        now_ns >= session->linger_ns) {
        /* Also ends the watch: closing the descriptor does not, while a child process has a copy of it. */
        close_channel(session);
        return true;
    }
    if (session->state == DT_SESSION_UP && session->is_ready)
        wake_ns = now_ns;
    *deadline_ns = dt_earlier_ns(*deadline_ns, dt_earlier_ns(wake_ns, session->linger_ns));
    return false;
}
