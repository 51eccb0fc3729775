/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a carrier: everything that was appended goes out in one call, what comes in is cut into records.
 */
#include <string.h>

#include "base/check.h"
#include "transport/session/pair_state.h"

/* Reads of one progress: other carriers must be served, too. */
#define READS_PER_ROUND 8

/* What was appended becomes what is written; the threads go on appending to the other buffer. */
static void exchange_buffers(struct dt_pair *pair)
{
    struct dt_record_buffer sent = pair->writing;

    DT_CHECK(pair->written == pair->writing.used);
    sent.used = 0;
    pair->writing = pair->out;
    pair->out = sent;
    pair->written = 0;
}

enum dt_status dt_pair_write(struct dt_pair *pair)
{
    struct dt_stream *stream = pair->carrier.stream;

    pair->is_blocked = false;
    for (;;) {
        enum dt_status status;
        size_t sent = 0;

        if (pair->written == pair->writing.used)
            exchange_buffers(pair);
        if (pair->writing.used == 0)
            return DT_OK;
        pthread_mutex_unlock(&pair->pairs->mutex);
        status = stream->ops->send(stream, pair->writing.bytes + pair->written,
                                   pair->writing.used - pair->written, &sent);
        pthread_mutex_lock(&pair->pairs->mutex);
        pair->is_blocked = status == DT_AGAIN;
        if (status != DT_OK)
            return status;
        pair->pairs->stats.writes++;
        pair->written += sent;
        DT_CHECK(pair->written <= pair->writing.used);
    }
}

/* Applies the whole records and keeps the rest. */
static enum dt_status take_records(struct dt_pair *pair)
{
    size_t begin = 0, length = 0;
    struct dt_record record;
    enum dt_status status;

    while ((status = dt_record_decode(pair->in + begin, pair->in_used - begin, &record, &length)) == DT_OK) {
        status = dt_pair_take_record(pair, &record);
        if (status != DT_OK)
            return status;
        begin += length;
    }
    pair->in_used -= begin;
    memmove(pair->in, pair->in + begin, pair->in_used);
    return status;
}

enum dt_status dt_pair_read(struct dt_pair *pair)
{
    struct dt_stream *stream = pair->carrier.stream;

    for (int i = 0; i < READS_PER_ROUND; i++) {
        size_t received = 0;
        enum dt_status status;

        DT_CHECK(pair->in_used < sizeof pair->in); /* a record is smaller */
        pthread_mutex_unlock(&pair->pairs->mutex);
        status = stream->ops->receive(stream, pair->in + pair->in_used, sizeof pair->in - pair->in_used,
                                      &received);
        pthread_mutex_lock(&pair->pairs->mutex);
        if (status != DT_OK)
            return status;
        pair->in_used += received;
        status = take_records(pair);
        if (status != DT_AGAIN)
            return status;
    }
    pair->is_readable = true;
    return DT_AGAIN;
}
