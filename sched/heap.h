/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A heap of devices, ordered by time, then by device number. Every device is in it at most once, and its
 * time may change in either direction.
 */
#ifndef DETOUR_SCHED_HEAP_H
#define DETOUR_SCHED_HEAP_H

#include "sched/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_heap {
    int32_t *devices;  /* the heap */
    int32_t *position; /* [device]: place in `devices`; -1: not in it */
    int64_t *time_ns;  /* [device] */
    int32_t count;
};

static inline bool dt_heap_init(struct detour_arena *arena, int32_t device_count, struct dt_heap *heap)
{
    heap->count = 0;
    if (!dt_arena_new(arena, heap->devices, device_count) ||
        !dt_arena_new(arena, heap->position, device_count) ||
        !dt_arena_new(arena, heap->time_ns, device_count))
        return false;
    for (int32_t d = 0; d < device_count; d++)
        heap->position[d] = -1;
    return true;
}

static inline bool dt_heap_precedes(const struct dt_heap *heap, int32_t a, int32_t b)
{
    return heap->time_ns[a] < heap->time_ns[b] || (heap->time_ns[a] == heap->time_ns[b] && a < b);
}

static inline void dt_heap_place(struct dt_heap *heap, int32_t device, int32_t at)
{
    heap->devices[at] = device;
    heap->position[device] = at;
}

/* Moves a device from the hole at `at` to where it belongs. */
static inline void dt_heap_sift(struct dt_heap *heap, int32_t device, int32_t at)
{
    for (; at > 0 && dt_heap_precedes(heap, device, heap->devices[(at - 1) / 2]); at = (at - 1) / 2)
        dt_heap_place(heap, heap->devices[(at - 1) / 2], at);
    for (;;) {
        int32_t child = 2 * at + 1;
        if (child + 1 < heap->count && dt_heap_precedes(heap, heap->devices[child + 1], heap->devices[child]))
            child++;
        if (child >= heap->count || !dt_heap_precedes(heap, heap->devices[child], device))
            break;
        dt_heap_place(heap, heap->devices[child], at);
        at = child;
    }
    dt_heap_place(heap, device, at);
}

static inline void dt_heap_remove(struct dt_heap *heap, int32_t device)
{
    int32_t at = heap->position[device];

    if (at < 0)
        return;
    heap->position[device] = -1;
    int32_t last = heap->devices[--heap->count];
    if (last != device)
        dt_heap_sift(heap, last, at);
}

/* Puts a device in, or moves it if it is there. */
static inline void dt_heap_set(struct dt_heap *heap, int32_t device, int64_t time_ns)
{
    int32_t at = heap->position[device];

    heap->time_ns[device] = time_ns;
    dt_heap_sift(heap, device, at < 0 ? heap->count++ : at);
}

/* Takes the first device out; -1 if there is none. */
static inline int32_t dt_heap_pop(struct dt_heap *heap)
{
    if (!heap->count)
        return -1;
    int32_t device = heap->devices[0];
    dt_heap_remove(heap, device);
    return device;
}

#ifdef __cplusplus
}
#endif

#endif
