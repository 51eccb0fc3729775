/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/switchover/post.h"

#include "base/atomics.h"
#include "base/check.h"
#include "failover/planted.h"
#include "failover/switchover/stall_watch.h"
#include "transport/path/inband.h"
#include "transport/path/nic.h"
#include "transport/session/session.h"

static void post_in_band(struct dt_connection *c, const struct dt_post *post, bool is_last)
{
    uint64_t now_ns = dt_load_relaxed(&c->environment->tick_ns);

    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];
        bool was_idle;

        if (dt_load_relaxed(&path->state) != DT_PATH_UP || !path->probe ||
            dt_load_relaxed(&path->nic->is_dead) || DT_PLANTED(TCP_ALONE))
            continue;
        dt_stall_watch_poll(path, now_ns);
        was_idle = dt_qp_sends_outstanding(path->probe) == 0;
        if (dt_inband_send(path, post->bytes, post->writer.used, is_last) == DT_OK && was_idle)
            path->switchover->stall.sent_ns = now_ns;
    }
}

void dt_post_frame(struct dt_connection *c, const struct dt_post *post)
{
    struct dt_writer *out = dt_session_out(c->session);

    DT_CHECK(!post->writer.is_full && post->writer.used > 0);
    if (out) {
        dt_put_bytes(out, post->bytes, post->writer.used); /* a frame that does not fit is sent again later */
        dt_session_flush(c->session);
    }
    post_in_band(c, post, false);
}

void dt_post_close(struct dt_connection *c, uint64_t sequence)
{
    struct dt_close close = {sequence};
    struct dt_post post;

    dt_post_begin(&post);
    dt_close_encode(&close, &post.writer);
    post_in_band(c, &post, true);
}
