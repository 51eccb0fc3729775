/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What travels on a carrier (pair.h) after PAIR and PAIRED: records of 8 bytes header and, for OPEN and DATA,
 * payload. Little-endian: 4 bytes stream, 2 bytes kind, 2 bytes number.
 *
 * - OPEN: the first bytes of a new stream; number: how many. Streams that the process with the larger
 * identity opens have odd numbers, the others even ones.
 * - DATA: further bytes; number: how many.
 * - CREDIT; number: bytes of the stream that were read.
 * - END: the sender has closed the stream; bytes before it still count.
 *
 * A record about a stream that does not exist (any more) is ignored.
 */
#ifndef DETOUR_TRANSPORT_SESSION_PAIR_RECORD_H
#define DETOUR_TRANSPORT_SESSION_PAIR_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_RECORD_HEADER_BYTES 8

/* Bytes of a stream that may be sent and not read yet: more than any frame but PATHS of a connection with
 * many queue pairs, which is read while it is sent. */
#define DT_PAIR_WINDOW_BYTES 4096u

enum dt_record_kind { DT_RECORD_OPEN = 1, DT_RECORD_DATA = 2, DT_RECORD_CREDIT = 3, DT_RECORD_END = 4 };

struct dt_record {
    uint32_t stream;
    uint16_t kind;
    uint16_t number; /* OPEN, DATA: bytes of payload, not 0; CREDIT: bytes, not 0; END: 0 */
    const uint8_t *payload;
};

/* Bytes that wait to be sent; grows. */
struct dt_record_buffer {
    uint8_t *bytes;
    size_t size;
    size_t used;
};

/* Appends a whole record. DT_NO_MEMORY. */
enum dt_status dt_record_append(struct dt_record_buffer *buffer, const struct dt_record *record);

/* Appends any bytes. DT_NO_MEMORY. */
enum dt_status dt_record_append_bytes(struct dt_record_buffer *buffer, const void *from, size_t bytes);

/* The first record of these bytes and its length. DT_AGAIN: it is not there completely; DT_PROTOCOL: an
 * unknown kind, or a number out of range. */
enum dt_status dt_record_decode(const uint8_t *bytes, size_t count, struct dt_record *record, size_t *length);

#ifdef __cplusplus
}
#endif

#endif
