/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of payload on the `local` wire: from memory that both ends map, by ascending 8-byte stores, or from
 * the sender's address space by one system call.
 */
#ifndef DETOUR_SOFTRNIC_LOCAL_COPY_H
#define DETOUR_SOFTRNIC_LOCAL_COPY_H

#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/ascending.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Copies the application's payload to memory that the peer reads. The stores have no order. */
void dt_copy_out(void *dst, const void *src, uint64_t bytes);

/* Bytes fetched at a time: few enough to stay in the cache until they are landed. */
#define DT_FETCH_PIECE_BYTES (64u << 10)

/*
 * Reads [offset, offset + bytes) of the memory that `iov` lists in process `pid` into `dst`, by one system
 * call. 0, or an errno: EPERM or ENOSYS (not permitted), ESRCH (no such process), EFAULT (memory unmapped on
 * either side; some bytes may have been written), EINVAL (range not in the list).
 *
 * The kernel's stores have no order (a string instruction of the CPU may write the end of a line first). For
 * memory that a reader polls, fetch into a buffer, then use dt_copy_ascending().
 */
int dt_fetch(pid_t pid, const struct iovec *iov, uint32_t iov_count, uint64_t offset, void *dst,
             uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
