/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arrivals of one message over one path: a set of (part, queue pair), and the bytes of each part. A
 * message is complete when one path has brought everything; what several paths brought is never added up.
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
    uint64_t seen; /* bit part * DT_QPS_MAX + queue pair */
    uint64_t bytes[DT_PARTS_MAX];
};

/* Forgets everything. Bytes are written by dt_arrivals_add before anyone reads them. */
static inline void dt_arrivals_clear(struct dt_arrivals *arrivals)
{
    arrivals->seen = 0;
}

/* All of `parts` parts on each of `qps` queue pairs. */
static inline uint64_t dt_arrivals_all(uint32_t parts, uint32_t qps)
{
    uint64_t each = (1ull << qps) - 1;
    uint64_t all = each * 0x0101010101010101ull;

    return parts == DT_PARTS_MAX ? all : all & ((1ull << parts * DT_QPS_MAX) - 1);
}

/* Notes one share of `bytes`. False when it had arrived before: then nothing changes. */
static inline bool dt_arrivals_add(struct dt_arrivals *arrivals, uint32_t part, uint32_t qp, uint32_t bytes)
{
    uint64_t bit = 1ull << (part * DT_QPS_MAX + qp);
    uint64_t of_part = 0xffull << part * DT_QPS_MAX;

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
