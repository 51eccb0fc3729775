/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/switchover/post.h"

#include "base/check.h"
#include "failover/planted.h"
#include "failover/switchover/stall_watch.h"
#include "transport/session/session.h"

static void post_in_band(struct dt_connection *c, const struct dt_post *post, bool is_last, uint64_t now_ns)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (!DT_PLANTED(TCP_ALONE))
            (void)dt_stall_watch_post(&c->path[p], post, is_last, now_ns); /* what is refused is repeated */
    }
}

void dt_post_frame(struct dt_connection *c, const struct dt_post *post, uint64_t now_ns)
{
    struct dt_writer *out = dt_session_out(c->session);

    DT_CHECK(!post->writer.is_full && post->writer.used > 0);
    if (out) {
        dt_put_bytes(out, post->bytes, post->writer.used); /* a frame that does not fit is sent again later */
        dt_session_flush(c->session);
    }
    post_in_band(c, post, false, now_ns);
}

void dt_post_close(struct dt_connection *c, uint64_t sequence, uint64_t now_ns)
{
    struct dt_close close = {sequence};
    struct dt_post post;

    dt_post_begin(&post);
    dt_close_encode(&close, &post.writer);
    post_in_band(c, &post, true, now_ns);
}
