/* SPDX-License-Identifier: Apache-2.0 */
#include "softrnic/local_copy.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "softrnic/packet.h"

/*
 * Moving payload is what a device does to memory by DMA: the application's right to it is ordered by messages
 * and completions, partly through other processes, where no thread sanitizer can follow. So it does not look
 * here.
 */
#define AS_BY_DMA __attribute__((noinline, no_sanitize("thread")))

AS_BY_DMA void dt_copy_out(void *dst, const void *src, uint64_t bytes)
{
#ifdef __SANITIZE_THREAD__
    dt_copy_ascending(dst, src, bytes); /* memcpy is watched wherever it is called */
#else
    memcpy(dst, src, bytes);
#endif
}

/* The part [offset, offset + bytes) of a list; returns its number of entries, 0 when the list is too short.
 */
static uint32_t slice(const struct iovec *iov, uint32_t iov_count, uint64_t offset, uint64_t bytes,
                      struct iovec *out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < iov_count && bytes > 0; i++) {
        if (offset >= iov[i].iov_len) {
            offset -= iov[i].iov_len;
            continue;
        }
        uint64_t part = iov[i].iov_len - offset < bytes ? iov[i].iov_len - offset : bytes;
        /* A hostile base may be null, to which C adds nothing, not even 0. */
        out[count].iov_base = (void *)((uintptr_t)iov[i].iov_base + offset);
        out[count++].iov_len = part;
        offset = 0;
        bytes -= part;
    }
    return bytes == 0 ? count : 0;
}

int dt_fetch(pid_t pid, const struct iovec *iov, uint32_t iov_count, uint64_t offset, void *dst,
             uint64_t bytes)
{
    struct iovec remote[DT_PACKET_IOV_MAX];
    struct iovec local = {.iov_base = dst, .iov_len = bytes};

    DT_CHECK(iov_count <= DT_PACKET_IOV_MAX);
    if (bytes == 0)
        return 0;
    uint32_t count = slice(iov, iov_count, offset, bytes, remote);
    if (count == 0)
        return EINVAL;
    /* Not by the library's function, which sanitizers watch. */
    ssize_t got = syscall(SYS_process_vm_readv, pid, &local, 1ul, remote, (unsigned long)count, 0ul);
    if (got < 0)
        return errno;
    return (uint64_t)got == bytes ? 0 : EFAULT;
}
