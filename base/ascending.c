/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ascending.h"

#include <string.h>

#include "base/atomics.h"

/*
 * Stands for a device's DMA. Messages and completions order it with the reader, partly through other
 * processes, which the thread sanitizer cannot observe; so it does not instrument these accesses.
 */
#define AS_BY_DMA __attribute__((noinline, no_sanitize("thread")))

#define WORD_BYTES 8u
#define LINE_BYTES 64u

__attribute__((always_inline, no_sanitize("thread"))) static inline uint64_t load_word(const uint8_t *src)
{
    uint64_t word;

    memcpy(&word, src, sizeof word);
    return word;
}

AS_BY_DMA void dt_copy_ascending(void *dst, const void *src, uint64_t bytes)
{
    uint8_t *to = dst;
    const uint8_t *from = src;
    const uint8_t *end = to + bytes;

    while (to < end && (uintptr_t)to % WORD_BYTES)
        dt_store_relaxed(to++, *from++);
    for (; (uint64_t)(end - to) >= WORD_BYTES; to += WORD_BYTES, from += WORD_BYTES) {
        /* The last word of a line is stored after the others: x86 keeps the order, other processors need a
         * release. */
        if (((uintptr_t)to + WORD_BYTES) % LINE_BYTES == 0)
            dt_store_release((uint64_t *)(void *)to, load_word(from));
        else
            dt_store_relaxed((uint64_t *)(void *)to, load_word(from));
    }
    while (to < end)
        dt_store_relaxed(to++, *from++);
}
