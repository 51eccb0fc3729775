/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/session/pair_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "transport/protocol/codec.h"

#define BUFFER_BYTES_MIN 4096u

/* Room for this many more bytes. */
static bool reserve(struct dt_record_buffer *buffer, size_t bytes)
{
    size_t size = buffer->size ? buffer->size : BUFFER_BYTES_MIN;
    uint8_t *larger;

    while (size - buffer->used < bytes)
        size *= 2;
    if (size == buffer->size)
        return true;
    larger = realloc(buffer->bytes, size);
    if (!larger)
        return false;
    buffer->bytes = larger;
    buffer->size = size;
    return true;
}

static bool has_payload(const struct dt_record *record)
{
    return record->kind == DT_RECORD_OPEN || record->kind == DT_RECORD_DATA;
}

enum dt_status dt_record_append(struct dt_record_buffer *buffer, const struct dt_record *record)
{
    size_t payload = has_payload(record) ? record->number : 0;
    struct dt_writer w;

    DT_CHECK(payload <= DT_PAIR_WINDOW_BYTES && buffer->used <= buffer->size);
    if (!reserve(buffer, DT_RECORD_HEADER_BYTES + payload))
        return DT_NO_MEMORY;
    w = (struct dt_writer){buffer->bytes, buffer->size, buffer->used, false};
    dt_put_uint(&w, record->stream, 4);
    dt_put_uint(&w, record->kind, 2);
    dt_put_uint(&w, record->number, 2);
    if (payload)
        dt_put_bytes(&w, record->payload, payload);
    DT_CHECK(!w.is_full); /* the room was reserved */
    buffer->used = w.used;
    return DT_OK;
}

enum dt_status dt_record_append_bytes(struct dt_record_buffer *buffer, const void *from, size_t bytes)
{
    if (!reserve(buffer, bytes))
        return DT_NO_MEMORY;
    memcpy(buffer->bytes + buffer->used, from, bytes);
    buffer->used += bytes;
    return DT_OK;
}

static bool is_valid(const struct dt_record *record)
{
    switch (record->kind) {
    case DT_RECORD_OPEN:
    case DT_RECORD_DATA:
    case DT_RECORD_CREDIT:
        return record->number > 0 && record->number <= DT_PAIR_WINDOW_BYTES;
    case DT_RECORD_END:
        return record->number == 0;
    default:
        return false;
    }
}

enum dt_status dt_record_decode(const uint8_t *bytes, size_t count, struct dt_record *record, size_t *length)
{
    struct dt_reader r = {bytes, count, 0, false};

    if (count < DT_RECORD_HEADER_BYTES)
        return DT_AGAIN;
    record->stream = (uint32_t)dt_get_uint(&r, 4);
    record->kind = (uint16_t)dt_get_uint(&r, 2);
    record->number = (uint16_t)dt_get_uint(&r, 2);
    if (!is_valid(record))
        return DT_PROTOCOL;
    *length = DT_RECORD_HEADER_BYTES + (has_payload(record) ? record->number : 0u);
    record->payload = has_payload(record) ? bytes + DT_RECORD_HEADER_BYTES : NULL;
    return *length <= count ? DT_OK : DT_AGAIN;
}
