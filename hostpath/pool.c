/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/pool.h"

#include <stdbool.h>
#include <string.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/node_memory.h"
#include "base/util.h"

#define WORD_BITS 64u

enum dt_status dt_pool_open(struct dt_pool *pool, uint64_t bytes)
{
    uint64_t each = dt_round_up_power_of_two((bytes + DT_POOL_GRANULES_MAX - 1) / DT_POOL_GRANULES_MAX);

    memset(pool, 0, sizeof *pool);
    pool->granule_bytes = dt_max_u64(each, DT_POOL_GRANULE_BYTES_MIN);
    pool->granule_count = (uint32_t)dt_max_u64(bytes / pool->granule_bytes, 1);
    DT_CHECK(pool->granule_count <= DT_POOL_GRANULES_MAX);
    pool->bytes = pool->granule_count * pool->granule_bytes;
    pool->base = dt_node_memory_alloc(pool->bytes, -1);
    return pool->base ? DT_OK : DT_NO_MEMORY;
}

void dt_pool_prefer(struct dt_pool *pool, int32_t numa_node)
{
    dt_node_memory_prefer(pool->base, pool->bytes, numa_node);
}

void dt_pool_close(struct dt_pool *pool)
{
    dt_node_memory_free(pool->base, pool->bytes);
    pool->base = NULL;
}

static uint64_t mask_of(uint32_t first, uint32_t count)
{
    return (count == WORD_BITS ? ~0ull : (1ull << count) - 1) << first;
}

/* The number of granules, of `count` from `first`, in the bitmap word of `first`. */
static uint32_t in_word(uint32_t first, uint32_t count)
{
    return (uint32_t)dt_min_u64(WORD_BITS - first % WORD_BITS, count);
}

static void clear(struct dt_pool *pool, uint32_t first, uint32_t count)
{
    while (count > 0) {
        uint32_t n = in_word(first, count);

        uint64_t mask = mask_of(first % WORD_BITS, n);
        uint64_t before = __atomic_fetch_and(&pool->taken[first / WORD_BITS], ~mask, __ATOMIC_ACQ_REL);

        DT_CHECK((before & mask) == mask);
        first += n;
        count -= n;
    }
}

/* Takes all of the granules; false, and none: another thread has one. */
static bool claim(struct dt_pool *pool, uint32_t first, uint32_t count)
{
    uint32_t at = first, left = count;

    while (left > 0) {
        uint32_t n = in_word(at, left);
        uint64_t mask = mask_of(at % WORD_BITS, n);
        uint64_t *word = &pool->taken[at / WORD_BITS];
        uint64_t before = dt_load_relaxed(word);

        while (!(before & mask)) {
            if (dt_compare_swap(word, &before, before | mask))
                break;
        }
        if (before & mask) {
            clear(pool, first, at - first);
            return false;
        }
        at += n;
        left -= n;
    }
    return true;
}

/* The first taken granule in [first, end), or `end`. */
static uint32_t next_taken(const struct dt_pool *pool, uint32_t first, uint32_t end)
{
    while (first < end) {
        uint64_t word = dt_load_relaxed(&pool->taken[first / WORD_BITS]) >> first % WORD_BITS;

        if (word)
            return (uint32_t)dt_min_u64(first + (uint32_t)__builtin_ctzll(word), end);
        first += WORD_BITS - first % WORD_BITS;
    }
    return end;
}

static uint32_t next_free(const struct dt_pool *pool, uint32_t first)
{
    while (first < pool->granule_count) {
        uint64_t word = ~dt_load_relaxed(&pool->taken[first / WORD_BITS]) >> first % WORD_BITS;

        if (word)
            return first + (uint32_t)__builtin_ctzll(word);
        first += WORD_BITS - first % WORD_BITS;
    }
    return pool->granule_count;
}

static uint64_t granules_for(const struct dt_pool *pool, uint64_t bytes)
{
    return (bytes + pool->granule_bytes - 1) / pool->granule_bytes;
}

void *dt_pool_alloc(struct dt_pool *pool, uint64_t bytes)
{
    uint64_t count = granules_for(pool, bytes);
    uint32_t first = next_free(pool, 0);

    DT_CHECK(count > 0);
    while (count <= pool->granule_count && first <= pool->granule_count - count) {
        uint32_t end = first + (uint32_t)count;
        uint32_t taken = next_taken(pool, first, end);

        if (taken == end && claim(pool, first, (uint32_t)count))
            return pool->base + first * pool->granule_bytes;
        first = next_free(pool, taken == end ? first : taken);
    }
    return NULL;
}

void dt_pool_free(struct dt_pool *pool, void *run, uint64_t bytes)
{
    uint64_t offset = (uint64_t)((uint8_t *)run - pool->base);

    DT_CHECK(bytes > 0 && offset < pool->bytes && bytes <= pool->bytes - offset &&
             offset % pool->granule_bytes == 0);
    clear(pool, (uint32_t)(offset / pool->granule_bytes), (uint32_t)granules_for(pool, bytes));
}

uint32_t dt_pool_taken(const struct dt_pool *pool)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i * WORD_BITS < pool->granule_count; i++)
        count += (uint32_t)__builtin_popcountll(dt_load_relaxed(&pool->taken[i]));
    return count;
}
