/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/pattern.h"

#include <string.h>

#include "base/util.h"

/* A large negative number as a float and as a double: far from every value that perf sends. */
#define POISON_BYTE 0xFB
#define POISON_WORD 0xFBFBFBFBFBFBFBFBull

uint64_t dt_perf_stream(unsigned rank, uint64_t iteration)
{
    return dt_perf_word(dt_perf_word(0x6465746f7572ull, rank), iteration);
}

/* The part of one word that lies in [offset, offset + bytes). */
static size_t fill_part_of_word(char *data, size_t bytes, uint64_t stream, uint64_t offset)
{
    uint64_t word = dt_perf_word(stream, offset / 8);
    size_t skip = offset % 8;
    size_t part = dt_min_u64(8 - skip, bytes);

    memcpy(data, (const char *)&word + skip, part);
    return part;
}

void dt_perf_pattern_fill(void *data, size_t bytes, uint64_t stream, uint64_t offset)
{
    char *at = data;

    if (bytes == 0) /* `data` may be null */
        return;
    char *end = at + bytes;
    if (offset % 8)
        at += fill_part_of_word(at, bytes, stream, offset);
    uint64_t index = (offset + 7) / 8;
    for (; end - at >= 8; at += 8, index++) {
        uint64_t word = dt_perf_word(stream, index);
        memcpy(at, &word, 8);
    }
    if (at < end)
        fill_part_of_word(at, (size_t)(end - at), stream, index * 8);
}

size_t dt_perf_count_differing(const void *data, const void *expected, size_t bytes, size_t unit_bytes,
                               size_t *first_offset)
{
    const char *a = data;
    const char *b = expected;
    size_t count = 0;

    if (!bytes || memcmp(a, b, bytes) == 0)
        return 0;
    for (size_t at = 0; at < bytes; at += unit_bytes) {
        size_t unit = dt_min_u64(unit_bytes, bytes - at);

        if (memcmp(a + at, b + at, unit) == 0)
            continue;
        if (count++ == 0) {
            size_t inside = 0;
            while (a[at + inside] == b[at + inside])
                inside++;
            *first_offset = at + inside;
        }
    }
    return count;
}

void dt_perf_poison(void *data, size_t bytes)
{
    if (bytes)
        memset(data, POISON_BYTE, bytes);
}

/* The length of the poisoned run at the start of `data`, to within the 64-byte block that ends it. */
static size_t skip_poison(const char *data, size_t bytes)
{
    size_t at = 0;

    for (; bytes - at >= 64; at += 64) {
        uint64_t words[8];
        uint64_t changed = 0;

        memcpy(words, data + at, sizeof words);
        for (int i = 0; i < 8; i++)
            changed |= words[i] ^ POISON_WORD;
        if (changed)
            break;
    }
    return at;
}

size_t dt_perf_count_unpoisoned(const void *data, size_t bytes, size_t *first_offset)
{
    const unsigned char *at = data;
    size_t count = 0;

    for (size_t i = skip_poison(data, bytes); i < bytes; i++) {
        if (at[i] == POISON_BYTE)
            continue;
        if (count++ == 0)
            *first_offset = i;
    }
    return count;
}
