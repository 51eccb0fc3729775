/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/peer_frames.h"

#include "base/check.h"
#include "failover/switchover/switchover.h"
#include "transport/message/connection.h"
#include "transport/service_state.h"
#include "transport/session/session.h"

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

void dt_peer_frames_read(struct dt_connection *c, uint64_t now_ns)
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

void dt_peer_frames_discard(struct dt_connection *c, uint64_t now_ns)
{
    if (dt_session_is_ready(c->session))
        dt_session_discard(c->session, now_ns);
}

uint64_t dt_peer_frames_session(struct dt_connection *c, uint64_t now_ns)
{
    uint64_t deadline_ns = dt_session_progress(c->session, now_ns);

    if (c->session->is_restored) {
        dt_switchover_resend(c, now_ns);
        c->ops->session_started(c);
    }
    c->session->is_restored = false;
    c->service->is_peer_lost = c->session->is_peer_dead;
    return deadline_ns;
}
