/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data in shared memory that readers may look at in any moment, copied in whole words. Around it goes a mark
 * that says whether the data is whole: the writer clears the mark, stores the words, sets the mark; the
 * reader looks at the mark, loads the words, looks again. Release and acquire on each word keep that order
 * without fences.
 */
#ifndef DETOUR_OBS_WORDS_H
#define DETOUR_OBS_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/atomics.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Both 8-byte aligned, bytes a multiple of 8. */
static inline void dt_words_store(void *shared, const void *from, size_t bytes)
{
    uint64_t *to = (uint64_t *)shared;
    const uint64_t *words = (const uint64_t *)from;

    for (size_t i = 0; i < bytes / 8; i++)
        dt_store_release(&to[i], words[i]);
}

static inline void dt_words_load(void *to, const void *shared, size_t bytes)
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
