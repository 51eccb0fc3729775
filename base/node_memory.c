/* SPDX-License-Identifier: Apache-2.0 */
#include "base/node_memory.h"

#include <dlfcn.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/util.h"

/* Nodes that a mask has room for; the kernel's own limit is 1024. */
#define NODES_MAX 1024
#define WORD_BITS (8 * sizeof(unsigned long))

#define HUGE_PAGE_BYTES (2u << 20)

/* libnuma's wrapper of the system call (mbind(2)); it is all that is needed of the library. */
typedef long mbind_func(void *addr, unsigned long bytes, int mode, const unsigned long *nodes,
                        unsigned long node_max, unsigned flags);

static mbind_func *find_mbind(void)
{
    void *library = dlopen("libnuma.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "mbind") : NULL;
    mbind_func *function;

    memcpy(&function, &symbol, sizeof function);
    return function;
}

static mbind_func *mbind_found;

static void look_for_mbind(void)
{
    mbind_found = find_mbind();
}

static size_t whole_pages(size_t bytes)
{
    return dt_align_up(bytes ? bytes : 1, (size_t)sysconf(_SC_PAGESIZE));
}

void dt_node_memory_prefer(void *memory, size_t bytes, int32_t node)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    unsigned long mask[NODES_MAX / WORD_BITS] = {0};

    if (node < 0 || node >= NODES_MAX)
        return;
    pthread_once(&once, look_for_mbind);
    if (!mbind_found)
        return;
    mask[(size_t)node / WORD_BITS] = 1ul << (size_t)node % WORD_BITS;
    /* A refusal leaves it as it is. */
    (void)mbind_found(memory, whole_pages(bytes), MPOL_PREFERRED, mask, NODES_MAX + 1, 0);
}

void *dt_node_memory_alloc(size_t bytes, int32_t node)
{
    size_t whole = whole_pages(bytes);
    void *memory;

    if (whole < bytes)
        return NULL;
    memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    dt_node_memory_prefer(memory, whole, node);
    /* Fewer pages for the processor to look up and for a driver to pin; where there are none, small ones do.
     */
    if (whole >= HUGE_PAGE_BYTES)
        (void)madvise(memory, whole, MADV_HUGEPAGE);
    return memory;
}

void dt_node_memory_free(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, whole_pages(bytes));
}
