/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of packet sequence numbers: 24 bits, circular; a comparison is right within a window of 2^23. */
#ifndef DETOUR_SOFTRNIC_PSN_H
#define DETOUR_SOFTRNIC_PSN_H

#include <stdint.h>

#include "softrnic/packet.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PSN_WINDOW (1u << 23)

static inline uint32_t dt_psn_add(uint32_t psn, uint32_t n)
{
    return (psn + n) & DT_PSN_MASK;
}

static inline uint32_t dt_psn_sub(uint32_t psn, uint32_t n)
{
    return (psn - n) & DT_PSN_MASK;
}

/* How far `a` is ahead of `b`: in [-2^23, 2^23). */
static inline int32_t dt_psn_diff(uint32_t a, uint32_t b)
{
    /* Shift the difference to the top, so that its sign is the integer's sign. */
    return (int32_t)((a - b) << 8) / 256;
}

/* PSNs that `bytes` of payload need at a path MTU of 2^mtu_shift: at least one. */
static inline uint32_t dt_psn_count(uint64_t bytes, unsigned mtu_shift)
{
    uint64_t count = (bytes + (1ull << mtu_shift) - 1) >> mtu_shift;

    return count ? (uint32_t)count : 1;
}

#ifdef __cplusplus
}
#endif

#endif
