/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames to the peer of an established connection. Each goes over the control session and, in band, over
 * every path that is up (transport/path/inband.h): the control network may be away without notice. Whatever
 * is lost is repeated by its sender, and a frame that comes twice changes nothing. OPEN and OPENED of more
 * than DT_QPS_IN_BAND_MAX queue pairs are too long for a mailbox and go over the session alone.
 */
#ifndef DETOUR_FAILOVER_SWITCHOVER_POST_H
#define DETOUR_FAILOVER_SWITCHOVER_POST_H

#include "transport/message/connection.h"
#include "transport/protocol/codec.h"
#include "transport/protocol/frames.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A frame that is being encoded: dt_post_begin(), an encoder of frames.h, dt_post_frame(). */
struct dt_post {
    struct dt_writer writer;
    uint8_t bytes[DT_PATH_FRAME_BYTES_MAX];
};

static inline void dt_post_begin(struct dt_post *post)
{
    post->writer = (struct dt_writer){post->bytes, sizeof post->bytes, 0, false};
}

/* Device thread: sends the frame that was encoded. */
void dt_post_frame(struct dt_connection *connection, const struct dt_post *post, uint64_t now_ns);

/*
 * CLOSE, in band alone: the session sends its own and repeats it. This one is sent once, for a peer that the
 * control network does not reach; the path's queue pairs may be destroyed right afterwards.
 */
void dt_post_close(struct dt_connection *connection, uint64_t sequence, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
