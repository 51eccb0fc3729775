/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/session/channel.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

void dt_channel_open(struct dt_channel *channel, struct dt_stream *stream)
{
    DT_CHECK(!channel->stream); /* the stream before it was closed */
    channel->stream = stream;
    channel->out = (struct dt_writer){channel->out_bytes, sizeof channel->out_bytes, 0, false};
    channel->out_sent = 0;
    channel->in_bytes = 0;
}

enum dt_status dt_channel_flush(struct dt_channel *channel)
{
    struct dt_writer *out = &channel->out;

    if (!channel->stream)
        return DT_CLOSED;
    while (channel->out_sent < out->used) {
        size_t sent = 0;
        enum dt_status status = channel->stream->ops->send(channel->stream, out->bytes + channel->out_sent,
                                                           out->used - channel->out_sent, &sent);

        if (status != DT_OK)
            return status;
        channel->out_sent += sent;
        DT_CHECK(channel->out_sent <= out->used);
    }
    out->used = 0;
    out->is_full = false;
    channel->out_sent = 0;
    return DT_OK;
}

/* Reads until `want` bytes of the frame are there. */
static enum dt_status fill(struct dt_channel *channel, size_t want)
{
    while (channel->in_bytes < want) {
        size_t received = 0;
        enum dt_status status = channel->stream->ops->receive(
            channel->stream, channel->in + channel->in_bytes, want - channel->in_bytes, &received);

        if (status != DT_OK)
            return status;
        channel->in_bytes += received;
        DT_CHECK(channel->in_bytes <= want);
    }
    return DT_OK;
}

enum dt_status dt_channel_receive(struct dt_channel *channel, struct dt_frame *frame)
{
    struct dt_frame_header header;
    enum dt_status status;

    if (!channel->stream)
        return DT_CLOSED;
    status = fill(channel, DT_FRAME_HEADER_BYTES);
    if (status != DT_OK)
        return status;
    status = dt_frame_header_decode(channel->in, &header);
    if (status != DT_OK)
        return status;
    status = fill(channel, DT_FRAME_HEADER_BYTES + (size_t)header.body_bytes);
    if (status != DT_OK)
        return status;
    DT_CHECK(channel->in_bytes == DT_FRAME_HEADER_BYTES + (size_t)header.body_bytes);
    *frame = (struct dt_frame){header.type, header.body_bytes, channel->in + DT_FRAME_HEADER_BYTES};
    channel->in_bytes = 0;
    return DT_OK;
}

void dt_channel_close(struct dt_channel *channel)
{
    if (!channel->stream)
        return;
    dt_channel_flush(channel);
    channel->stream->ops->close(channel->stream);
    channel->stream = NULL;
}

void dt_channel_free(struct dt_channel *channel)
{
    if (!channel)
        return;
    dt_channel_close(channel);
    free(channel);
}

void dt_channel_move(struct dt_channel *to, struct dt_channel *from)
{
    DT_CHECK(!to->stream);
    DT_CHECK(from->out_sent <= from->out.used && from->out.used <= sizeof from->out_bytes);
    memcpy(to, from, sizeof *to);
    to->out.bytes = to->out_bytes;
    from->stream = NULL;
}
