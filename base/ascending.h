/* SPDX-License-Identifier: Apache-2.0 */
/* Copies into memory that another thread or a GPU polls during the copy, with the write order of RNICs. */
#ifndef DETOUR_BASE_ASCENDING_H
#define DETOUR_BASE_ASCENDING_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Copies with ascending aligned 8-byte stores (single bytes at unaligned ends). A reader that observes the
 * last word of an aligned line of 64 or 128 bytes written here also observes the rest of the line. Senders
 * poll the last word of a CTS entry; NCCL's LL128 receivers poll the last word of each 128 bytes of payload.
 */
void dt_copy_ascending(void *dst, const void *src, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
