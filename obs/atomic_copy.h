/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies to and from shared memory that is written while others read it. A mark next to the data tells
 * readers whether their copy is consistent (a seqlock): the writer clears the mark, stores the data, and sets
 * the mark; a reader loads the mark, the data, and the mark again. Release and acquire on each 8-byte word
 * keep that order without fences.
 */
#ifndef DETOUR_OBS_ATOMIC_COPY_H
#define DETOUR_OBS_ATOMIC_COPY_H

#include <stddef.h>
#include <stdint.h>

#include "base/atomics.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Both 8-byte aligned, bytes a multiple of 8. */
static inline void dt_atomic_copy_store(void *shared, const void *from, size_t bytes)
{
    uint64_t *to = (uint64_t *)shared;
    const uint64_t *words = (const uint64_t *)from;

    for (size_t i = 0; i < bytes / 8; i++)
        dt_store_release(&to[i], words[i]);
}

static inline void dt_atomic_copy_load(void *to, const void *shared, size_t bytes)
{
    uint64_t *words = (uint64_t *)to;
    const uint64_t *from = (const uint64_t *)shared;

    for (size_t i = 0; i < bytes / 8; i++)
        words[i] = dt_load_acquire(&from[i]);
}

#ifdef __cplusplus
}
#endif

#endif
