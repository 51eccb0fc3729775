/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Little-endian integers and short texts to and from bytes, with bounds. Both ends of a codec latch: after
 * the first thing that does not fit everything else is refused, so one check at the end is enough.
 */
#ifndef DETOUR_TRANSPORT_PROTOCOL_CODEC_H
#define DETOUR_TRANSPORT_PROTOCOL_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dt_writer {
    uint8_t *bytes;
    size_t size;
    size_t used;
    bool is_full; /* something did not fit */
};

struct dt_reader {
    const uint8_t *bytes;
    size_t size;
    size_t used;
    bool is_short; /* something was missing or could not be */
};

static inline void dt_put_bytes(struct dt_writer *w, const void *from, size_t bytes)
{
    if (w->is_full || bytes > w->size - w->used) {
        w->is_full = true;
        return;
    }
    memcpy(w->bytes + w->used, from, bytes);
    w->used += bytes;
}

/* The low `bytes` (1..8) bytes of `value`. */
static inline void dt_put_uint(struct dt_writer *w, uint64_t value, size_t bytes)
{
    uint8_t out[8];

    for (size_t i = 0; i < 8; i++)
        out[i] = (uint8_t)(value >> 8 * i);
    dt_put_bytes(w, out, bytes);
}

/* At most 255 characters: a longer text does not fit. */
static inline void dt_put_text(struct dt_writer *w, const char *text)
{
    size_t bytes = strlen(text);

    w->is_full |= bytes > 255;
    dt_put_uint(w, bytes, 1);
    dt_put_bytes(w, text, bytes);
}

/* Zeros when there is not enough left. */
static inline void dt_get_bytes(struct dt_reader *r, void *to, size_t bytes)
{
    if (r->is_short || bytes > r->size - r->used) {
        r->is_short = true;
        memset(to, 0, bytes);
        return;
    }
    memcpy(to, r->bytes + r->used, bytes);
    r->used += bytes;
}

static inline uint64_t dt_get_uint(struct dt_reader *r, size_t bytes)
{
    uint8_t in[8] = {0};
    uint64_t value = 0;

    dt_get_bytes(r, in, bytes);
    for (size_t i = 0; i < 8; i++)
        value |= (uint64_t)in[i] << 8 * i;
    return value;
}

/*
 * A text into size > 0 bytes of room, always terminated. A text that does not fit, or that has anything but
 * printable ASCII in it (it is going to be logged), latches like a missing byte.
 */
static inline void dt_get_text(struct dt_reader *r, char *to, size_t size)
{
    size_t bytes = (size_t)dt_get_uint(r, 1);

    to[0] = '\0';
    if (bytes >= size) {
        r->is_short = true;
        return;
    }
    dt_get_bytes(r, to, bytes);
    to[bytes] = '\0';
    for (size_t i = 0; i < bytes; i++) {
        if (to[i] < 0x20 || to[i] > 0x7e) {
            r->is_short = true;
            to[0] = '\0';
            return;
        }
    }
}

#ifdef __cplusplus
}
#endif

#endif
