/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control channel of a connection, out of band: whole frames (frames.h) over a stream. It is opened for
 * the set-up and stays open for the connection's life, so that its end reveals the death of the peer.
 *
 * Nothing blocks and nothing is allocated. One thread at a time.
 */
#ifndef DETOUR_TRANSPORT_SESSION_CHANNEL_H
#define DETOUR_TRANSPORT_SESSION_CHANNEL_H

#include "transport/session/stream.h"
#include "transport/protocol/frames.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_channel {
    struct dt_stream *stream; /* or NULL: closed */
    struct dt_writer out;     /* frames to be sent: the encoders append to it */
    size_t out_sent;          /* bytes of them that are sent already */
    size_t in_bytes;          /* of the frame that is coming in */
    uint8_t out_bytes[2 * DT_FRAME_BYTES_MAX];
    uint8_t in[DT_FRAME_BYTES_MAX];
};

struct dt_frame {
    uint16_t type; /* enum dt_frame_type, or anything */
    uint16_t bytes;
    const uint8_t *body; /* valid until the next call on the channel */
};

/* Whether epoll can report that there is something to receive; if not, receive has to be tried. */
static inline bool dt_channel_has_fd(const struct dt_channel *channel)
{
    return !channel->stream || channel->stream->ops->fd(channel->stream) >= 0;
}

/* Takes the stream over. */
void dt_channel_open(struct dt_channel *channel, struct dt_stream *stream);

/* Sends `out`. DT_OK: all is sent; DT_AGAIN: some is left; else how the stream ended (stream.h). */
enum dt_status dt_channel_flush(struct dt_channel *channel);

/* The next frame. DT_AGAIN: none yet; DT_PROTOCOL: not a frame; else how the stream ended. */
enum dt_status dt_channel_receive(struct dt_channel *channel, struct dt_frame *frame);

/* Ends the channel; buffered bytes that fit are sent before. Harmless when it is closed already. */
void dt_channel_close(struct dt_channel *channel);

/* The same for one from the heap, and gives its memory back. NULL is accepted. */
void dt_channel_free(struct dt_channel *channel);

/* Moves the stream and the buffers to `to`, which is closed; `from` is closed afterwards, without a frame. */
void dt_channel_move(struct dt_channel *to, struct dt_channel *from);

#ifdef __cplusplus
}
#endif

#endif
