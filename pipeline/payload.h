/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of a pipeline's messages: the identity of the message, repeated in every block together with
 * the block's number and mixed into the block's words. A receiver can therefore check a whole message, or any
 * block of it, without the sender's data; a message of another iteration, microbatch, stage, direction or
 * slice, a torn message and a stale buffer all differ from what is expected.
 */
#ifndef DETOUR_PIPELINE_PAYLOAD_H
#define DETOUR_PIPELINE_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* SplitMix64's output function: every bit of the input changes about half of the bits. */
static inline uint64_t dt_pipeline_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

/* Which message of a job this is. Both ends know it from the program. */
struct dt_pipeline_identity {
    uint32_t iteration;
    int32_t microbatch;
    int16_t stage;    /* that sends */
    uint8_t backward; /* 0: an activation to stage + 1; 1: a gradient to stage - 1 */
    uint8_t reserved; /* 0 */
    uint32_t slice;   /* of the message, from 0 */
};

/* Block size; the last block of a slice may be shorter, down to the identity itself. */
#define DT_PIPELINE_BLOCK_BYTES 4096

/* A slice of a message is at least this long. */
#define DT_PIPELINE_PAYLOAD_BYTES_MIN sizeof(struct dt_pipeline_identity)

/* "activation of microbatch 3 from stage 1, iteration 7, slice 0" into `text`; returns `text`. */
enum { DT_PIPELINE_IDENTITY_TEXT_BYTES = 112 };
const char *dt_pipeline_identity_text(char text[DT_PIPELINE_IDENTITY_TEXT_BYTES],
                                      const struct dt_pipeline_identity *identity);

bool dt_pipeline_identity_equal(const struct dt_pipeline_identity *a, const struct dt_pipeline_identity *b);

/* Fills a slice. bytes: at least DT_PIPELINE_PAYLOAD_BYTES_MIN. */
void dt_pipeline_payload_fill(void *data, size_t bytes, const struct dt_pipeline_identity *identity);

/* The identity at the beginning of a slice, which may be any bytes. bytes: at least
 * DT_PIPELINE_PAYLOAD_BYTES_MIN. */
struct dt_pipeline_identity dt_pipeline_payload_identity(const void *data);

/* Offset of the first byte that differs from the content of that slice; `bytes` when none does. */
size_t dt_pipeline_payload_check(const void *data, size_t bytes, const struct dt_pipeline_identity *identity);

#ifdef __cplusplus
}
#endif

#endif
