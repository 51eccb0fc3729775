/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Index arithmetic of a ring of a power of two slots with one producer and one consumer. The ring owns no
 * memory: slots lie in an array of the caller's. Counters run freely and wrap at 2^32.
 *
 * One thread may produce while another consumes: each side writes its own counter with release and reads the
 * other side's with acquire, so the consumer sees what the producer stored in a slot before the push.
 */
#ifndef DETOUR_BASE_RING_H
#define DETOUR_BASE_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/util.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_ring {
    uint32_t head;  /* next to produce; written by the producer */
    uint32_t tail;  /* next to consume; written by the consumer */
    uint32_t count; /* slots, a power of two <= 2^31 */
};

static inline void dt_ring_init(struct dt_ring *ring, uint32_t count)
{
    DT_CHECK(dt_is_power_of_two(count));
    ring->head = 0;
    ring->tail = 0;
    ring->count = count;
}

/* Producer: free slots. */
static inline uint32_t dt_ring_room(const struct dt_ring *ring)
{
    return ring->count - (ring->head - dt_load_acquire(&ring->tail));
}

/* Consumer: filled slots. */
static inline uint32_t dt_ring_used(const struct dt_ring *ring)
{
    return dt_load_acquire(&ring->head) - ring->tail;
}

/* Producer: the slot to fill next; only valid when dt_ring_room() > 0. */
static inline uint32_t dt_ring_back(const struct dt_ring *ring)
{
    return ring->head & (ring->count - 1);
}

/* Producer: publishes the filled slot. */
static inline void dt_ring_push(struct dt_ring *ring)
{
    dt_store_release(&ring->head, ring->head + 1);
}

/* Consumer: the oldest filled slot; only valid when dt_ring_used() > 0. */
static inline uint32_t dt_ring_front(const struct dt_ring *ring)
{
    return ring->tail & (ring->count - 1);
}

/* Consumer: frees the slot. */
static inline void dt_ring_pop(struct dt_ring *ring)
{
    dt_store_release(&ring->tail, ring->tail + 1);
}

#ifdef __cplusplus
}
#endif

#endif
