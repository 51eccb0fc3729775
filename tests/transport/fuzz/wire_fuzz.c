/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/util.h"
#include "tests/transport/fuzz/door_fuzz.h"
#include "transport/protocol/frames.h"
#include "transport/session/pair_record.h"

/* Enough for every message. */
union message {
    struct dt_hello hello;
    struct dt_answer answer;
    struct dt_reject reject;
    struct dt_paths_offer paths;
    struct dt_ready ready;
    struct dt_close close;
    struct dt_fact fact;
    struct dt_grant grant;
    struct dt_pair_frame pair;
    struct dt_paired paired;
};

/* The two that depend on what was agreed are tried with the largest terms. */
static const struct dt_terms terms = {
    .paths = DT_PATHS_MAX, .qps = DT_QPS_MAX, .slots = DT_SLOTS_MAX, .chunk_bytes = DT_CHUNK_BYTES_MIN};

static enum dt_status decode_paths(const uint8_t *body, size_t bytes, struct dt_paths_offer *offer)
{
    return dt_paths_decode(body, bytes, &terms, offer);
}

static void encode_paths(const struct dt_paths_offer *offer, struct dt_writer *w)
{
    dt_paths_encode(offer, &terms, w);
}

static enum dt_status decode_ready(const uint8_t *body, size_t bytes, struct dt_ready *ready)
{
    return dt_ready_decode(body, bytes, &terms, ready);
}

static enum dt_status decode_fact(const uint8_t *body, size_t bytes, struct dt_fact *fact)
{
    return dt_fact_decode(body, bytes, DT_PATHS_MAX, fact);
}

static void encode_fact(const struct dt_fact *fact, struct dt_writer *w)
{
    dt_fact_encode(DT_FRAME_COMPLETE, fact, w);
}

static enum dt_status decode_grant(const uint8_t *body, size_t bytes, struct dt_grant *grant)
{
    return dt_grant_decode(body, bytes, DT_PATHS_MAX, grant);
}

static void encode_grant(const struct dt_grant *grant, struct dt_writer *w)
{
    dt_grant_encode(grant, DT_PATHS_MAX, w);
}

/* Decodes, encodes and decodes again; the second time must agree. */
#define ROUND_TRIP(name, decode, encode)                                                                  \
    static const char *round_trip_##name(const uint8_t *body, size_t bytes)                               \
    {                                                                                                     \
        static union message first, second;                                                               \
        uint8_t frame[DT_FRAME_BYTES_MAX];                                                                \
        struct dt_writer w = {.bytes = frame, .size = sizeof frame};                                      \
                                                                                                          \
        memset(&first, 0, sizeof first);                                                                  \
        memset(&second, 0, sizeof second);                                                                \
        if (decode(body, bytes, &first.name) != DT_OK)                                                    \
            return NULL;                                                                                  \
        encode(&first.name, &w);                                                                          \
        if (w.is_full || w.used < DT_FRAME_HEADER_BYTES)                                                  \
            return #name ": what was decoded does not fit a frame";                                       \
        if (decode(frame + DT_FRAME_HEADER_BYTES, w.used - DT_FRAME_HEADER_BYTES, &second.name) != DT_OK) \
            return #name ": what was encoded does not decode";                                            \
        return memcmp(&first.name, &second.name, sizeof first.name) ? #name ": encoded, it is another"    \
                                                                    : NULL;                               \
    }
ROUND_TRIP(hello, dt_hello_decode, dt_hello_encode)
ROUND_TRIP(answer, dt_answer_decode, dt_answer_encode)
ROUND_TRIP(reject, dt_reject_decode, dt_reject_encode)
ROUND_TRIP(paths, decode_paths, encode_paths)
ROUND_TRIP(ready, decode_ready, dt_ready_encode)
ROUND_TRIP(close, dt_close_decode, dt_close_encode)
ROUND_TRIP(fact, decode_fact, encode_fact)
ROUND_TRIP(grant, decode_grant, encode_grant)
ROUND_TRIP(pair, dt_pair_frame_decode, dt_pair_frame_encode)
ROUND_TRIP(paired, dt_paired_decode, dt_paired_encode)

/* Of a carrier: whole inside the bytes, with payload that lies in them. */
static const char *record(const uint8_t *body, size_t bytes)
{
    struct dt_record record;
    size_t length = 0;

    if (dt_record_decode(body, bytes, &record, &length) != DT_OK)
        return NULL;
    if (length < DT_RECORD_HEADER_BYTES || length > bytes)
        return "record: it is longer than what came";
    return record.payload && record.number != length - DT_RECORD_HEADER_BYTES
               ? "record: its payload is not its length"
               : NULL;
}

static const char *frame_header(const uint8_t *body, size_t bytes)
{
    struct dt_frame_header header;

    if (bytes < DT_FRAME_HEADER_BYTES || dt_frame_header_decode(body, &header) != DT_OK)
        return NULL;
    return header.body_bytes > DT_FRAME_BODY_MAX ? "frame: a body larger than any" : NULL;
}

static const char *handle(const uint8_t *body, size_t bytes)
{
    uint8_t in[DT_HANDLE_BYTES] = {0}, out[DT_HANDLE_BYTES] = {0};
    struct dt_handle first, second;

    memset(&first, 0, sizeof first);
    memset(&second, 0, sizeof second);
    memcpy(in, body, dt_min_u64(bytes, sizeof in));
    if (dt_handle_decode(in, &first) != DT_OK)
        return NULL;
    dt_handle_encode(&first, out);
    dt_handle_set_cookie(out, dt_handle_cookie(in));
    if (dt_handle_decode(out, &second) != DT_OK)
        return "handle: what was encoded does not decode";
    if (dt_handle_cookie(out) != dt_handle_cookie(in))
        return "handle: the cookie changed";
    return memcmp(&first, &second, sizeof first) ? "handle: encoded, it is another" : NULL;
}

const char *dt_fuzz_wire(const uint8_t *data, size_t bytes)
{
    static const char *(*const decoders[])(const uint8_t *, size_t) = {round_trip_hello,
                                                                       round_trip_answer,
                                                                       round_trip_reject,
                                                                       round_trip_paths,
                                                                       round_trip_ready,
                                                                       round_trip_close,
                                                                       frame_header,
                                                                       handle,
                                                                       round_trip_fact,
                                                                       round_trip_grant,
                                                                       round_trip_pair,
                                                                       round_trip_paired,
                                                                       record};

    return bytes ? decoders[data[0] % DT_COUNT_OF(decoders)](data + 1, bytes - 1) : NULL;
}
