/* SPDX-License-Identifier: Apache-2.0 */
/* Copies into memory that somebody polls while it is written, as RNICs write it. */
#ifndef DETOUR_BASE_ASCENDING_H
#define DETOUR_BASE_ASCENDING_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Copies with ascending aligned 8-byte stores (single bytes at unaligned ends). Whoever sees the last word of
 * an aligned line of 64 or 128 bytes that this fills sees the rest of the line: senders poll that word of a
 * clear-to-send entry, NCCL's LL128 receivers that of 128 bytes of payload.
 */
void dt_copy_ascending(void *dst, const void *src, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
