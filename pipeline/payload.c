/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/payload.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/util.h"

DT_STATIC_CHECK(sizeof(struct dt_pipeline_identity) == 16, "the identity travels as it lies in memory");

const char *dt_pipeline_identity_text(char text[DT_PIPELINE_IDENTITY_TEXT_BYTES],
                                      const struct dt_pipeline_identity *identity)
{
    snprintf(text, DT_PIPELINE_IDENTITY_TEXT_BYTES,
             "%s of microbatch %" PRId32 " from stage %d, iteration %" PRIu32 ", slice %" PRIu32,
             identity->backward ? "gradient" : "activation", identity->microbatch, identity->stage,
             identity->iteration, identity->slice);
    return text;
}

bool dt_pipeline_identity_equal(const struct dt_pipeline_identity *a, const struct dt_pipeline_identity *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* One block as it is sent: the identity, then words that depend on it and on the block's number. */
static void make_block(uint64_t words[DT_PIPELINE_BLOCK_BYTES / 8], size_t block,
                       const struct dt_pipeline_identity *identity)
{
    uint64_t key;

    memcpy(words, identity, sizeof *identity);
    key = dt_pipeline_mix(words[0] ^ dt_pipeline_mix(words[1] + block + 1));
    for (size_t i = sizeof *identity / 8; i < DT_PIPELINE_BLOCK_BYTES / 8; i++) {
        key += UINT64_C(0x9E3779B97F4A7C15);
        words[i] = key ^ (key >> 29);
    }
}

void dt_pipeline_payload_fill(void *data, size_t bytes, const struct dt_pipeline_identity *identity)
{
    uint64_t words[DT_PIPELINE_BLOCK_BYTES / 8];

    DT_CHECK(bytes >= DT_PIPELINE_PAYLOAD_BYTES_MIN);
    for (size_t at = 0; at < bytes; at += DT_PIPELINE_BLOCK_BYTES) {
        make_block(words, at / DT_PIPELINE_BLOCK_BYTES, identity);
        memcpy((char *)data + at, words, dt_min_u64(bytes - at, DT_PIPELINE_BLOCK_BYTES));
    }
}

struct dt_pipeline_identity dt_pipeline_payload_identity(const void *data)
{
    struct dt_pipeline_identity identity;

    memcpy(&identity, data, sizeof identity);
    return identity;
}

static size_t first_difference(const unsigned char *a, const unsigned char *b, size_t bytes)
{
    size_t at = 0;

    while (at < bytes && a[at] == b[at])
        at++;
    return at;
}

size_t dt_pipeline_payload_check(const void *data, size_t bytes, const struct dt_pipeline_identity *identity)
{
    uint64_t words[DT_PIPELINE_BLOCK_BYTES / 8];

    for (size_t at = 0; at < bytes; at += DT_PIPELINE_BLOCK_BYTES) {
        size_t length = dt_min_u64(bytes - at, DT_PIPELINE_BLOCK_BYTES);

        make_block(words, at / DT_PIPELINE_BLOCK_BYTES, identity);
        if (memcmp((const char *)data + at, words, length) != 0)
            return at +
                   first_difference((const unsigned char *)data + at, (const unsigned char *)words, length);
    }
    return bytes;
}
