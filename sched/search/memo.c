/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/search/memo.h"

#include <string.h>

#include "base/util.h"

enum { F = DETOUR_OP_F, B = DETOUR_OP_B, W = DETOUR_OP_W };

enum {
    CHUNK_BYTES = 1 << 20,
    CHUNK_COUNT_MAX = 256,
    /* Entries with the same counts that are looked at; the newest, which are the likeliest to be as good. */
    COMPARISONS_MAX = 64,
};

struct dt_memo_entry {
    struct dt_memo_entry *next;
    uint64_t hash;
    size_t count;
    /* F's and B's per stage; then -W's per stage, devices free, inputs in progress, limited links free. */
    int64_t numbers[];
};

struct dt_memo_bucket {
    struct dt_memo_entry *newest;
};

struct dt_memo_chunk {
    struct dt_memo_chunk *next;
    size_t bytes;
    _Alignas(16) unsigned char data[];
};

static uint64_t hash_of(const struct dt_shop *shop, const struct dt_shop_state *state)
{
    uint64_t hash = 0;

    for (int32_t i = 0; i < shop->p->stage_count; i++) {
        hash = (hash ^ (uint64_t)state->done[F][i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
        hash = (hash ^ (uint64_t)state->done[B][i]) * 0xbf58476d1ce4e5b9u;
        hash ^= hash >> 32;
    }
    return hash;
}

/* The earliest head of what the device has left; when it is free if there is nothing. */
static int64_t device_head_ns(const struct dt_bound *bound, const struct dt_shop_state *state, int32_t device)
{
    const struct dt_problem *p = bound->shop->p;
    int64_t head_ns = DT_FOREVER;

    for (int32_t k = p->device_first[device]; k < p->device_first[device + 1]; k++) {
        int32_t i = p->device_stages[k];
        for (int kind = F; kind <= W; kind++) {
            int32_t j = state->done[kind][i];
            if (j < p->microbatch_count && bound->head_ns[kind][dt_shop_cell(bound->shop, i, j)] < head_ns)
                head_ns = bound->head_ns[kind][dt_shop_cell(bound->shop, i, j)];
        }
    }
    return head_ns == DT_FOREVER ? state->free_ns[device] : head_ns;
}

/* The numbers of a state; with `bound`, those by which a new one is judged. Returns how many. */
static size_t describe(const struct dt_shop *shop, const struct dt_shop_state *state,
                       const struct dt_bound *bound, int64_t *numbers)
{
    const struct dt_problem *p = shop->p;
    const int32_t *f = state->done[F], *b = state->done[B];
    const int64_t *input_f_ns = bound ? bound->head_ns[F] : state->input_f_ns;
    const int64_t *input_b_ns = bound ? bound->head_ns[B] : state->input_b_ns;
    int64_t *at = numbers;

    for (int32_t i = 0; i < p->stage_count; i++)
        *at++ = ((int64_t)f[i] << 32) + b[i];
    for (int32_t i = 0; i < p->stage_count; i++)
        *at++ = -(int64_t)state->done[W][i];
    for (int32_t d = 0; d < p->device_count; d++)
        *at++ = bound ? device_head_ns(bound, state, d) : state->free_ns[d];
    for (int32_t i = 1; i < p->stage_count; i++)
        for (int32_t j = f[i]; j < f[i - 1]; j++)
            *at++ = input_f_ns[dt_shop_cell(shop, i, j)];
    for (int32_t i = 0; i + 1 < p->stage_count; i++)
        for (int32_t j = b[i]; j < b[i + 1]; j++)
            *at++ = input_b_ns[dt_shop_cell(shop, i, j)];
    for (int32_t i = 0; p->serial && i < p->stage_count; i++) {
        *at++ = state->link_f_ns[i];
        *at++ = state->link_b_ns[i];
    }
    return (size_t)(at - numbers);
}

static size_t numbers_max(const struct dt_problem *p)
{
    return 4 * (size_t)p->stage_count + (size_t)p->device_count + 2 * dt_cell_count(p);
}

enum detour_status dt_memo_init(struct dt_call *call, const struct dt_shop *shop, size_t entry_count,
                                struct dt_memo *memo)
{
    *memo = (struct dt_memo){.call = call, .shop = shop};
    if (entry_count > (size_t)1 << 18)
        entry_count = (size_t)1 << 18;
    memo->bucket_count = (size_t)dt_round_up_power_of_two(entry_count + 1);
    if (!dt_arena_new(call->arena, memo->buckets, memo->bucket_count) ||
        !dt_arena_new(call->arena, memo->scratch, numbers_max(shop->p)))
        return dt_fail_memory(call->error);
    return DETOUR_OK;
}

void dt_memo_clear(struct dt_memo *memo)
{
    memset(memo->buckets, 0, memo->bucket_count * sizeof(*memo->buckets));
    memo->current = memo->chunks;
    memo->used_bytes = 0;
}

static struct dt_memo_bucket *bucket_of(const struct dt_memo *memo, uint64_t hash)
{
    return &memo->buckets[hash & (memo->bucket_count - 1)];
}

bool dt_memo_has(const struct dt_memo *memo, const struct dt_shop_state *state)
{
    uint64_t hash = hash_of(memo->shop, state);

    for (const struct dt_memo_entry *entry = bucket_of(memo, hash)->newest; entry; entry = entry->next)
        if (entry->hash == hash)
            return true;
    return false;
}

bool dt_memo_dominates(struct dt_memo *memo, const struct dt_bound *bound, const struct dt_shop_state *state)
{
    uint64_t hash = hash_of(memo->shop, state);
    size_t count = describe(memo->shop, state, bound, memo->scratch);
    size_t counters_bytes = (size_t)memo->shop->p->stage_count * sizeof(*memo->scratch);
    int32_t compared = 0;

    for (const struct dt_memo_entry *entry = bucket_of(memo, hash)->newest; entry; entry = entry->next) {
        size_t k = 0;
        if (entry->hash != hash || entry->count != count ||
            memcmp(entry->numbers, memo->scratch, counters_bytes) != 0)
            continue;
        while (k < count && entry->numbers[k] <= memo->scratch[k])
            k++;
        if (k == count)
            return true;
        if (++compared == COMPARISONS_MAX)
            return false;
    }
    return false;
}

/* Room for an entry, or NULL. */
static void *allocate(struct dt_memo *memo, size_t bytes)
{
    if (!memo->current || memo->current->bytes - memo->used_bytes < bytes) {
        struct dt_memo_chunk **next = memo->current ? &memo->current->next : &memo->chunks;
        if (!*next) {
            size_t chunk_bytes = bytes > CHUNK_BYTES ? (size_t)dt_align_up(bytes, 16) : CHUNK_BYTES;
            if (memo->chunk_count == CHUNK_COUNT_MAX)
                return NULL;
            *next = dt_arena_alloc_raw(memo->call->arena, 1, sizeof(**next) + chunk_bytes);
            if (!*next)
                return NULL;
            **next = (struct dt_memo_chunk){.bytes = chunk_bytes};
            memo->chunk_count++;
        }
        if ((*next)->bytes < bytes)
            return NULL;
        memo->current = *next;
        memo->used_bytes = 0;
    }
    void *memory = memo->current->data + memo->used_bytes;
    memo->used_bytes += (size_t)dt_align_up(bytes, 16);
    return memory;
}

void dt_memo_add(struct dt_memo *memo, const struct dt_shop_state *state)
{
    size_t count = describe(memo->shop, state, NULL, memo->scratch);
    uint64_t hash = hash_of(memo->shop, state);
    struct dt_memo_entry *entry = allocate(memo, sizeof(*entry) + count * sizeof(*entry->numbers));

    if (!entry)
        return;
    *entry = (struct dt_memo_entry){.next = bucket_of(memo, hash)->newest, .hash = hash, .count = count};
    memcpy(entry->numbers, memo->scratch, count * sizeof(*entry->numbers));
    bucket_of(memo, hash)->newest = entry;
}
