/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one or several calls: a stack of blocks, allocated by advancing a pointer and freed all at
 * once.
 *
 * Scratch memory goes into the same arena: take a mark, allocate, and rewind to the mark. Rewinding frees
 * all later allocations, so results must be allocated before the mark. One thread at a time.
 */
#ifndef DETOUR_SCHED_ARENA_H
#define DETOUR_SCHED_ARENA_H

#include <stddef.h>

#include "detour/sched.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_arena_block;

struct dt_arena_mark {
    struct dt_arena_block *block;
    size_t used_bytes;
};

/* `count` items of `item_bytes`, aligned for any type, zeroed. NULL when out of memory or on overflow. */
void *dt_arena_alloc(struct detour_arena *arena, size_t count, size_t item_bytes);

/* The same, not zeroed. */
void *dt_arena_alloc_raw(struct detour_arena *arena, size_t count, size_t item_bytes);

struct dt_arena_mark dt_arena_save(const struct detour_arena *arena);

/* Frees everything allocated since the mark was taken. */
void dt_arena_rewind(struct detour_arena *arena, struct dt_arena_mark mark);

/* Allocates `count` of `*pointer` into `pointer`; false when out of memory. */
#define dt_arena_new(arena, pointer, count) \
    (((pointer) = (__typeof__(pointer))dt_arena_alloc((arena), (size_t)(count), sizeof(*(pointer)))) != NULL)

#ifdef __cplusplus
}
#endif

#endif
