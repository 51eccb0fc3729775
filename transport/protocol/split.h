/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a part is cut: into shares, one for each queue pair that its message goes over, and a share into chunks
 * of one write each.
 */
#ifndef DETOUR_TRANSPORT_PROTOCOL_SPLIT_H
#define DETOUR_TRANSPORT_PROTOCOL_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/util.h"
#include "base/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_share {
    uint32_t offset; /* from the first byte of the part */
    uint32_t bytes;
};

/*
 * The queue pair, of `qps`, that brings share `share` of a message with `shares` shares: a message goes over
 * the queue pairs that follow those of the message before it.
 */
static inline uint32_t dt_split_qp(uint64_t sequence, uint32_t shares, uint32_t qps, uint32_t share)
{
    return shares == qps ? share : (uint32_t)((sequence * shares + share) % qps);
}

/* The opposite: at least `shares`, if queue pair `qp` brings none. */
static inline uint32_t dt_split_share_of(uint64_t sequence, uint32_t shares, uint32_t qps, uint32_t qp)
{
    return shares == qps ? qp : (qp + qps - (uint32_t)(sequence * shares % qps)) % qps;
}

/*
 * Share `index` of `count`. Shares follow each other without a gap, begin at multiples of
 * DT_CUT_BYTES, and those without bytes come last.
 */
static inline struct dt_share dt_split_share(uint32_t bytes, uint32_t count, uint32_t index)
{
    struct dt_share share = {0, bytes};

    if (count > 1) {
        uint64_t each = dt_align_up((bytes + (uint64_t)count - 1) / count, DT_CUT_BYTES);

        share.offset = (uint32_t)dt_min_u64(each * index, bytes);
        share.bytes = (uint32_t)dt_min_u64(each, bytes - share.offset);
    }
    return share;
}

/*
 * Bytes of each write of a share, the last may be smaller: chunk_bytes, or more to stay within DT_CHUNKS_MAX;
 * of which one is the empty write with the immediate where `is_adaptive`.
 */
static inline uint32_t dt_split_chunk_bytes(uint32_t share_bytes, uint32_t chunk_bytes, bool is_adaptive)
{
    uint32_t chunks_max = DT_CHUNKS_MAX - is_adaptive;
    uint32_t least = (uint32_t)dt_align_up((share_bytes + chunks_max - 1) / chunks_max, DT_CUT_BYTES);

    return least > chunk_bytes ? least : chunk_bytes;
}

#ifdef __cplusplus
}
#endif

#endif
