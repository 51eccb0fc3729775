/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/peer_frames.h"

#include "base/check.h"
#include "base/clock.h"
#include "failover/switchover/stall_watch.h"
#include "failover/switchover/switchover.h"
#include "transport/message/connection.h"
#include "transport/path/inband.h"
#include "transport/service_state.h"
#include "transport/session/session.h"
#include "transport/takeover.h"

/* The interval of looks at mailboxes in which an answer is expected. */
#define LOOK_NS DT_NS_PER_MS

/* The first CLOSE counts; a new channel repeats it. */
static enum dt_status take_close(struct dt_connection *c, const struct dt_frame *frame)
{
    struct dt_close close;
    enum dt_status status = dt_close_decode(frame->body, frame->bytes, &close);

    if (status != DT_OK || dt_load_relaxed(&c->notices) & DT_NOTICE_PEER_CLOSED)
        return status;
    c->peer_close_sequence = close.sequence;
    dt_connection_notify(c, DT_NOTICE_PEER_CLOSED);
    return DT_OK;
}

/* DT_PROTOCOL: a frame that this connection cannot get, or one that does not decode. */
static enum dt_status take_frame(struct dt_connection *c, const struct dt_frame *frame)
{
    struct dt_switchover *switchover = c->switchover;
    enum dt_status status = DT_PROTOCOL;

    DT_CHECK(!switchover->is_frame_pending);
    switchover->frame_type = frame->type;
    switch (frame->type) {
    case DT_FRAME_QUERY:
    case DT_FRAME_COMPLETE:
        status = dt_fact_decode(frame->body, frame->bytes, c->path_count, &switchover->fact);
        switchover->is_frame_pending = status == DT_OK;
        return status;
    case DT_FRAME_PATH:
        status =
            dt_path_frame_decode(frame->body, frame->bytes, c->path_count, c->qps, &switchover->path_frame);
        switchover->is_frame_pending = status == DT_OK;
        return status;
    case DT_FRAME_CLOSE:
        return take_close(c, frame);
    default:
        return c->ops->frame(c, frame);
    }
}

static void read_session(struct dt_connection *c, uint64_t now_ns)
{
    enum dt_status status = DT_OK;
    struct dt_frame frame;

    for (int i = 0; i < DT_FRAMES_PER_ROUND && status == DT_OK && !c->switchover->is_frame_pending; i++) {
        status = dt_session_receive(c->session, &frame, now_ns);
        if (status == DT_OK)
            status = take_frame(c, &frame);
    }
    if (status != DT_PROTOCOL)
        return;
    dt_session_break(c->session);
    dt_connection_notify(c, DT_NOTICE_PEER_BROKEN);
}

/* ------------------------------------------------------------------------------------------------------------
 * In band
 */

/*
 * Only what is repeated and may come twice. A frame that is anything else is dropped: what a mailbox holds
 * may be late.
 */
static void take_mail(struct dt_connection *c, const struct dt_mail *mail)
{
    struct dt_frame frame = {mail->type, mail->body_bytes, mail->frame + DT_FRAME_HEADER_BYTES};

    if (frame.type == DT_FRAME_QUERY || frame.type == DT_FRAME_COMPLETE || frame.type == DT_FRAME_PATH ||
        frame.type == DT_FRAME_CLOSE)
        take_frame(c, &frame);
}

static void read_mailboxes(struct dt_connection *c)
{
    struct dt_mail mail;

    for (uint32_t p = 0; p < c->path_count; p++) {
        for (uint32_t i = 0; i < DT_MAILBOX_SLOTS && !c->switchover->is_frame_pending &&
                             dt_inband_receive(&c->path[p], &mail);
             i++)
            take_mail(c, &mail);
    }
}

static bool has_mail(const struct dt_connection *c)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (dt_inband_has_news(&c->path[p]))
            return true;
    }
    return false;
}

/*
 * Nothing reports that a frame has come in band. While the answer to a frame may come soon the mailboxes are
 * looked at often; else with the rounds that the connection gets anyway.
 */
static uint64_t look_ns(const struct dt_connection *c, uint64_t now_ns)
{
    if (!c->switchover->is_switching)
        return DT_NEVER_NS;
    for (uint32_t p = 0; p < c->path_count; p++) {
        const struct dt_retransmit *repeat = &c->path[p].machine.retransmit;

        if (repeat->next_ns != DT_NEVER_NS && repeat->delay_ns < DT_RETRANSMIT_NS_MAX)
            return dt_deadline_ns(now_ns, LOOK_NS);
    }
    return DT_NEVER_NS;
}

/* ------------------------------------------------------------------------------------------------------------
 * Both
 */
uint64_t dt_peer_frames_deadline_ns(const struct dt_connection *c, uint64_t now_ns)
{
    return c->session->is_ready || has_mail(c) ? now_ns : look_ns(c, now_ns);
}

bool dt_peer_frames_are_ready(const struct dt_connection *c)
{
    return dt_session_is_ready(c->session) || has_mail(c);
}

void dt_peer_frames_read(struct dt_connection *c, uint64_t now_ns)
{
    if (dt_session_is_ready(c->session))
        read_session(c, now_ns);
    if (!c->switchover->is_frame_pending)
        read_mailboxes(c);
}

void dt_peer_frames_discard(struct dt_connection *c, uint64_t now_ns)
{
    if (dt_session_is_ready(c->session))
        dt_session_discard(c->session, now_ns);
}

/* ------------------------------------------------------------------------------------------------------------
 * The session
 */

/* Posts a probe on every path that is up. */
static void probe_peer(struct dt_connection *c, uint64_t now_ns)
{
    c->service->refused_ns = now_ns;
    c->service->probed_mask = 0;
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (dt_stall_watch_post(&c->path[p], NULL, false, now_ns))
            c->service->probed_mask |= 1u << p;
    }
}

static bool has_answered(struct dt_connection *c, uint64_t now_ns)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (c->service->probed_mask & 1u << p && dt_stall_watch_is_answered(&c->path[p], now_ns))
            return true;
    }
    return false;
}

/*
 * The peer's address refuses connections. A process that has ended has no queue pairs, so an answer to a
 * probe is proof that the peer lives: then its control network refuses, as a firewall does.
 */
static uint64_t judge_peer(struct dt_connection *c, uint64_t now_ns)
{
    bool is_serving = dt_load_acquire(&c->failing) == DT_OK;
    bool is_alive;

    if (!c->session->is_condemned) {
        c->service->refused_ns = 0;
        return DT_NEVER_NS;
    }
    if (c->service->refused_ns == 0 && is_serving)
        probe_peer(c, now_ns);
    is_alive = is_serving && has_answered(c, now_ns);
    if (is_serving && !is_alive && now_ns - c->service->refused_ns < DT_PEER_DEAD_WAIT_NS)
        return dt_deadline_ns(now_ns, LOOK_NS);
    dt_session_judge(c->session, is_alive, now_ns);
    c->service->refused_ns = 0;
    return now_ns;
}

uint64_t dt_peer_frames_session(struct dt_connection *c, uint64_t now_ns)
{
    uint64_t deadline_ns = dt_session_progress(c->session, now_ns);

    deadline_ns = dt_earlier_ns(deadline_ns, judge_peer(c, now_ns));
    if (c->session->is_restored) {
        dt_switchover_resend(c, now_ns);
        c->ops->session_started(c);
    }
    c->session->is_restored = false;
    c->service->is_peer_lost = c->session->is_peer_dead;
    return deadline_ns;
}
