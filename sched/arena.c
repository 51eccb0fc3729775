/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

enum { ALIGN_BYTES = 16, BLOCK_BYTES_MIN = 64 * 1024 };

/* Blocks form a list in the order of use; the blocks after `current` are empty and kept for reuse. */
struct dt_arena_block {
    struct dt_arena_block *next;
    size_t bytes;
    size_t used_bytes;
    _Alignas(ALIGN_BYTES) unsigned char data[];
};

struct detour_arena {
    struct dt_arena_block *first;
    struct dt_arena_block *current; /* NULL while there is no block */
};

struct detour_arena *detour_arena_create(void)
{
    return calloc(1, sizeof(struct detour_arena));
}

void detour_arena_reset(struct detour_arena *arena)
{
    dt_arena_rewind(arena, (struct dt_arena_mark){NULL, 0});
}

void detour_arena_destroy(struct detour_arena *arena)
{
    if (!arena)
        return;
    for (struct dt_arena_block *block = arena->first, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(arena);
}

/*
 * A block with room for `bytes` after the current one: a kept block if it is large enough, else a new one.
 */
static struct dt_arena_block *next_block(struct detour_arena *arena, size_t bytes)
{
    struct dt_arena_block **link = arena->current ? &arena->current->next : &arena->first;
    struct dt_arena_block *block = *link;

    if (!block || block->bytes < bytes) {
        /* Doubling keeps the number of blocks small. */
        size_t want = arena->current ? 2 * arena->current->bytes : BLOCK_BYTES_MIN;
        if (want < bytes || want > SIZE_MAX / 4)
            want = bytes;
        block = malloc(sizeof(*block) + want);
        if (!block)
            return NULL;
        block->bytes = want;
        block->next = *link;
        *link = block;
    }
    block->used_bytes = 0;
    arena->current = block;
    return block;
}

void *dt_arena_alloc_raw(struct detour_arena *arena, size_t count, size_t item_bytes)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, item_bytes, &bytes) || bytes > SIZE_MAX / 4)
        return NULL;
    bytes = (size_t)dt_align_up(bytes ? bytes : 1, ALIGN_BYTES);

    struct dt_arena_block *block = arena->current;
    if (!block || block->bytes - block->used_bytes < bytes)
        block = next_block(arena, bytes);
    if (!block)
        return NULL;
    void *memory = block->data + block->used_bytes;
    block->used_bytes += bytes;
    return memory;
}

void *dt_arena_alloc(struct detour_arena *arena, size_t count, size_t item_bytes)
{
    void *memory = dt_arena_alloc_raw(arena, count, item_bytes);

    return memory ? memset(memory, 0, count * item_bytes) : NULL;
}

struct dt_arena_mark dt_arena_save(const struct detour_arena *arena)
{
    return (struct dt_arena_mark){arena->current, arena->current ? arena->current->used_bytes : 0};
}

void dt_arena_rewind(struct detour_arena *arena, struct dt_arena_mark mark)
{
    arena->current = mark.block;
    if (mark.block)
        mark.block->used_bytes = mark.used_bytes;
}
