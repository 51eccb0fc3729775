/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of simulated hosts: gigabytes of buffers of which only stamps are touched (wire_sim.h). Takes the
 * place of madvise(2) in programs whose messages are that large: nothing is pinned, so a registration need
 * not create the pages (softrnic/front_memory.c), and a huge page would cost 2 MiB per stamp.
 */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

int madvise(void *addr, size_t bytes, int advice)
{
    if (advice == MADV_POPULATE_READ || advice == MADV_POPULATE_WRITE || advice == MADV_HUGEPAGE)
        return 0;
    return (int)syscall(SYS_madvise, addr, bytes, advice);
}
