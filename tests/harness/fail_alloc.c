/* SPDX-License-Identifier: Apache-2.0 */
/* Armed allocation failures: linked with --wrap, real until a test arms one, per thread. */
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "tests/harness/harness.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
/* Visible, as the linker refuses to hide what a shared library under test seems to refer to. */
#define VISIBLE __attribute__((visibility("default")))
VISIBLE void *__wrap_malloc(size_t bytes);
VISIBLE void *__wrap_calloc(size_t count, size_t bytes);
VISIBLE void *__wrap_realloc(void *old, size_t bytes);
VISIBLE void *__wrap_aligned_alloc(size_t align, size_t bytes);
VISIBLE void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);

static _Thread_local int countdown = -1;
static _Thread_local int delivered;

void detour_test_fail_alloc(int index)
{
    countdown = index;
    delivered = 0;
}

int detour_test_alloc_failed(void)
{
    return delivered;
}

static int fails_now(void)
{
    if (countdown < 0 || countdown-- > 0)
        return 0;
    delivered = 1;
    errno = ENOMEM;
    return 1;
}

void *__wrap_malloc(size_t bytes)
{
    return fails_now() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails_now() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return fails_now() ? NULL : __real_realloc(old, bytes);
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    return fails_now() ? NULL : __real_aligned_alloc(align, bytes);
}

/* Files are not memory that runs short. */
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if ((flags & MAP_ANONYMOUS) && fails_now())
        return MAP_FAILED;
    return __real_mmap(address, bytes, protection, flags, fd, offset);
}
