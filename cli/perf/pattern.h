/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data that `detour perf` sends and expects. A stream is the data that one rank sends in one iteration;
 * every 64-bit word of a stream depends on the stream and on its offset, so that a byte from another
 * message, another place, another rank or an earlier use of the buffer is detected. Since the messages of a
 * connection carry consecutive pieces of consecutive streams, this is one pattern per (connection, sequence
 * number, offset).
 *
 * Receive buffers hold poison while they wait: any other content is a write by the plugin.
 */
#ifndef DETOUR_CLI_PERF_PATTERN_H
#define DETOUR_CLI_PERF_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The stream of `rank` in `iteration`. Different pairs give unrelated streams. */
uint64_t dt_perf_stream(unsigned rank, uint64_t iteration);

/* Word number `index` of a stream; different for every index. */
static inline uint64_t dt_perf_word(uint64_t stream, uint64_t index)
{
    uint64_t x = stream + index * 0x9E3779B97F4A7C15ull;

    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93ull;
    return x ^ x >> 32;
}

/* Writes bytes [offset, offset + bytes) of a stream to `data`. Any alignment. */
void dt_perf_pattern_fill(void *data, size_t bytes, uint64_t stream, uint64_t offset);

/*
 * Compares `data` with `expected` in units of `unit_bytes` (a last, shorter unit counts too). Returns the
 * number of units that differ; *first_offset is then the offset of the first differing byte.
 */
size_t dt_perf_count_differing(const void *data, const void *expected, size_t bytes, size_t unit_bytes,
                               size_t *first_offset);

void dt_perf_poison(void *data, size_t bytes);

/* The number of bytes that are no longer poison; *first_offset is then the offset of the first. */
size_t dt_perf_count_unpoisoned(const void *data, size_t bytes, size_t *first_offset);

#ifdef __cplusplus
}
#endif

#endif
