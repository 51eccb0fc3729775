/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arrivals of one message over one path: a set of (part, share), and the bytes of each part; each queue
 * pair that the message goes over brings one share of each part (protocol/split.h). A message is complete
 * when one path has brought everything; what several paths brought is never added up.
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_ARRIVALS_H
#define DETOUR_TRANSPORT_MESSAGE_ARRIVALS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_arrivals {
    uint64_t seen; /* bit part * DT_SHARES_MAX + share */
    uint64_t bytes[DT_PARTS_MAX];
};

/* Forgets everything. Bytes are written by dt_arrivals_add before anyone reads them. */
static inline void dt_arrivals_clear(struct dt_arrivals *arrivals)
{
    arrivals->seen = 0;
}

/* Every part that a message can have, in `shares` shares each. */
static inline uint64_t dt_arrivals_whole(uint32_t shares)
{
    return ((1ull << shares) - 1) * 0x0101010101010101ull;
}

/* Of `whole`, the first `parts` parts. */
static inline uint64_t dt_arrivals_of_parts(uint64_t whole, uint32_t parts)
{
    return parts == DT_PARTS_MAX ? whole : whole & ((1ull << parts * DT_SHARES_MAX) - 1);
}

/* Notes one share of `bytes`. False when it had arrived before: then nothing changes. */
static inline bool dt_arrivals_add(struct dt_arrivals *arrivals, uint32_t part, uint32_t share,
                                   uint32_t bytes)
{
    uint64_t bit = 1ull << (part * DT_SHARES_MAX + share);
    uint64_t of_part = 0xffull << part * DT_SHARES_MAX;

    if (arrivals->seen & bit)
        return false;
    if (!(arrivals->seen & of_part))
        arrivals->bytes[part] = 0;
    arrivals->seen |= bit;
    arrivals->bytes[part] += bytes;
    return true;
}

#ifdef __cplusplus
}
#endif

#endif
