/* SPDX-License-Identifier: Apache-2.0 */
/* Small arithmetic and pointer helpers that C lacks. */
#ifndef DETOUR_BASE_UTIL_H
#define DETOUR_BASE_UTIL_H

#include <stddef.h>
#include <stdint.h>

#define DT_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The struct that contains `member` at `ptr`. */
#define dt_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline uint64_t dt_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t dt_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* `value` rounded up to a multiple of `align`, a power of two. Must not overflow. */
static inline uint64_t dt_align_up(uint64_t value, uint64_t align)
{
    return (value + align - 1) & ~(align - 1);
}

static inline int dt_is_power_of_two(uint64_t value)
{
    return value && !(value & (value - 1));
}

/* The smallest power of two that is >= value; value in [1, 2^63]. */
static inline uint64_t dt_round_up_power_of_two(uint64_t value)
{
    return value <= 1 ? 1 : 1ull << (64 - __builtin_clzll(value - 1));
}

#endif
